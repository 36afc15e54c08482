//! What the controllers of workloads make between a template and the scheduler, for those who play them: how many pods of a Job
//! run, the labels that pods get, and the volumes of a pod of a StatefulSet.

use std::hash::{DefaultHasher, Hash, Hasher};

use karpenter_model::names::{condition, label};
use serde_json::{Value, json};

/// Number of pods of a Job that may fail unless it gives another: the default of Kubernetes.
const BACKOFF_LIMIT: u64 = 6;

/// Number of pods of a Job, by the state they are in. Those that have ended count although they are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobPods {
    /// Pods that have not ended and are to stay.
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
}

impl JobPods {
    /// Type of the condition with which `job` ends by these pods; `None` while it does not.
    pub fn outcome(self, job: &Value) -> Option<&'static str> {
        let number = |field: &str| job["spec"][field].as_u64();
        let is_complete = match number("completions") {
            Some(completions) => self.succeeded >= completions,
            // Its pods share a queue, and one that succeeds has found it empty.
            None => self.succeeded > 0 && self.running == 0,
        };
        // With a limit for each index, one for all has no default.
        let usual = if number("backoffLimitPerIndex").is_some() { u64::MAX } else { BACKOFF_LIMIT };
        if is_complete {
            Some(condition::COMPLETE)
        } else if self.failed > number("backoffLimit").unwrap_or(usual) {
            Some(condition::FAILED)
        } else {
            None
        }
    }

    /// Number of pods of `job` that are to run: no more than it has left to complete, none while it is suspended, and none after
    /// it has ended.
    pub fn wanted(self, job: &Value) -> u64 {
        let number = |field: &str| job["spec"][field].as_u64();
        let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
        let has_ended = conditions.into_iter().flatten().any(|one| {
            one["status"] == "True"
                && (one["type"] == condition::COMPLETE || one["type"] == condition::FAILED)
        });
        if has_ended || job["spec"]["suspend"] == true || self.outcome(job).is_some() {
            return 0;
        }
        let parallel = number("parallelism").unwrap_or(1);
        match number("completions") {
            Some(completions) => parallel.min(completions.saturating_sub(self.succeeded)),
            // After one has succeeded the others end, and no other begins.
            None if self.succeeded > 0 => parallel.min(self.running),
            None => parallel,
        }
    }
}

/// Labels that pod `name` of a workload of `kind` has besides those of the template, with `number` as its place among the
/// workload's pods. Selectors of manifests name them to keep the pods of one Job, set or roll-out together or apart.
pub fn labels_of_pod(kind: &str, workload: &Value, name: &str, number: u64) -> Vec<(&'static str, String)> {
    let spec = &workload["spec"];
    let owner = workload["metadata"]["name"].as_str().unwrap_or_default();
    match kind {
        "Deployment" => vec![(label::POD_TEMPLATE_HASH, template_hash(&spec["template"]))],
        "StatefulSet" => vec![
            (label::CONTROLLER_REVISION_HASH, format!("{owner}-{}", template_hash(&spec["template"]))),
            (label::STATEFUL_SET_POD_NAME, name.to_owned()),
            (label::POD_INDEX, number.to_string()),
        ],
        "Job" => {
            let is_selected = spec["manualSelector"] != true;
            let of_job = label::JOB_NAME.into_iter().filter(|_| is_selected);
            let mut labels: Vec<(&str, String)> = of_job.map(|key| (key, owner.to_owned())).collect();
            if spec["completionMode"] == "Indexed" {
                labels.push((label::JOB_COMPLETION_INDEX, number.to_string()));
            }
            labels
        }
        _ => Vec::new(),
    }
}

/// Ten characters that depend on the template alone, in place of the hash that Kubernetes computes.
pub fn template_hash(template: &Value) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    let mut rest = hasher.finish();
    let mut text = String::new();
    for _ in 0..10 {
        let index = usize::try_from(rest % 27).expect("invariant: below 27");
        text.push(char::from(ALPHABET[index]));
        rest /= 27;
    }
    text
}

/// Returns the number of the first pod of a StatefulSet.
pub fn first_ordinal(set: &Value) -> u64 {
    set.pointer("/spec/ordinals/start").and_then(Value::as_u64).unwrap_or(0)
}

/// Makes `pod`, whose name is `name`, mount a volume for each claim template of its StatefulSet, in the place of volumes of the
/// same name; returns the claims.
pub fn mount_claims(set: &Value, namespace: &str, name: &str, pod: &mut Value) -> Vec<Value> {
    let templates = set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let mut volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut claims = Vec::new();
    for template in templates.into_iter().flatten() {
        let volume = &template["metadata"]["name"];
        let claim = format!("{}-{name}", volume.as_str().unwrap_or_default());
        volumes.retain(|one| one["name"] != *volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
        claims.push(claim_of(&claim, namespace, template));
    }
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
    claims
}

/// The claim of this name that a template asks for.
pub fn claim_of(name: &str, namespace: &str, template: &Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(labels) = template["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_what_it_has_left_until_it_ends() {
        let ended = json!([{"type": "Complete", "status": "True"}]);
        // The spec, pods that run, succeeded and failed; how many are wanted, and how it ends.
        for (spec, [running, succeeded, failed], wanted, outcome) in [
            (json!({"completions": 5, "parallelism": 2}), [0, 0, 0], 2, None),
            (json!({"completions": 5, "parallelism": 2}), [1, 4, 0], 1, None),
            (json!({"completions": 5, "parallelism": 2}), [0, 5, 0], 0, Some("Complete")),
            (json!({"completions": 1}), [0, 0, 6], 1, None),
            (json!({"completions": 1}), [0, 0, 7], 0, Some("Failed")),
            (json!({"completions": 1, "backoffLimit": 0}), [0, 0, 1], 0, Some("Failed")),
            (json!({"completions": 9, "backoffLimitPerIndex": 1}), [0, 0, 8], 1, None),
            (json!({"completions": 1, "suspend": true}), [0, 0, 0], 0, None),
            (json!({"parallelism": 3}), [0, 0, 0], 3, None),
            (json!({"parallelism": 3}), [2, 1, 0], 2, None),
            (json!({"parallelism": 3}), [0, 1, 0], 0, Some("Complete")),
        ] {
            let (job, pods) = (json!({"spec": spec}), JobPods { running, succeeded, failed });
            assert_eq!((pods.wanted(&job), pods.outcome(&job)), (wanted, outcome), "{job} {pods:?}");
            let over = json!({"spec": spec, "status": {"conditions": ended}});
            assert_eq!(pods.wanted(&over), 0, "{over}");
        }
    }

    #[test]
    fn pods_have_labels_of_their_controller() {
        let of = |kind: &str, spec: Value| {
            labels_of_pod(kind, &json!({"metadata": {"name": "w"}, "spec": spec}), "w-3", 3)
        };
        let keys = |labels: &[(&str, String)]| -> Vec<String> {
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        assert_eq!(
            keys(&of("Job", json!({"completionMode": "Indexed"}))),
            ["batch.kubernetes.io/job-name=w", "job-name=w", "batch.kubernetes.io/job-completion-index=3"]
        );
        assert_eq!(of("Job", json!({"manualSelector": true})), []);
        let set = of("StatefulSet", json!({"template": {}}));
        assert_eq!(
            keys(&set[1..]),
            ["statefulset.kubernetes.io/pod-name=w-3", "apps.kubernetes.io/pod-index=3"]
        );
        let hash = |template: Value| of("Deployment", json!({"template": template}));
        assert_eq!(hash(json!({"a": 1})), hash(json!({"a": 1})));
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": 2})));
        assert_eq!(of("ReplicaSet", json!({"template": {}})), [], "its template has the hash already");
    }

    #[test]
    fn a_claim_of_a_set_takes_the_place_of_a_volume_of_its_name() {
        let template =
            json!({"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"storageClassName": "gp3"}});
        let set = json!({"spec": {"volumeClaimTemplates": [template]}});
        let mut pod =
            json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}});
        let claims = mount_claims(&set, "shop", "web-0", &mut pod);
        let data = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "tmp", "emptyDir": {}}, data]));
        assert_eq!(claims.len(), 1);
        let metadata = json!({"name": "data-web-0", "namespace": "shop", "labels": {"a": "b"}});
        assert_eq!((&claims[0]["metadata"], &claims[0]["spec"]), (&metadata, &template["spec"]));
    }
}
