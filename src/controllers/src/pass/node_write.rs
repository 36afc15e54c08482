//! Conversion of a step's changes of a Node into a merge patch.

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_lifecycle::step::NodePatch;
use karpenter_model::names::finalizer;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use karpenter_kube_harness::write::locked;

/// The merge patch that applies `patch` to `node`; `None` when that changes nothing.
///
/// Lists are replaced as a whole and keep every field we do not model, so the patch is then locked.
pub(crate) fn body(node: &Node, patch: &NodePatch) -> Option<Value> {
    let mut metadata = Map::new();
    let mut labels =
        changed(node.labels(), patch.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let removed = patch.remove_labels.iter().filter(|key| node.labels().contains_key(key.as_str()));
    labels.extend(removed.map(|key| (key.to_string(), Value::Null)));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    let annotations = changed(
        node.annotations(),
        patch.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    );
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let mut replaces_list = false;
    if patch.add_finalizer && !node.finalizers().iter().any(|one| one == finalizer::TERMINATION) {
        let all: Vec<&str> =
            node.finalizers().iter().map(String::as_str).chain([finalizer::TERMINATION]).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
        replaces_list = true;
    }
    if let Some(owners) = owners(node, patch) {
        metadata.insert("ownerReferences".to_owned(), json!(owners));
        replaces_list = true;
    }
    let mut body = Map::new();
    if let Some(taints) = taints(node, patch) {
        body.insert("spec".to_owned(), json!({"taints": taints}));
        replaces_list = true;
    }
    if metadata.is_empty() && body.is_empty() {
        return None;
    }
    body.insert("metadata".to_owned(), metadata.into());
    let body = Value::Object(body);
    Some(if replaces_list { locked(node, body) } else { body })
}

fn changed<'a>(
    present: &std::collections::BTreeMap<String, String>,
    wanted: impl Iterator<Item = (&'a str, &'a str)>,
) -> Map<String, Value> {
    wanted
        .filter(|(key, value)| present.get(*key).map(String::as_str) != Some(*value))
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

fn owners(node: &Node, patch: &NodePatch) -> Option<Vec<OwnerReference>> {
    let (name, uid) = patch.add_owner.as_ref()?;
    if node.owner_references().iter().any(|owner| owner.uid == uid.as_str()) {
        return None;
    }
    let mut owners = node.owner_references().to_vec();
    owners.push(OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: name.to_string(),
        uid: uid.to_string(),
        block_owner_deletion: Some(true),
        controller: None,
    });
    Some(owners)
}

fn taints(node: &Node, patch: &NodePatch) -> Option<Vec<Taint>> {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let same = |one: &Taint, other: &karpenter_model::Taint| {
        one.key == other.key && one.effect == other.effect.as_str()
    };
    let mut taints = present.clone();
    taints.retain(|taint| !patch.remove_taints.iter().any(|removed| same(taint, removed)));
    for added in &patch.add_taints {
        if !taints.iter().any(|taint| same(taint, added)) {
            taints.push(Taint {
                key: added.key.clone(),
                // The API server stores no empty value; with one the list would differ from the stored one at
                // every look.
                value: Some(added.value.clone()).filter(|value| !value.is_empty()),
                effect: added.effect.as_str().to_owned(),
                time_added: None,
            });
        }
    }
    (taints != present).then_some(taints)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use karpenter_lifecycle::step::NodePatch;
    use karpenter_model::Taint;
    use serde_json::json;

    use super::body;

    fn node() -> Node {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "resourceVersion": "7", "labels": {"a": "1"}, "finalizers": ["other"]},
            "spec": {"taints": [
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                {"key": "x", "value": "y", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ]},
        }))
        .unwrap()
    }

    fn patch() -> NodePatch {
        NodePatch::of(&"n".into())
    }

    #[test]
    fn a_label_alone_is_not_locked_and_equal_values_are_left_out() {
        let mut patch = patch();
        patch.labels = [("a".into(), "1".into()), ("b".into(), "2".into())].into();
        assert_eq!(body(&node(), &patch), Some(json!({"metadata": {"labels": {"b": "2"}}})));
        patch.labels = [("a".into(), "1".into())].into();
        assert_eq!(body(&node(), &patch), None);
        patch.remove_labels = vec!["a".into(), "c".into()];
        assert_eq!(body(&node(), &patch), Some(json!({"metadata": {"labels": {"a": null}}})));
    }

    #[test]
    fn taints_keep_what_we_do_not_model_and_are_locked() {
        let mut patch = patch();
        patch.remove_taints = vec![Taint::unregistered()];
        patch.add_taints = vec![Taint::disrupted(), Taint::disrupted()];
        assert_eq!(
            body(&node(), &patch),
            Some(json!({
                "spec": {"taints": [
                    {"key": "x", "value": "y", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                    {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
                ]},
                "metadata": {"resourceVersion": "7"},
            }))
        );
    }

    #[test]
    fn finalizer_and_owner_are_appended_once() {
        let mut patch = patch();
        patch.add_finalizer = true;
        patch.add_owner = Some(("c".into(), "uid".into()));
        let first = body(&node(), &patch).unwrap();
        assert_eq!(first["metadata"]["finalizers"], json!(["other", "karpenter.sh/termination"]));
        assert_eq!(first["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], json!(true));
        assert_eq!(first["metadata"]["resourceVersion"], json!("7"));
        let mut node = node();
        node.metadata.finalizers = serde_json::from_value(first["metadata"]["finalizers"].clone()).unwrap();
        node.metadata.owner_references =
            serde_json::from_value(first["metadata"]["ownerReferences"].clone()).unwrap();
        assert_eq!(body(&node, &patch), None);
    }
}
