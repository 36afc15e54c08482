//! Binding of the claims of manifests to volumes, as the controllers of a cluster do within seconds: to a volume that names the
//! claim or that the claim names, else to the smallest free one that serves it, else to one that is provisioned for it. Claims
//! whose class waits for a pod are left to the scheduler, and claims of a cluster as they are.

use karpenter_api::convert;
use karpenter_model::names::annotation;
use karpenter_model::pod::volume::resolve::{ClaimFacts, NO_PROVISIONER, VolumeFacts};
use karpenter_model::{Namespace, VolumeClaimName};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{ObjectKey, Objects, text};
use crate::workloads::labels_of;

const VOLUME: &str = "PersistentVolume";

/// Binds every claim of a manifest that a cluster would bind before a pod is scheduled.
pub(crate) fn bind(objects: &mut Objects) {
    let is_new = |(_, claim): &(&ObjectKey, &Value)| text(claim, "/metadata/uid").is_empty();
    let claims = objects.of_kind("PersistentVolumeClaim").filter(is_new);
    let claims: Vec<(ObjectKey, Value)> = claims.map(|(key, claim)| (key.clone(), claim.clone())).collect();
    for (key, mut claim) in claims {
        let Some(volume) = volume_for(objects, &key, &claim) else { continue };
        claim["spec"]["volumeName"] = volume["metadata"]["name"].clone();
        claim["metadata"]["annotations"][annotation::BIND_COMPLETED] = json!("yes");
        objects.put(claim);
        objects.put(volume);
    }
}

/// Returns the volume that claim `key` is bound to, with the claim in it.
fn volume_for(objects: &Objects, key: &ObjectKey, claim: &Value) -> Option<Value> {
    let asked = convert::volume_claim(&Deserialize::deserialize(claim).ok()?);
    let class_of_claim = asked.class.clone().unwrap_or_default();
    let class = objects.of_kind("StorageClass").find(|(class, _)| class.name == class_of_claim);
    let class = class.map(|(_, class)| class);
    let may_wait = class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
    let volumes = objects.of_kind(VOLUME).filter_map(|(_, volume)| {
        Some((volume, convert::volume(&Deserialize::deserialize(volume).ok()?).ok()?))
    });
    let mut free: Vec<(&Value, VolumeFacts)> =
        volumes.filter(|(volume, facts)| is_free(key, claim, &asked, volume, facts)).collect();
    free.retain(|(volume, facts)| {
        let is_named = asked.volume.as_deref() == Some(text(volume, "/metadata/name"));
        is_named || facts.claim.is_some() || asked.volume.is_none() && !may_wait
    });
    free.sort_by_key(|(_, facts)| (facts.claim.is_none(), facts.form.storage.nanos()));
    let mut volume = match free.into_iter().next() {
        Some((volume, _)) => volume.clone(),
        None if asked.volume.is_none() && !may_wait => provisioned(key, claim, class?)?,
        None => return None,
    };
    volume["spec"]["claimRef"] = json!({"namespace": key.namespace, "name": key.name});
    Some(volume)
}

/// Returns whether `volume` may be bound to a claim, which asks for `asked`.
fn is_free(key: &ObjectKey, claim: &Value, asked: &ClaimFacts, volume: &Value, facts: &VolumeFacts) -> bool {
    let name = text(volume, "/metadata/name");
    let selector = claim["spec"].get("selector").and_then(|selector| Deserialize::deserialize(selector).ok());
    let selector = selector.and_then(|selector| convert::selector(Some(&selector)));
    let kept_for = |(namespace, of): &(Namespace, VolumeClaimName)| {
        namespace.as_str() == key.namespace && of.as_str() == key.name
    };
    asked.volume.as_deref().is_none_or(|named| named == name)
        && !facts.deleting
        && facts.claim.as_ref().is_none_or(kept_for)
        && facts.class == asked.class
        && facts.form.serves(&asked.form)
        && selector.is_none_or(|selector| selector.matches(&labels_of(volume)))
}

/// Returns the volume that the provisioner of `class` makes for a claim; it chooses a place by the topologies of the class alone.
fn provisioned(key: &ObjectKey, claim: &Value, class: &Value) -> Option<Value> {
    let driver = text(class, "/provisioner");
    if driver.is_empty() || driver == NO_PROVISIONER {
        return None;
    }
    let name = format!("pvc-{}-{}", key.namespace, key.name);
    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"],
        "storageClassName": class["metadata"]["name"], "csi": {"driver": driver, "volumeHandle": name},
    });
    let topologies = class["allowedTopologies"].as_array().into_iter().flatten();
    let terms: Vec<Value> = topologies.map(term).collect();
    if !terms.is_empty() {
        spec["nodeAffinity"]["required"]["nodeSelectorTerms"] = json!(terms);
    }
    Some(json!({"apiVersion": "v1", "kind": VOLUME, "metadata": {"name": name}, "spec": spec}))
}

fn term(topology: &Value) -> Value {
    let labels = topology["matchLabelExpressions"].as_array().into_iter().flatten();
    let expression = |one: &Value| json!({"key": one["key"], "operator": "In", "values": one["values"]});
    json!({"matchExpressions": labels.map(expression).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, spec: &Value) -> Value {
        let mut whole =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole})
    }

    fn volume(name: &str, spec: &Value) -> Value {
        let mut volume = claim(name, spec);
        let size = spec.get("size").cloned().unwrap_or_else(|| json!("1Gi"));
        volume["spec"]["capacity"] = json!({"storage": size});
        volume["kind"] = json!(VOLUME);
        volume
    }

    fn class(mode: &str, provisioner: &str) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"},
            "provisioner": provisioner, "volumeBindingMode": mode})
    }

    /// Volume of the claim `d`; `None` while it is not bound.
    fn bound(given: Vec<Value>) -> Option<String> {
        let mut objects: Objects = given.into_iter().collect();
        bind(&mut objects);
        let (_, claim) = objects.of_kind("PersistentVolumeClaim").find(|(key, _)| key.name == "d").unwrap();
        let is_bound = claim["metadata"]["annotations"].get(annotation::BIND_COMPLETED).is_some();
        is_bound.then(|| text(claim, "/spec/volumeName").to_owned())
    }

    #[test]
    fn claims_of_manifests_are_bound_as_a_cluster_binds_them() {
        let of_class = json!({"storageClassName": "c"});
        let d = || claim("d", &of_class);
        let named = claim("d", &json!({"storageClassName": "c", "volumeName": "v"}));
        let kept = |name: &str| {
            volume("v", &json!({"storageClassName": "c", "claimRef": {"namespace": "default", "name": name}}))
        };
        let free = |name: &str, size: &str| volume(name, &json!({"storageClassName": "c", "size": size}));
        let waits = || class("WaitForFirstConsumer", "ebs.csi.aws.com");
        let at_once = || class("Immediate", "efs.csi.aws.com");
        let table = [
            ("both name each other", vec![named.clone(), kept("d"), waits()], Some("v")),
            ("the claim names it", vec![named.clone(), free("v", "1Gi"), waits()], Some("v")),
            ("the volume names it", vec![d(), kept("d"), waits()], Some("v")),
            ("it is kept for another", vec![named.clone(), kept("e"), waits()], None),
            ("it is not there", vec![named, at_once()], None),
            ("the class waits for a pod", vec![d(), free("v", "1Gi"), waits()], None),
            ("the smallest", vec![d(), free("large", "9Gi"), free("small", "2Gi"), at_once()], Some("small")),
            ("the class is a name only", vec![d(), free("v", "1Gi")], Some("v")),
            ("too small", vec![d(), free("v", "1Mi")], None),
            ("provisioned", vec![d(), at_once()], Some("pvc-default-d")),
            ("nothing provisions one", vec![d(), class("Immediate", NO_PROVISIONER)], None),
        ];
        for (case, given, expected) in table {
            assert_eq!(bound(given).as_deref(), expected, "{case}");
        }
    }

    #[test]
    fn two_claims_get_two_volumes_and_claims_of_a_cluster_stay() {
        let of_class = json!({"storageClassName": "c"});
        let free = |name: &str| volume(name, &of_class);
        let first = claim("a", &of_class);
        assert_eq!(bound(vec![first, claim("d", &of_class), free("v"), free("w")]).as_deref(), Some("w"));
        let mut stored = claim("d", &of_class);
        stored["metadata"]["uid"] = json!("1");
        assert_eq!(bound(vec![stored, free("v")]), None);
    }
}
