//! Claims that controllers make for the pods of manifests: of generic ephemeral volumes, and for devices by a template.

use karpenter_api::convert::claim_of;
use serde_json::{Value, json};

use super::is_planned;
use crate::objects::{ObjectKey, Objects, text};

/// Makes the claims of all pods of manifests that are not there yet.
pub(super) fn make(objects: &mut Objects) {
    let of_pods: Vec<Value> = objects
        .of_kind("Pod")
        .filter(|(_, pod)| is_planned(pod))
        .flat_map(|(_, pod)| ephemeral(pod).chain(of_devices(objects, pod)).collect::<Vec<_>>())
        .collect();
    for claim in of_pods {
        if objects.get(&ObjectKey::of(&claim)).is_none() {
            objects.put(claim);
        }
    }
}

fn ephemeral(pod: &Value) -> impl Iterator<Item = Value> + '_ {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.filter_map(|volume| {
        let template = volume.pointer("/ephemeral/volumeClaimTemplate")?;
        let name = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
        Some(claim_of(&name, text(pod, "/metadata/namespace"), template))
    })
}

/// Claims for devices, by the templates that are among the objects. Without its template a claim is never made, and its pod
/// waits for it.
fn of_devices<'a>(objects: &'a Objects, pod: &'a Value) -> impl Iterator<Item = Value> + 'a {
    let namespace = text(pod, "/metadata/namespace");
    by_template(pod).filter_map(move |(claim, template)| {
        let kind = "ResourceClaimTemplate".to_owned();
        let key = ObjectKey { kind, namespace: namespace.to_owned(), name: template.to_owned() };
        let template = objects.get(&key)?;
        Some(json!({
            "apiVersion": template["apiVersion"], "kind": "ResourceClaim",
            "metadata": {"name": name_of(pod, claim), "namespace": namespace}, "spec": template["spec"]["spec"],
        }))
    })
}

/// Returns the status of a pod of a manifest about its claims for devices, if templates make any.
pub(super) fn status_of(pod: &Value) -> Option<Value> {
    let status = |(claim, _)| json!({"name": claim, "resourceClaimName": name_of(pod, claim)});
    let statuses: Vec<Value> = by_template(pod).filter(|_| is_planned(pod)).map(status).collect();
    (!statuses.is_empty()).then(|| json!(statuses))
}

/// Names of the claims of a pod and of the templates they are made by.
fn by_template(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let claims = pod.pointer("/spec/resourceClaims").and_then(Value::as_array).into_iter().flatten();
    claims.filter_map(|claim| Some((text(claim, "/name"), claim["resourceClaimTemplateName"].as_str()?)))
}

fn name_of(pod: &Value, claim: &str) -> String {
    format!("{}-{claim}", text(pod, "/metadata/name"))
}
