//! `DaemonSet` to the pod it puts on a new node (spec scheduling 16).

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use karpenter_model::resources::limit_range::ContainerDefaults;
use karpenter_model::{Daemon, NodeTerm, Pod, PodKey, PodOwner};

use super::affinity;
use super::pod;
use super::requests::Defaults;
use super::{Error, FieldError};

/// Reads a daemon set. `newest` is its newest pod, which carries what admission changed; without one the
/// template is read as admission would change it: limits stand in for missing requests, then what the limit ranges
/// of the namespace give containers.
pub fn daemon(
    object: &DaemonSet,
    newest: Option<&Pod>,
    of_namespace: &[ContainerDefaults],
) -> Result<Daemon, Error> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let pod = read(object, newest, PodKey::new(namespace, name), of_namespace)
        .map_err(|error| error.of("DaemonSet", &format!("{namespace}/{name}")))?;
    Ok(Daemon { namespace: namespace.into(), name: name.into(), pod })
}

fn read(
    object: &DaemonSet,
    newest: Option<&Pod>,
    key: PodKey,
    of_namespace: &[ContainerDefaults],
) -> Result<Pod, FieldError> {
    let template = object.spec.as_ref().map(|spec| &spec.template);
    let mut daemon = if let Some(newest) = newest {
        Pod { key, ..newest.clone() }
    } else {
        let from_template = v1::Pod {
            metadata: template.and_then(|template| template.metadata.clone()).unwrap_or_default(),
            spec: template.and_then(|template| template.spec.clone()),
            status: None,
        };
        let defaults = Defaults::Template(of_namespace);
        pod::read(&from_template, key, defaults).map_err(|error| error.below("spec.template"))?
    };
    let of_template = match template.and_then(|template| template.spec.as_ref()) {
        Some(spec) => affinity::required_terms(spec).map_err(|error| error.below("spec.template"))?,
        None => Vec::new(),
    };
    daemon.required_terms = if of_template.is_empty() {
        without_pin(std::mem::take(&mut daemon.required_terms))
    } else {
        of_template
    };
    daemon.owner = PodOwner::DaemonSet;
    daemon.node_name = None;
    Ok(daemon)
}

/// Drops what the daemon set controller adds to bind a pod to one node. A term with nothing else allows
/// every node.
fn without_pin(mut terms: Vec<NodeTerm>) -> Vec<NodeTerm> {
    for term in &mut terms {
        term.match_fields = false;
    }
    if terms.iter().any(|term| term.expressions.is_empty()) { Vec::new() } else { terms }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn daemon_set(affinity: &Value) -> DaemonSet {
        let resources = json!({"limits": {"cpu": "2"}});
        serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "cni"},
            "spec": {"selector": {}, "template": {
                "metadata": {"labels": {"app": "cni"}},
                "spec": {"affinity": affinity, "containers": [{"name": "c", "resources": resources}]},
            }},
        }))
        .unwrap()
    }

    fn required(term: &Value) -> Value {
        json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }})
    }

    fn running(term: &Value) -> Pod {
        let object: v1::Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "cni-x1"},
            "spec": {
                "nodeName": "n",
                "affinity": required(term),
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
            },
        }))
        .unwrap();
        pod::pod(&object).unwrap()
    }

    fn pin() -> Value {
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})
    }

    #[test]
    fn template_stands_in_with_limits_as_requests() {
        let daemon = daemon(&daemon_set(&json!(null)), None, &[]).unwrap();
        assert_eq!(daemon.pod.requests.amount("cpu").to_string(), "2");
        assert_eq!(daemon.pod.key.to_string(), "kube-system/cni");
        assert_eq!(daemon.pod.owner, PodOwner::DaemonSet);
        assert_eq!(daemon.pod.labels.get("app").map(ToString::to_string).as_deref(), Some("cni"));
    }

    #[test]
    fn limit_ranges_fill_in_what_a_template_does_not_say_and_nothing_else() {
        let given = ContainerDefaults {
            requests: [("cpu".into(), "9".parse().unwrap()), ("memory".into(), "1Gi".parse().unwrap())]
                .into_iter()
                .collect(),
            ..ContainerDefaults::default()
        };
        let given = [given];
        let of_template = daemon(&daemon_set(&json!(null)), None, &given).unwrap().pod;
        let of_template = &of_template.requests;
        assert_eq!(of_template.amount("cpu").to_string(), "2", "its own limit comes first");
        assert_eq!(of_template.amount("memory").to_string(), "1Gi");
        let of_pod = daemon(&daemon_set(&json!(null)), Some(&running(&pin())), &given).unwrap().pod;
        assert!(
            of_pod.requests.amount("memory").is_zero(),
            "a pod that exists was admitted with what it has"
        );
    }

    #[test]
    fn newest_pod_wins_without_its_node() {
        let daemon = daemon(&daemon_set(&json!(null)), Some(&running(&pin())), &[]).unwrap();
        assert_eq!(daemon.pod.requests.amount("cpu").to_string(), "3");
        assert_eq!((&daemon.pod.node_name, &daemon.pod.required_terms), (&None, &Vec::new()));
    }

    #[test]
    fn required_affinity_of_the_template_replaces_that_of_the_pod() {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let daemon = daemon(&daemon_set(&required(&term)), Some(&running(&pin())), &[]).unwrap();
        assert_eq!(daemon.pod.required_terms.len(), 1);
        assert_eq!(daemon.pod.required_terms[0].expressions[0].key, "a");
    }

    #[test]
    fn what_admission_added_next_to_the_pin_is_kept() {
        let mut term = pin();
        term["matchExpressions"] = json!([{"key": "b", "operator": "Exists"}]);
        let daemon = daemon(&daemon_set(&json!(null)), Some(&running(&term)), &[]).unwrap();
        assert_eq!(daemon.pod.required_terms[0].expressions[0].key, "b");
        assert!(!daemon.pod.required_terms[0].match_fields);
    }

    #[test]
    fn errors_name_the_daemon_set() {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let error = daemon(&daemon_set(&required(&term)), None, &[]).unwrap_err();
        assert_eq!(error.object, "DaemonSet `kube-system/cni`");
        assert!(error.field.starts_with("spec.template.spec.affinity.nodeAffinity"), "{error}");
    }
}
