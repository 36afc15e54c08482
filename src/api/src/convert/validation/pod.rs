//! Pods, and the templates of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Volume};
use karpenter_model::resources::HUGE_PAGES_PREFIX;

use super::amounts::{self, Of};
use super::container::{containers, name};
use super::{Found, affinity, cluster, names};

/// Checks a pod.
pub(super) fn pod(one: &Pod, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    of_spec(&spec, &[], "spec", found);
    // Of a template it is no fault.
    for (path, container) in all_containers(&spec, "spec") {
        let image = container.image.as_deref().unwrap_or_default();
        if image.trim() != image {
            found.invalid(&format!("{path}.image"), image, "must not have leading or trailing whitespace");
        }
    }
    if spec.node_name.is_some() && spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        found.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
}

/// Checks a template of pods.
pub(super) fn template(one: &PodTemplateSpec, path: &str, found: &mut Found) {
    template_with(one, &[], path, found);
}

/// Checks a template of pods that also have volumes of these names.
pub(super) fn template_with(one: &PodTemplateSpec, volumes: &[&str], path: &str, found: &mut Found) {
    if let Some(metadata) = &one.metadata {
        names::labels(metadata.labels.as_ref(), &format!("{path}.metadata.labels"), found);
        names::annotations(metadata.annotations.as_ref(), &format!("{path}.metadata.annotations"), found);
    }
    of_spec(&one.spec.clone().unwrap_or_default(), volumes, &format!("{path}.spec"), found);
}

fn of_spec(spec: &PodSpec, more: &[&str], path: &str, found: &mut Found) {
    let own = volumes(spec.volumes.as_deref().unwrap_or_default(), &format!("{path}.volumes"), found);
    let there: BTreeSet<&str> = own.into_iter().chain(more.iter().copied()).collect();
    if spec.containers.is_empty() {
        found.required(&format!("{path}.containers"), "");
    }
    let mut taken = BTreeSet::new();
    containers(&spec.containers, false, &format!("{path}.containers"), &mut taken, &there, found);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    containers(init, true, &format!("{path}.initContainers"), &mut taken, &there, found);
    let policies = ["Always", "OnFailure", "Never"];
    found.one_of(&format!("{path}.restartPolicy"), spec.restart_policy.as_ref(), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    found.one_of(&format!("{path}.dnsPolicy"), spec.dns_policy.as_ref(), &policies);
    host_ports(spec, path, found);
    affinity::placement(spec, path, found);
    gates(spec, path, found);
    claims(spec, path, found);
    if spec.dns_policy.as_deref() == Some("None") && spec.dns_config.is_none() {
        found.required(&format!("{path}.dnsConfig"), "must provide `dnsConfig` when `dnsPolicy` is None");
    }
    let references = [
        ("priorityClassName", &spec.priority_class_name),
        ("runtimeClassName", &spec.runtime_class_name),
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
    ];
    for (field, name) in references {
        let wrong = name.as_ref().filter(|name| !name.is_empty());
        if let Some((name, why)) = wrong.and_then(|name| Some((name, names::subdomain(name)?))) {
            found.invalid(&format!("{path}.{field}"), name.as_str(), why);
        }
    }
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| *seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        found.invalid(&format!("{path}.activeDeadlineSeconds"), seconds, why);
    }
    for (name, amount) in spec.overhead.iter().flatten() {
        amounts::amount_of(name, amount, &format!("{path}.overhead[{name}]"), found);
    }
    resources(spec, path, found);
}

/// Checks the amounts of a pod, of its containers and as a whole.
pub(super) fn resources(spec: &PodSpec, path: &str, found: &mut Found) {
    for (path, one) in all_containers(spec, path) {
        if let Some(resources) = &one.resources {
            amounts::requirements(Of::Container, resources, &format!("{path}.resources"), found);
        }
    }
    as_a_whole(spec, path, found);
}

fn volumes<'a>(list: &'a [Volume], path: &str, found: &mut Found) -> BTreeSet<&'a str> {
    let mut taken = BTreeSet::new();
    for (index, one) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        name(&one.name, &format!("{path}.name"), found);
        if !one.name.is_empty() && !taken.insert(one.name.as_str()) {
            found.duplicate(&format!("{path}.name"), one.name.as_str());
        }
        volume_source(one, &path, found);
        if one.persistent_volume_claim.as_ref().is_some_and(|claim| claim.claim_name.is_empty()) {
            found.required(&format!("{path}.persistentVolumeClaim.claimName"), "");
        }
        if let Some(ephemeral) = &one.ephemeral {
            let path = format!("{path}.ephemeral.volumeClaimTemplate");
            match &ephemeral.volume_claim_template {
                Some(template) => cluster::volume_claim(&template.spec, &format!("{path}.spec"), found),
                None => found.required(&path, ""),
            }
        }
    }
    taken
}

/// Checks the source of a volume: at most one, with the name of what it is made from, and permissions that there are.
fn volume_source(one: &Volume, path: &str, found: &mut Found) {
    const MODE_MAX: i32 = 0o777;
    let written = serde_json::to_value(one).unwrap_or_default();
    let sources: Vec<&String> = written
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .filter(|key| *key != "name")
        .collect();
    for more in sources.iter().skip(1) {
        found.forbidden(&format!("{path}.{more}"), "may not specify more than 1 volume type");
    }
    for (source, field) in [("hostPath", "path"), ("configMap", "name"), ("secret", "secretName")] {
        let is_named = written[source][field].as_str().is_some_and(|name| !name.is_empty());
        if written[source].is_object() && !is_named {
            found.required(&format!("{path}.{source}.{field}"), "");
        }
        let mode = written[source]["defaultMode"].as_i64();
        if let Some(mode) = mode.filter(|mode| !(0..=i64::from(MODE_MAX)).contains(mode)) {
            let why = "must be a number between 0 and 0777 (octal), both inclusive";
            found.invalid(&format!("{path}.{source}.defaultMode"), mode, why);
        }
    }
}

/// Checks the devices that a pod claims, and that containers use those alone.
fn claims(spec: &PodSpec, path: &str, found: &mut Found) {
    let mut taken = BTreeSet::new();
    for (index, one) in spec.resource_claims.iter().flatten().enumerate() {
        let path = format!("{path}.resourceClaims[{index}]");
        name(&one.name, &format!("{path}.name"), found);
        if !taken.insert(one.name.as_str()) {
            found.duplicate(&path, one.name.as_str());
        }
        if one.resource_claim_name.is_some() == one.resource_claim_template_name.is_some() {
            let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            found.invalid(&path, one.name.as_str(), why);
        }
    }
    for (path, one) in all_containers(spec, path) {
        let used = one.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
        for (index, claim) in used.enumerate().filter(|(_, claim)| !taken.contains(claim.name.as_str())) {
            found.not_found(&format!("{path}.resources.claims[{index}]"), &claim.name);
        }
    }
}

fn all_containers<'a>(spec: &'a PodSpec, path: &str) -> impl Iterator<Item = (String, &'a Container)> {
    let list = |name: &str, list: &'a [Container]| {
        let path = format!("{path}.{name}");
        list.iter().enumerate().map(move |(index, one)| (format!("{path}[{index}]"), one))
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    list("containers", &spec.containers).chain(list("initContainers", init))
}

/// Ports of the host are there once, and those of its network are what the container listens on. Init containers run one after
/// the other, and so does what they listen on.
pub(super) fn host_ports(spec: &PodSpec, path: &str, found: &mut Found) {
    let mut taken = BTreeSet::new();
    for (container, one) in spec.containers.iter().enumerate() {
        for (index, port) in one.ports.iter().flatten().enumerate() {
            let field = format!("{path}.containers[{container}].ports[{index}].hostPort");
            let host = port.host_port.unwrap_or_default();
            if host == 0 {
                continue;
            }
            if spec.host_network == Some(true) && host != port.container_port {
                found.invalid(&field, host, "must match `containerPort` when `hostNetwork` is true");
            }
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let own = format!("{protocol}/{}/{host}", port.host_ip.as_deref().unwrap_or_default());
            if !taken.insert(own.clone()) {
                found.duplicate(&field, own);
            }
        }
    }
}

fn gates(spec: &PodSpec, path: &str, found: &mut Found) {
    let mut taken = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let path = format!("{path}.schedulingGates[{index}]");
        if let Some(why) = names::qualified(&gate.name) {
            found.invalid(&format!("{path}.name"), gate.name.as_str(), why);
        }
        if !taken.insert(gate.name.as_str()) {
            found.duplicate(&path, gate.name.as_str());
        }
    }
}

/// Checks the amounts of the pod as a whole: no container may be allowed more, and all of them together may not ask for more.
fn as_a_whole(spec: &PodSpec, path: &str, found: &mut Found) {
    let Some(whole) = &spec.resources else { return };
    let field = format!("{path}.resources");
    amounts::requirements(Of::Pod, whole, &field, found);
    let asked = crate::convert::requests::container_requests(spec).unwrap_or_default();
    for (name, most) in whole.requests.iter().flatten() {
        let Some(most_read) = amounts::read(most) else { continue };
        let asked = asked.amount(name);
        if asked > most_read {
            let why = format!("must be greater than or equal to aggregate container requests of {asked}");
            found.invalid(&format!("{field}.requests[{name}]"), most.0.as_str(), &why);
        }
    }
    // Those that run one after the other before are not compared.
    for (index, one) in spec.containers.iter().enumerate() {
        let path = format!("{path}.containers[{index}]");
        let limits = one.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, limit) in
            limits.into_iter().flatten().filter(|(name, _)| !name.starts_with(HUGE_PAGES_PREFIX))
        {
            let most = whole.limits.as_ref().and_then(|limits| limits.get(name));
            let Some(most) = most else { continue };
            if amounts::read(limit).zip(amounts::read(most)).is_some_and(|(limit, most)| limit > most) {
                let why = format!("must be less than or equal to pod limits of {}", most.0);
                found.invalid(&format!("{path}.resources.limits[{name}]"), limit.0.as_str(), &why);
            }
        }
    }
}
