//! Joining: the Node object a kubelet registers, and its conditions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use karpenter_model::clock::{later, since};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Ailment, Behaviour, Machine, Pass, allocatable};
use crate::{
    apiserver::object::rfc3339,
    kube_system::VOLUME_DRIVER as DRIVER,
    userdata::{self, Bootstrap},
};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl Pass<'_> {
    /// Registers the Node of a machine that has booted.
    pub(super) async fn join(&mut self, machine: &Machine) {
        let options = &self.agent.options;
        if !self.is_due(later(
            machine.launched_at,
            options.on(machine, options.boot) + machine.difference.joins_later,
        )) {
            return;
        }
        let bootstrap = match self.bootstrap(machine) {
            Ok(bootstrap) => bootstrap,
            Err(complaint) => {
                let instance = machine.instance_id.clone();
                let before = self.notes.lock().complaints.insert(instance, complaint.clone());
                if before.as_ref() != Some(&complaint) {
                    tracing::warn!(instance = machine.instance_id, "the machine does not join: {complaint}");
                }
                return;
            }
        };
        let object = node(machine, &bootstrap, &self.agent.options.version, &rfc3339(self.now));
        let object: Node = serde_json::from_value(object).expect("invariant: a valid Node");
        let created = self.nodes().create(&PostParams::default(), &object).await;
        if let (Ok(node), Some(limit)) = (&created, machine.difference.volumes) {
            self.state_limit(node, limit).await;
        }
        self.report("join", &machine.private_dns_name, created);
    }

    /// Registers the driver of volumes, which states how many of them a Node attaches.
    async fn state_limit(&mut self, node: &Node, limit: u32) {
        let name = node.name_any();
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid()});
        let stated = json!({
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": limit}}]},
        });
        let stated: CSINode = serde_json::from_value(stated).expect("invariant: a valid CSINode");
        let nodes: Api<CSINode> = Api::all(self.agent.client.clone());
        let created = nodes.create(&PostParams::default(), &stated).await;
        self.report("register the driver of volumes", &name, created);
    }

    fn bootstrap(&self, machine: &Machine) -> Result<Bootstrap, String> {
        let bootstrap = userdata::parse(&machine.user_data).map_err(|error| error.to_string())?;
        let wanted = &self.agent.options.cluster_name;
        if !wanted.is_empty() && bootstrap.cluster_name != *wanted {
            return Err(format!(
                "its user data names the cluster `{}`, this is `{wanted}`",
                bootstrap.cluster_name
            ));
        }
        Ok(bootstrap)
    }

    /// Brings the Node of a machine that was rebooted up again: its kubelet goes quiet, and after the time of a boot reports
    /// another boot id. Returns whether the kubelet runs.
    pub(super) async fn keep_booted(&mut self, node: &Node, machine: &Machine) -> bool {
        let reported = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let wanted = boot_id(machine);
        if reported.is_none_or(|info| info.boot_id == wanted) {
            return true;
        }
        let name = node.name_any();
        let status = if is_ready(node) {
            json!({"conditions": [ready(false, &rfc3339(self.now))]})
        } else {
            let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
            let shown = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
            let down = shown.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
            let boot = self.agent.options.on(machine, self.agent.options.boot);
            if down.is_some_and(|down| !self.is_due(later(down, boot))) {
                return false;
            }
            json!({"nodeInfo": {"bootID": wanted}})
        };
        let patch = Patch::Strategic(json!({"status": status}));
        let patched = self.nodes().patch_status(&name, &PatchParams::default(), &patch).await;
        self.report("report a boot", &name, patched);
        false
    }

    /// Makes the `Ready` condition say what it should.
    pub(super) async fn keep_ready(&mut self, node: &Node, machine: &Machine, behaviour: Behaviour) {
        let registered = node.creation_timestamp().map_or(machine.launched_at, |t| t.0);
        let (options, difference) = (&self.agent.options, &machine.difference);
        let after = options.on(machine, options.ready) + difference.ready_later;
        let grown = self.is_due(later(registered, after));
        let up = difference.flaps.is_none_or(|flaps| {
            let (up, lasts) = flaps.at(since(registered, self.now));
            let _not_yet = self.is_due(later(self.now, lasts));
            up
        });
        let wanted = behaviour == Behaviour::Healthy && up && (grown || is_ready(node));
        let says = condition(node, "Ready");
        if says == Some(if wanted { "True" } else { "False" }) {
            return;
        }
        let now = rfc3339(self.now);
        let patch = json!({"status": {"conditions": [ready(wanted, &now)]}});
        let patched = self
            .nodes()
            .patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        self.report("report readiness", &node.name_any(), patched);
    }
}

impl Pass<'_> {
    /// Makes the condition say what the agent of node health sees.
    pub(super) async fn keep_health(&mut self, node: &Node, machine: &Machine) {
        let Some((Ailment { condition: kind, reason, .. }, lasts)) = self.agent.ailment(machine) else {
            return;
        };
        let (status, reason) = if lasts { ("False", reason.as_str()) } else { ("True", "Recovered") };
        if condition(node, &kind) == Some(status) {
            return;
        }
        let now = rfc3339(self.now);
        let says = json!({
            "type": kind, "status": status, "reason": reason, "message": reason,
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [says]}}));
        let name = node.name_any();
        let patched = self.nodes().patch_status(&name, &PatchParams::default(), &patch).await;
        self.report("report health", &name, patched);
    }

    /// Sets and takes off the labels of a Node that differ, as another controller does it.
    pub(super) async fn keep_labels(&mut self, node: &Node, machine: &Machine) {
        let difference = &machine.difference;
        let has = node.labels();
        let set = difference.labels.iter().filter(|(key, value)| has.get(*key) != Some(*value));
        let off = difference.without_labels.iter().filter(|key| has.contains_key(*key));
        let changes: BTreeMap<&String, Option<&String>> =
            set.map(|(key, value)| (key, Some(value))).chain(off.map(|key| (key, None))).collect();
        if changes.is_empty() {
            return;
        }
        let patch = Patch::Merge(json!({"metadata": {"labels": changes}}));
        let patched = self.nodes().patch(&node.name_any(), &PatchParams::default(), &patch).await;
        self.report("change labels", &node.name_any(), patched);
    }
}

/// Returns the id of the present boot of `machine`.
fn boot_id(machine: &Machine) -> String {
    match machine.reboots {
        0 => machine.instance_id.clone(),
        reboots => format!("{}-{reboots}", machine.instance_id),
    }
}

/// Returns whether the node has the condition `Ready`.
pub(super) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready") == Some("True")
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == kind).map(|c| c.status.as_str())
}

/// The Node as a kubelet with this bootstrap registers it. It arrives with the taint that kube-apiserver puts on every
/// new node; the node life cycle controller takes it off again.
fn node(machine: &Machine, bootstrap: &Bootstrap, version: &str, now: &str) -> Value {
    let taints = bootstrap.taints.iter().chain(&machine.difference.taints);
    let mut taints: Vec<Value> =
        taints.map(|t| json!({"key": t.key, "value": t.value, "effect": t.effect.as_str()})).collect();
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    json!({
        "metadata": {
            "name": machine.private_dns_name,
            "labels": labels(machine, bootstrap),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"providerID": machine.provider_id, "taints": taints},
        "status": {
            "capacity": allocatable::capacity(machine, bootstrap),
            "allocatable": allocatable::allocatable(machine, bootstrap),
            "addresses": [
                {"type": "InternalIP", "address": machine.private_ip},
                {"type": "InternalDNS", "address": machine.private_dns_name},
                {"type": "Hostname", "address": machine.private_dns_name},
            ],
            "conditions": conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10_250}},
            "nodeInfo": {
                "architecture": machine.architecture, "operatingSystem": machine.operating_system,
                "kubeletVersion": version, "kubeProxyVersion": version, "osImage": "simulated",
                "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.12.0",
                "machineID": machine.instance_id, "systemUUID": machine.instance_id, "bootID": boot_id(machine),
            },
        },
    })
}

/// Labels the kubelet and the cloud set by themselves win over those of the user data.
fn labels(machine: &Machine, bootstrap: &Bootstrap) -> BTreeMap<String, String> {
    let mut labels = bootstrap.labels.clone();
    let own = [
        ("kubernetes.io/arch", &machine.architecture),
        ("kubernetes.io/os", &machine.operating_system),
        ("kubernetes.io/hostname", &machine.private_dns_name),
        ("beta.kubernetes.io/arch", &machine.architecture),
        ("beta.kubernetes.io/os", &machine.operating_system),
        ("beta.kubernetes.io/instance-type", &machine.instance_type),
        ("node.kubernetes.io/instance-type", &machine.instance_type),
        ("failure-domain.beta.kubernetes.io/region", &machine.region),
        ("failure-domain.beta.kubernetes.io/zone", &machine.zone),
        // The driver of EBS, which volumes ask for.
        ("topology.ebs.csi.aws.com/zone", &machine.zone),
        ("topology.kubernetes.io/region", &machine.region),
        ("topology.kubernetes.io/zone", &machine.zone),
        ("topology.k8s.aws/zone-id", &machine.zone_id),
    ];
    let known = own.into_iter().filter(|(_, value)| !value.is_empty());
    labels.extend(known.map(|(key, value)| (key.to_owned(), value.clone())));
    labels.extend(machine.difference.labels.clone());
    labels.retain(|key, _| !machine.difference.without_labels.contains(key));
    labels
}

fn conditions(now: &str) -> Vec<Value> {
    let fine = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "False", "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    vec![
        fine("MemoryPressure", "KubeletHasSufficientMemory"),
        fine("DiskPressure", "KubeletHasNoDiskPressure"),
        fine("PIDPressure", "KubeletHasSufficientPID"),
        ready(false, now),
    ]
}

fn ready(is_ready: bool, now: &str) -> Value {
    let (status, reason, message) = if is_ready {
        ("True", "KubeletReady", "kubelet is posting ready status")
    } else {
        ("False", "KubeletNotReady", "container runtime network not ready")
    };
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}
