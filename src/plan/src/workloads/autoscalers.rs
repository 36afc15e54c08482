//! Bounds that an autoscaler puts on the pods of a workload. What an autoscaler makes of its metrics is not known
//! from manifests; that it keeps the number of pods between two bounds is.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::{ObjectKey, Objects, text};

/// The kind of autoscalers.
pub(crate) const KIND: &str = "HorizontalPodAutoscaler";

/// Bounds by workload.
pub(super) struct Bounds(BTreeMap<ObjectKey, (u64, u64)>);

impl Bounds {
    /// Reads the autoscalers among the objects.
    pub(super) fn of(objects: &Objects) -> Self {
        let bounds = objects.of_kind(KIND).map(|(_, autoscaler)| {
            let number = |field: &str| autoscaler["spec"][field].as_u64();
            (
                target(autoscaler),
                (number("minReplicas").unwrap_or(1), number("maxReplicas").unwrap_or(u64::MAX)),
            )
        });
        Self(bounds.collect())
    }

    /// Returns the number of pods that `workload` has once its autoscaler has looked at it. One with no replicas is switched
    /// off, and no autoscaler changes that.
    pub(super) fn clamp(&self, workload: &ObjectKey, replicas: u64) -> u64 {
        match self.0.get(workload) {
            Some((least, most)) if replicas > 0 => replicas.max(*least).min(*most),
            _ => replicas,
        }
    }
}

/// The workload that an autoscaler scales.
pub(crate) fn target(autoscaler: &Value) -> ObjectKey {
    ObjectKey {
        kind: text(autoscaler, "/spec/scaleTargetRef/kind").to_owned(),
        namespace: ObjectKey::of(autoscaler).namespace,
        name: text(autoscaler, "/spec/scaleTargetRef/name").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_keeps_a_workload_between_its_bounds_unless_it_is_switched_off() {
        let autoscaler = |name: &str, spec: Value| {
            let mut spec = spec;
            spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
            json!({"apiVersion": "autoscaling/v2", "kind": KIND, "metadata": {"name": name}, "spec": spec})
        };
        let objects: Objects = [
            autoscaler("both", json!({"minReplicas": 4, "maxReplicas": 10})),
            autoscaler("most", json!({"maxReplicas": 3})),
        ]
        .into_iter()
        .collect();
        let bounds = Bounds::of(&objects);
        for (name, written, expected) in [
            ("both", 1, 4),
            ("both", 7, 7),
            ("both", 20, 10),
            ("both", 0, 0),
            ("most", 1, 1),
            ("most", 5, 3),
            ("other", 5, 5),
        ] {
            let key = ObjectKey { kind: "Deployment".into(), namespace: "default".into(), name: name.into() };
            assert_eq!(bounds.clamp(&key, written), expected, "{name} {written}");
        }
    }
}
