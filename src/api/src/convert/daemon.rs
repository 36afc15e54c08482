//! `DaemonSet` to the pod it puts on a new node (spec scheduling 16).

use k8s_openapi::api::apps::v1::DaemonSet;
use karpenter_model::names::taint;
use karpenter_model::taint::OF_DAEMONS;
use karpenter_model::{Daemon, Effect, NodeTerm, Pod, PodKey, PodOwner, Toleration};

use super::admission::Admission;
use super::affinity;
use super::pod;
use super::{Error, FieldError};

/// Reads a daemon set. `newest` is its newest pod, which carries what admission changed; without one the
/// template is admitted.
pub fn daemon(object: &DaemonSet, newest: Option<&Pod>, admission: &Admission) -> Result<Daemon, Error> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let pod = read(object, newest, PodKey::new(namespace, name), admission)
        .map_err(|error| error.of("DaemonSet", &format!("{namespace}/{name}")))?;
    Ok(Daemon { namespace: namespace.into(), name: name.into(), pod })
}

fn read(
    object: &DaemonSet,
    newest: Option<&Pod>,
    key: PodKey,
    admission: &Admission,
) -> Result<Pod, FieldError> {
    let template = object.spec.as_ref().map(|spec| &spec.template);
    let mut daemon = if let Some(newest) = newest {
        Pod { key, ..newest.clone() }
    } else {
        let admitted = admission.of_template(template, key.namespace.as_str());
        pod::read(&admitted, key).map_err(|error| error.below("spec.template"))?
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
    let on_host_network = template.and_then(|template| template.spec.as_ref()?.host_network) == Some(true);
    daemon.tolerations.extend(of_controller(on_host_network));
    daemon.owner = PodOwner::DaemonSet;
    daemon.owner_uid = object.metadata.uid.as_deref().map(Into::into);
    daemon.node_name = None;
    Ok(daemon)
}

/// Tolerations that the daemon set controller adds to those of the template: a node that is cordoned, short of something or
/// out of reach keeps its daemons.
fn of_controller(on_host_network: bool) -> impl Iterator<Item = Toleration> {
    let network = on_host_network.then_some((taint::NETWORK_UNAVAILABLE, Effect::NoSchedule));
    OF_DAEMONS.into_iter().chain(network).map(|(key, effect)| Toleration {
        key: key.to_owned(),
        effect: Some(effect),
        ..Toleration::everything()
    })
}

/// Drops what the daemon set controller adds to bind a pod to one node. A term with nothing else allows
/// every node.
fn without_pin(mut terms: Vec<NodeTerm>) -> Vec<NodeTerm> {
    for term in &mut terms {
        term.fields.clear();
    }
    if terms.iter().any(|term| term.expressions.is_empty()) { Vec::new() } else { terms }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use karpenter_model::Taint;
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
        let daemon = daemon(&daemon_set(&json!(null)), None, &Admission::default()).unwrap();
        assert_eq!(daemon.pod.requests.amount("cpu").to_string(), "2");
        assert_eq!(daemon.pod.key.to_string(), "kube-system/cni");
        assert_eq!(daemon.pod.owner, PodOwner::DaemonSet);
        assert_eq!(daemon.pod.labels.get("app").map(ToString::to_string).as_deref(), Some("cni"));
    }

    #[test]
    fn limit_ranges_fill_in_what_a_template_does_not_say_and_nothing_else() {
        let given = Admission::of(&[json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": "kube-system", "name": "usual"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "9", "memory": "1Gi"}}]},
        })]);
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

    // https://github.com/kubernetes-sigs/karpenter/issues/2838
    #[test]
    fn daemons_tolerate_what_their_controller_makes_them_tolerate() {
        let tolerated = |set: &DaemonSet, key: &str, effect| {
            let pod = daemon(set, None, &Admission::default()).unwrap().pod;
            let taint = Taint::new(key, "", effect);
            pod.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
        };
        let mut set = daemon_set(&json!(null));
        for (key, effect) in OF_DAEMONS {
            assert!(tolerated(&set, key, effect), "{key}");
        }
        assert!(!tolerated(&set, "node.kubernetes.io/not-ready", Effect::NoSchedule));
        assert!(!tolerated(&set, taint::NETWORK_UNAVAILABLE, Effect::NoSchedule));
        set.spec.as_mut().unwrap().template.spec.as_mut().unwrap().host_network = Some(true);
        assert!(tolerated(&set, taint::NETWORK_UNAVAILABLE, Effect::NoSchedule));
    }

    #[test]
    fn a_daemon_set_owns_the_pods_that_name_its_uid() {
        let mut set = daemon_set(&json!(null));
        set.metadata.uid = Some("set".to_owned());
        let daemon = daemon(&set, Some(&running(&pin())), &Admission::default()).unwrap();
        let of = |uid: &str| {
            running(&pin()).with(|pod| (pod.owner, pod.owner_uid) = (PodOwner::DaemonSet, Some(uid.into())))
        };
        assert!(daemon.owns(&of("set")));
        assert!(!daemon.owns(&of("other")));
        set.metadata.uid = None;
        let daemon = super::daemon(&set, None, &Admission::default()).unwrap();
        let at = |name: &str| {
            let path = format!("/apis/apps/v1/namespaces/kube-system/daemonsets/{name}");
            of("set").with(|pod| pod.owner_path = path)
        };
        assert!(daemon.owns(&at("cni")), "a manifest has no uid");
        assert!(!daemon.owns(&at("kube-cni")));
    }

    #[test]
    fn nodes_that_the_template_names_are_kept() {
        let daemon = daemon(&daemon_set(&required(&pin())), None, &Admission::default()).unwrap();
        let term = &daemon.pod.required_terms[0];
        assert_eq!((term.fields[0].key.as_str(), term.fields[0].values[0].as_str()), ("metadata.name", "n"));
    }

    #[test]
    fn newest_pod_wins_without_its_node() {
        let daemon =
            daemon(&daemon_set(&json!(null)), Some(&running(&pin())), &Admission::default()).unwrap();
        assert_eq!(daemon.pod.requests.amount("cpu").to_string(), "3");
        assert_eq!((&daemon.pod.node_name, &daemon.pod.required_terms), (&None, &Vec::new()));
    }

    #[test]
    fn required_affinity_of_the_template_replaces_that_of_the_pod() {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let daemon =
            daemon(&daemon_set(&required(&term)), Some(&running(&pin())), &Admission::default()).unwrap();
        assert_eq!(daemon.pod.required_terms.len(), 1);
        assert_eq!(daemon.pod.required_terms[0].expressions[0].key, "a");
    }

    #[test]
    fn what_admission_added_next_to_the_pin_is_kept() {
        let mut term = pin();
        term["matchExpressions"] = json!([{"key": "b", "operator": "Exists"}]);
        let daemon = daemon(&daemon_set(&json!(null)), Some(&running(&term)), &Admission::default()).unwrap();
        assert_eq!(daemon.pod.required_terms[0].expressions[0].key, "b");
        assert!(daemon.pod.required_terms[0].fields.is_empty());
    }

    #[test]
    fn errors_name_the_daemon_set() {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let error = daemon(&daemon_set(&required(&term)), None, &Admission::default()).unwrap_err();
        assert_eq!(error.object, "DaemonSet `kube-system/cni`");
        assert!(error.field.starts_with("spec.template.spec.affinity.nodeAffinity"), "{error}");
    }
}
