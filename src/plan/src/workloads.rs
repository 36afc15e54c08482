//! Pods that workloads ask for and that are not there: a manifest of a Deployment stands for its pods.
//!
//! Pods of a workload that exist already count, so a cluster with its workloads is not planned for twice, and a
//! Deployment with more replicas adds the difference; pods of a Job count after they have ended too. Pods are as the API
//! server would admit them ([`Admission`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert::{self, Admission, JobPods, Refused, first_ordinal, labels_of_pod, mount_claims};
use karpenter_model::names::{condition, label, reason};
use karpenter_model::{LabelSelector, Labels};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{ObjectKey, Objects, text};
use autoscalers::Bounds;

pub(crate) mod autoscalers;
mod claims;
pub(crate) mod roll_out;

/// Kinds whose template becomes pods.
pub(crate) const WORKLOADS: [&str; 5] =
    ["Deployment", "ReplicaSet", REPLICATION_CONTROLLER, "StatefulSet", JOB];

const JOB: &str = "Job";

const REPLICATION_CONTROLLER: &str = "ReplicationController";

/// Labels by which pods of one template differ from those of another.
const OF_TEMPLATE: [&str; 2] = [label::POD_TEMPLATE_HASH, label::CONTROLLER_REVISION_HASH];

/// Prefix of the uid of an object that is in manifests alone.
const PLANNED: &str = "planned-";

/// Most pods of a workload, and nodes of a pool: the pods that a cluster of Kubernetes is made for. A zero too many would
/// fill the memory.
const REPLICAS_MAX: u64 = 150_000;

/// A number of pods or nodes that no cluster has; says so after the name of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is {0}, and a cluster has at most {REPLICAS_MAX} pods; write fewer")]
pub struct TooMany(u64);

impl TooMany {
    /// `asked` if it is too many.
    pub fn of(asked: u64) -> Option<Self> {
        (asked > REPLICAS_MAX).then_some(Self(asked))
    }
}

/// The field in the `spec` of an object that asks for too many, and how many; `None` for all others.
pub fn too_many(object: &Value) -> Option<(&'static str, TooMany)> {
    let number = |field: &str| object["spec"][field].as_u64();
    let parallel = number("parallelism").map(|pods| pods.min(number("completions").unwrap_or(pods)));
    let asked = [("replicas", number("replicas")), ("parallelism", parallel)];
    asked.into_iter().find_map(|(field, asked)| Some((field, TooMany::of(asked?)?)))
}

/// The field with which a workload says how many pods it is to have, and what is written there, if that is no number.
pub(crate) fn no_number(object: &Value) -> Option<(&'static str, &Value)> {
    if !WORKLOADS.contains(&text(object, "/kind")) {
        return None;
    }
    let written = ["replicas", "parallelism", "completions"].map(|field| (field, &object["spec"][field]));
    written.into_iter().find(|(_, written)| !written.is_null() && !written.is_u64())
}

/// Gives the manifest of a workload that leaves `replicas` out the number of pods there are, because `kubectl apply` leaves
/// the field as an autoscaler has set it. A picture of a cluster has no workloads, so their pods say how many.
pub(crate) fn keep_replicas(objects: &Objects, key: &ObjectKey, manifest: &mut Value) {
    if key.kind == JOB || !manifest["spec"].is_object() || manifest["spec"]["replicas"].is_u64() {
        return;
    }
    let running = Own::of(objects, key, manifest).running.len();
    // Without pods, a workload of files may be scaled to none.
    let live = objects.get(key).and_then(|live| live["spec"]["replicas"].as_u64());
    if running > 0 {
        manifest["spec"]["replicas"] = json!(running);
    } else if let Some(live) = live {
        manifest["spec"]["replicas"] = json!(live);
    }
}

/// Reasons why an API server would refuse pods, with one of the pods for each.
pub(crate) type Refusals = BTreeMap<Refused, ObjectKey>;

/// Adds the pods that workloads lack, and gives pods of manifests what an API server would have given them. `scaled` are
/// the workloads whose number of pods is to be as they say, so that surplus pods go as well. Returns why an API server would
/// refuse pods of manifests.
pub(crate) fn expand(objects: &mut Objects, scaled: &[ObjectKey], at: Timestamp) -> Refusals {
    let bounds = Bounds::of(objects);
    for kind in WORKLOADS {
        let workloads: Vec<(ObjectKey, Value)> =
            objects.of_kind(kind).map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, workload) in workloads {
            if !is_owned(&workload) {
                let own = Own::of(objects, &key, &workload);
                let wanted = wanted(&key, &workload, &own, &bounds);
                complete(objects, (&key, &workload, own), (wanted, scaled.contains(&key)), at);
            }
        }
    }
    let admission = objects.admission();
    let mut refused = Refusals::new();
    for (key, pod) in objects.of_kind_mut("Pod") {
        let why = admit(key, pod, &admission, at);
        refused.extend(why.into_iter().map(|why| (why, key.clone())));
    }
    claims::make(objects);
    if let Some(class) = admission.default_storage_class() {
        for (_, claim) in objects.of_kind_mut("PersistentVolumeClaim") {
            // An empty name asks for a volume without a class.
            if claim["spec"]["storageClassName"].is_null() {
                claim["spec"]["storageClassName"] = json!(class);
            }
        }
    }
    name_namespaces(objects);
    refused
}

/// Gives namespaces the label with their name, as an API server does. Few files have the namespaces that they name.
fn name_namespaces(objects: &mut Objects) {
    let of_pods: BTreeSet<String> = objects.of_kind("Pod").map(|(key, _)| key.namespace.clone()).collect();
    for name in of_pods {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if objects.get(&ObjectKey::of(&namespace)).is_none() {
            objects.put(namespace);
        }
    }
    for (key, namespace) in objects.of_kind_mut("Namespace") {
        namespace["metadata"]["labels"][label::NAMESPACE_NAME] = json!(key.name);
    }
}

/// Returns whether `pod` runs no more and never will.
pub(crate) fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

/// Returns whether another workload makes it, whose template counts instead.
pub(crate) fn is_owned(workload: &Value) -> bool {
    let owners = workload.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["controller"] == true)
}

/// Adds the pods that a workload lacks of those that are wanted; those beyond go where exactly as many are to be there.
fn complete(
    objects: &mut Objects,
    (key, workload, own): (&ObjectKey, &Value, Own),
    (wanted, exactly): (usize, bool),
    at: Timestamp,
) {
    let present = own.running;
    if exactly {
        for surplus in present.iter().skip(wanted) {
            objects.remove(surplus);
        }
    }
    let like = present.first().and_then(|pod| objects.of_kind("Pod").find(|(key, _)| *key == pod));
    let owner = like.and_then(|(_, pod)| pod.pointer("/metadata/ownerReferences/0").cloned());
    let owner = owner.unwrap_or_else(|| owner_of(key, workload));
    // A hash of the template is not computed as Kubernetes does, so it is that of a pod there is.
    let of_template = like.map(|(_, pod)| labels_of(pod)).unwrap_or_default();
    let of_template: Labels =
        of_template.into_iter().filter(|(key, _)| OF_TEMPLATE.contains(&key.as_str())).collect();
    let mut taken: BTreeSet<&str> = present.iter().map(|pod| pod.name.as_str()).collect();
    if key.kind == JOB {
        // A set makes its pod again under the name of one that has ended; those of a Job go on to count.
        taken.extend(own.ended.iter().map(|pod| pod.name.as_str()));
    }
    let free: Vec<(u64, String)> = (first_ordinal(workload)..)
        .map(|number| (number, format!("{}-{number}", key.name)))
        .filter(|(_, name)| !taken.contains(name.as_str()))
        .take(wanted.saturating_sub(present.len()))
        .collect();
    for (number, name) in free {
        let mut pod = pod(key, &name, workload, &owner, at);
        for (label, value) in labels_of_pod(&key.kind, workload, &name, number) {
            pod["metadata"]["labels"][label] =
                json!(of_template.get(label).map_or(value.as_str(), |of| of.as_str()));
        }
        for claim in mount_claims(workload, &key.namespace, &name, &mut pod) {
            if objects.of_kind("PersistentVolumeClaim").all(|(key, _)| *key != ObjectKey::of(&claim)) {
                objects.put(claim);
            }
        }
        objects.put(pod);
    }
}

/// Returns the number of pods that a workload is to have at once.
fn wanted(key: &ObjectKey, workload: &Value, own: &Own, bounds: &Bounds) -> usize {
    let wanted = if key.kind == JOB {
        of_job(workload, own)
    } else {
        bounds.clamp(key, workload["spec"]["replicas"].as_u64().unwrap_or(1))
    };
    usize::try_from(wanted).unwrap_or(usize::MAX)
}

/// Returns the number of pods of a Job that are to run.
fn of_job(job: &Value, own: &Own) -> u64 {
    // Files may have a Job without the pods of it that have ended, so its own count is taken, too.
    let counted = job.pointer("/status/succeeded").and_then(Value::as_u64).unwrap_or(0);
    let running = own.running.len() as u64;
    JobPods { running, succeeded: own.succeeded.max(counted), failed: own.failed }.wanted(job)
}

/// The pods of a workload.
#[derive(Default)]
struct Own {
    /// Pods that have not ended and are not going, those with a node first, then by name.
    running: Vec<ObjectKey>,
    /// Pods that have ended.
    ended: Vec<ObjectKey>,
    /// Number of them that succeeded.
    succeeded: u64,
    /// Number of them that failed.
    failed: u64,
}

impl Own {
    fn of(objects: &Objects, key: &ObjectKey, workload: &Value) -> Self {
        let selector = selector_of(key, workload);
        let is_its = |pod: &Value| {
            if let Some(selector) = &selector {
                return selector.matches(&labels_of(pod));
            }
            // A Job selects its pods by a label the API server adds.
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let is_it = |owner: &Value| owner["kind"] == *key.kind && owner["name"] == *key.name;
            owners.into_iter().flatten().any(is_it)
        };
        let pods = objects.of_kind("Pod").filter(|(pod, _)| pod.namespace == key.namespace);
        let mut own = Self::default();
        let mut running: Vec<(bool, &ObjectKey)> = Vec::new();
        for (key, pod) in pods.filter(|(_, pod)| is_its(pod)) {
            match text(pod, "/status/phase") {
                "Succeeded" => {
                    own.succeeded += 1;
                    own.ended.push(key.clone());
                }
                "Failed" => {
                    own.failed += 1;
                    own.ended.push(key.clone());
                }
                _ if pod["metadata"].get("deletionTimestamp").is_some() => {}
                _ => running.push((text(pod, "/spec/nodeName").is_empty(), key)),
            }
        }
        running.sort();
        own.running = running.into_iter().map(|(_, key)| key.clone()).collect();
        own
    }
}

/// Returns the selector of a workload; none where it is the API server that adds one.
fn selector_of(key: &ObjectKey, workload: &Value) -> Option<LabelSelector> {
    let mut selector = workload["spec"].get("selector").cloned();
    if key.kind == REPLICATION_CONTROLLER {
        // Its selector is a map of labels, and by default those of its template.
        let labels = selector.unwrap_or_else(|| workload["spec"]["template"]["metadata"]["labels"].clone());
        selector = Some(json!({"matchLabels": labels}));
    }
    let selector = selector.and_then(|selector| serde_json::from_value(selector).ok());
    convert::selector(selector.as_ref())
}

/// The labels of a pod.
pub(crate) fn labels_of(pod: &Value) -> Labels {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into())).collect()
}

/// Pods of a Deployment belong to a ReplicaSet that nothing here has made yet.
fn owner_of(key: &ObjectKey, workload: &Value) -> Value {
    let (version, kind) = match key.kind.as_str() {
        "Deployment" => ("apps/v1", "ReplicaSet"),
        "Job" => ("batch/v1", "Job"),
        REPLICATION_CONTROLLER => ("v1", REPLICATION_CONTROLLER),
        kind => ("apps/v1", kind),
    };
    let own = text(workload, "/metadata/uid");
    let uid = if own.is_empty() { planned_uid(key) } else { own.to_owned() };
    json!({"apiVersion": version, "kind": kind, "name": key.name, "uid": uid, "controller": true})
}

fn planned_uid(key: &ObjectKey) -> String {
    format!("{PLANNED}{}-{}-{}", key.kind.to_lowercase(), key.namespace, key.name)
}

/// Returns whether no API server has admitted `object`.
pub(crate) fn is_planned(object: &Value) -> bool {
    text(object, "/metadata/uid").starts_with(PLANNED)
}

fn pod(key: &ObjectKey, name: &str, workload: &Value, owner: &Value, at: Timestamp) -> Value {
    let template = &workload["spec"]["template"];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": key.namespace,
            "creationTimestamp": at,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    })
}

/// Adds to a pod what an API server and the scheduler would add: what admission makes of it, an identity, and that it found no
/// node. One that cannot be read stays as it is. Returns why it would be refused.
fn admit(key: &ObjectKey, pod: &mut Value, admission: &Admission, at: Timestamp) -> Vec<Refused> {
    let mut refused = Vec::new();
    // Pods that an API server has admitted are complete.
    if text(pod, "/metadata/uid").is_empty() {
        if let Ok(mut read) = Pod::deserialize(&*pod) {
            refused = admission.admit(&mut read);
            *pod = json!(read);
        }
        pod["metadata"]["uid"] = json!(planned_uid(key));
    }
    if pod.pointer("/metadata/creationTimestamp").is_none_or(Value::is_null) {
        pod["metadata"]["creationTimestamp"] = json!(at);
    }
    if has_status(pod) {
        return refused;
    }
    pod["status"] = if text(pod, "/spec/nodeName").is_empty() {
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let is_gated = gates.is_some_and(|gates| !gates.is_empty());
        let why = if is_gated { reason::SCHEDULING_GATED } else { reason::UNSCHEDULABLE };
        let waits = json!({"type": condition::POD_SCHEDULED, "status": "False", "reason": why});
        json!({"phase": "Pending", "conditions": [waits]})
    } else {
        json!({"phase": "Running"})
    };
    if let Some(claims) = claims::status_of(pod) {
        pod["status"]["resourceClaimStatuses"] = claims;
    }
    refused
}

/// Returns whether a pod says what has become of it. No API server stores the status of a manifest, so one that only says that
/// the pod is pending says nothing.
fn has_status(pod: &Value) -> bool {
    let phase = text(pod, "/status/phase");
    let mut conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let waits = ["", "Pending"].contains(&phase) && text(pod, "/spec/nodeName").is_empty();
    if is_planned(pod) && waits {
        return conditions.any(|one| one["type"] == condition::POD_SCHEDULED);
    }
    !phase.is_empty() || pod.pointer("/status/conditions").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: u64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "shop"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "api"}},
                "template": {
                    "metadata": {"labels": {"app": "api"}},
                    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
                },
            },
        })
    }

    fn running(name: &str, app: &str, node: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": app}},
            "spec": {"nodeName": node}, "status": {"phase": "Running"},
        })
    }

    fn expanded(given: Vec<Value>, scaled: &[&str]) -> Objects {
        let mut objects: Objects = given.into_iter().collect();
        let scaled: Vec<ObjectKey> = scaled
            .iter()
            .map(|name| ObjectKey {
                kind: "Deployment".into(),
                namespace: "shop".into(),
                name: (*name).to_owned(),
            })
            .collect();
        expand(&mut objects, &scaled, Timestamp::UNIX_EPOCH);
        objects
    }

    fn pods(objects: &Objects) -> Vec<&str> {
        objects.of_kind("Pod").map(|(key, _)| key.name.as_str()).collect()
    }

    #[test]
    fn a_deployment_stands_for_the_pods_it_lacks() {
        let objects =
            expanded(vec![deployment(3), running("api-x", "api", "n"), running("db-0", "db", "n")], &[]);
        assert_eq!(pods(&objects), ["api-0", "api-1", "api-x", "db-0"]);
        let (_, pod) = objects.of_kind("Pod").next().unwrap();
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1", "from the limit");
        assert_eq!(pod["status"]["conditions"][0]["reason"], reason::UNSCHEDULABLE);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    }

    #[test]
    fn a_replication_controller_stands_for_the_pods_it_lacks() {
        let mut legacy = deployment(2);
        (legacy["apiVersion"], legacy["kind"]) = (json!("v1"), json!(REPLICATION_CONTROLLER));
        for selector in [json!({"app": "api"}), Value::Null] {
            legacy["spec"]["selector"] = selector;
            let objects =
                expanded(vec![legacy.clone(), running("api-x", "api", "n"), running("db-0", "db", "n")], &[]);
            assert_eq!(pods(&objects), ["api-0", "api-x", "db-0"]);
            let (_, pod) = objects.of_kind("Pod").next().unwrap();
            let owner = &pod["metadata"]["ownerReferences"][0];
            assert_eq!((text(owner, "/apiVersion"), text(owner, "/kind")), ("v1", REPLICATION_CONTROLLER));
        }
    }

    #[test]
    fn pods_have_the_labels_that_their_controller_gives_them() {
        let labels = |objects: &Objects| -> Labels {
            let (_, pod) = objects.of_kind("Pod").find(|(key, _)| key.name.ends_with("-0")).unwrap();
            labels_of(pod)
        };
        let hash = |template: &str| {
            let mut deployment = deployment(1);
            deployment["spec"]["template"]["metadata"]["labels"]["track"] = json!(template);
            labels(&expanded(vec![deployment], &[])).get(label::POD_TEMPLATE_HASH).cloned()
        };
        assert!(hash("a").is_some() && hash("a") == hash("a") && hash("a") != hash("b"));
        let mut there = running("api-x", "api", "n");
        there["metadata"]["labels"][label::POD_TEMPLATE_HASH] = json!("6d4b75cb6d");
        let found = labels(&expanded(vec![deployment(2), there], &[]));
        assert_eq!(
            found.get(label::POD_TEMPLATE_HASH).map(karpenter_model::LabelValue::as_str),
            Some("6d4b75cb6d")
        );
    }

    #[test]
    fn an_autoscaler_decides_about_a_number_out_of_its_bounds() {
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": autoscalers::KIND, "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"minReplicas": 3, "maxReplicas": 4, "scaleTargetRef": {"kind": "Deployment", "name": "api"}},
        });
        for (written, expected) in [(json!(null), 3), (json!(9), 4), (json!(0), 0)] {
            let mut deployment = deployment(1);
            deployment["spec"]["replicas"] = written;
            assert_eq!(pods(&expanded(vec![autoscaler.clone(), deployment], &[])).len(), expected);
        }
    }

    #[test]
    fn a_stateful_set_counts_from_its_first_ordinal() {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "ordinals": {"start": 5},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
            },
        });
        assert_eq!(pods(&expanded(vec![set], &[])), ["db-5", "db-6"]);
    }

    #[test]
    fn a_template_of_claims_for_devices_makes_one_for_each_pod() {
        let template = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": "shop"}, "spec": {"spec": {"devices": {"requests": []}}},
        });
        let mut deployment = deployment(2);
        let used = json!([{"name": "dev", "resourceClaimTemplateName": "gpu"}]);
        deployment["spec"]["template"]["spec"]["resourceClaims"] = used;
        let claims = |objects: &Objects| -> Vec<String> {
            objects.of_kind("ResourceClaim").map(|(key, _)| key.name.clone()).collect()
        };
        let objects = expanded(vec![template, deployment.clone()], &[]);
        assert_eq!(claims(&objects), ["api-0-dev", "api-1-dev"]);
        let without = expanded(vec![deployment], &[]);
        assert_eq!(claims(&without), Vec::<String>::new());
        let (_, pod) = without.of_kind("Pod").next().unwrap();
        let waits_for = text(pod, "/status/resourceClaimStatuses/0/resourceClaimName");
        assert_eq!(waits_for, "api-0-dev", "a claim that is never made");
    }

    #[test]
    fn surplus_pods_go_only_when_that_is_the_question() {
        let given = || vec![deployment(1), running("api-x", "api", "n"), running("api-y", "api", "")];
        assert_eq!(pods(&expanded(given(), &[])), ["api-x", "api-y"]);
        assert_eq!(pods(&expanded(given(), &["api"])), ["api-x"], "the one with a node stays");
    }

    #[test]
    fn a_stateful_set_brings_the_claims_of_its_pods() {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}],
            },
        });
        let objects = expanded(vec![set], &[]);
        let (key, claim) = objects.of_kind("PersistentVolumeClaim").next().unwrap();
        assert_eq!((key.name.as_str(), text(claim, "/spec/storageClassName")), ("data-db-0", "gp3"));
        let (_, pod) = objects.of_kind("Pod").next().unwrap();
        assert_eq!(text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName"), "data-db-0");
    }

    #[test]
    fn pods_of_manifests_bring_the_claims_of_their_ephemeral_volumes() {
        let gp3 = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {
            "name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
        let mut of_cluster = running("api-x", "api", "n");
        let template = json!({"spec": {"accessModes": ["ReadWriteOnce"]}});
        let volumes = json!([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]);
        of_cluster["spec"]["volumes"] = volumes.clone();
        let mut of_manifest = deployment(2);
        of_manifest["spec"]["template"]["spec"]["volumes"] = volumes;
        let objects = expanded(vec![gp3, of_manifest, of_cluster], &[]);
        let claims: Vec<(&str, &str)> = objects
            .of_kind("PersistentVolumeClaim")
            .map(|(key, claim)| (key.name.as_str(), text(claim, "/spec/storageClassName")))
            .collect();
        assert_eq!(claims, [("api-0-tmp", "gp3")], "claims of pods of a cluster are made by the cluster");
    }

    #[test]
    fn a_job_runs_as_many_pods_at_once_as_it_has_left() {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"parallelism": 5, "completions": 2, "template": {"spec": {"containers": []}}},
        });
        assert_eq!(pods(&expanded(vec![job], &[])), ["j-0", "j-1"]);
    }

    #[test]
    fn a_job_plans_no_more_pods_than_it_has_left_to_complete() {
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let going_on = json!({"conditions": [{"type": "Failed", "status": "False"}]});
        let table = [
            (json!({}), json!({}), vec![], 1),
            (json!({}), json!({}), vec!["Succeeded"], 0),
            (json!({}), json!({}), vec!["Failed"], 1),
            (json!({"backoffLimit": 0}), json!({}), vec!["Failed"], 0),
            (json!({"parallelism": 2, "completions": 5}), json!({}), vec!["Succeeded", "Running"], 1),
            (json!({"parallelism": 2, "completions": 5}), json!({}), vec!["Succeeded"; 4], 1),
            (json!({"parallelism": 2, "completions": 5}), json!({}), vec!["Succeeded"; 5], 0),
            (json!({"parallelism": 3}), json!({}), vec!["Running"], 2),
            // Pods share one queue, which is empty once one of them has succeeded.
            (json!({"parallelism": 3}), json!({}), vec!["Succeeded", "Running"], 0),
            (json!({"parallelism": 2, "completions": 5}), json!({"succeeded": 4}), vec![], 1),
            (json!({"parallelism": 2, "completions": 5}), complete, vec![], 0),
            (json!({}), going_on, vec![], 1),
            (json!({"suspend": true}), json!({}), vec![], 0),
            (json!({"suspend": false}), json!({}), vec![], 1),
        ];
        for (spec, status, phases, expected) in table {
            let mut job = json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec, "status": status,
            });
            job["spec"]["template"] = json!({"spec": {"containers": []}});
            let pods = phases.iter().enumerate().map(|(number, phase)| {
                json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": format!("j-{number}"), "uid": "u",
                        "ownerReferences": [{"kind": "Job", "name": "j", "controller": true}]},
                    "status": {"phase": phase},
                })
            });
            let mut objects: Objects = pods.chain([job]).collect();
            // A lost zone expands a second time.
            for _ in 0..2 {
                expand(&mut objects, &[], Timestamp::UNIX_EPOCH);
                let planned = objects.of_kind("Pod").count() - phases.len();
                assert_eq!(planned, expected, "{spec} {status} {phases:?}");
            }
        }
    }

    #[test]
    fn pods_of_a_cluster_stay_as_they_are() {
        let pod = running("api-x", "api", "n");
        let objects = expanded(vec![pod.clone()], &[]);
        let (_, kept) = objects.of_kind("Pod").next().unwrap();
        assert_eq!((&kept["status"], &kept["spec"]), (&pod["status"], &pod["spec"]));
    }

    #[test]
    fn limit_ranges_give_containers_of_planned_pods_what_they_lack() {
        let range = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3", "memory": "1Gi"}}]},
        });
        let objects = expanded(vec![range, deployment(2), running("api-x", "api", "n")], &[]);
        let requests = |name: &str| {
            let (_, pod) = objects.of_kind("Pod").find(|(key, _)| key.name == name).unwrap();
            pod["spec"]["containers"][0]["resources"]["requests"].clone()
        };
        assert_eq!(requests("api-0"), json!({"cpu": "1", "memory": "1Gi"}), "its own limit comes first");
        assert_eq!(requests("api-x")["memory"], json!(null), "it was admitted already");
    }
}
