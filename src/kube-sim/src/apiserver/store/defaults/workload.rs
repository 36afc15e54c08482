//! Defaults of the kinds that make pods.

use serde_json::{Value, json};

use super::pod;
use crate::apiserver::object::{default_to, map_mut};

/// Fills in the defaults of an object of `apps` or `batch`.
pub(super) fn apply(plural: &str, object: &mut Value) {
    let spec = map_mut(object, "spec");
    match plural {
        "deployments" => {
            default_to(spec, "replicas", 1);
            default_to(spec, "revisionHistoryLimit", 10);
            default_to(spec, "progressDeadlineSeconds", 600);
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}});
            default_to(spec, "strategy", rolling);
        }
        "replicasets" => default_to(spec, "replicas", 1),
        "statefulsets" => {
            default_to(spec, "replicas", 1);
            default_to(spec, "podManagementPolicy", "OrderedReady");
        }
        "daemonsets" => {
            let rolling =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
            default_to(spec, "updateStrategy", rolling);
        }
        "jobs" => {
            default_to(spec, "parallelism", 1);
            default_to(spec, "completions", 1);
            default_to(spec, "backoffLimit", 6);
        }
        _ => return,
    }
    if let Some(template) =
        spec.get_mut("template").and_then(|t| t.get_mut("spec")).and_then(Value::as_object_mut)
    {
        pod::spec(template);
    }
}
