//! What the controllers of workloads make between a template and the scheduler, for those who play them: how many pods of a Job
//! run, and the volumes of a pod of a StatefulSet.

use karpenter_model::names::condition;
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
