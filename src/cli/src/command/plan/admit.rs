//! Pods of manifests as the API server of a cluster admits them: it is asked to create one of each with `dryRun=All`, which
//! stores nothing, so that mutating webhooks and policies count. The rules of Kubernetes itself are known without it.

use anyhow::{Result, bail};
use karpenter_api::convert::mount_claims;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::api_server;

/// Kinds whose template is admitted.
const WORKLOADS: [&str; 6] =
    ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"];

/// Advice where the right is missing.
const RIGHTS: &str =
    "`--admit server` needs permission to create pods (create on v1), although none is stored";

/// Writes into each pod and each template of `manifests` what the API server makes of it; returns what it could not be asked.
///
/// # Errors
/// A pod is refused, or the API server does not answer.
pub(super) async fn by_server(client: &Client, manifests: &mut [Value]) -> Result<Vec<String>> {
    let pods = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let dry = PostParams { dry_run: true, field_manager: None };
    let mut notes = Vec::new();
    for manifest in manifests {
        let namespace = match text(manifest, "/metadata/namespace") {
            "" => "default",
            given => given,
        };
        let of = format!("{} `{namespace}/{}`", text(manifest, "/kind"), text(manifest, "/metadata/name"));
        let Some(pod) = sample(manifest, namespace) else { continue };
        let pod: DynamicObject = serde_json::from_value(pod)?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &pods);
        match api.create(&dry, &pod).await {
            Ok(admitted) => take(manifest, serde_json::to_value(admitted)?),
            Err(kube::Error::Api(status)) if status.code == 404 => notes.push(format!(
                "namespace `{namespace}` is not in the cluster, so what webhooks add to pods of {of} is not known"
            )),
            Err(kube::Error::Api(status)) if !status.message.contains("cannot create resource") => {
                bail!("cannot plan {of}: the API server refuses its pods: {}; correct the manifest", status.message)
            }
            Err(error) => {
                bail!("cannot ask the API server about pods of {of}: {}", api_server::why(&error, RIGHTS))
            }
        }
    }
    Ok(notes)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The pod of a manifest, or one that its workload would make; `None` for other kinds.
fn sample(manifest: &Value, namespace: &str) -> Option<Value> {
    let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
    if kind == "Pod" {
        return Some(manifest.clone());
    }
    if !WORKLOADS.contains(&kind) {
        return None;
    }
    let template = &manifest["spec"]["template"];
    let (name, metadata) = (format!("{name}-0"), &template["metadata"]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": metadata["labels"], "annotations": metadata["annotations"]},
        "spec": template["spec"],
    });
    // Containers may mount no volume that the pod does not have.
    let _claims = mount_claims(manifest, namespace, &name, &mut pod);
    Some(pod)
}

/// Puts what was admitted into the pod or the template that was asked about.
fn take(manifest: &mut Value, mut admitted: Value) {
    drop_folded(&mut admitted["spec"]);
    let place = if text(manifest, "/kind") == "Pod" { manifest } else { &mut manifest["spec"]["template"] };
    place["spec"] = admitted["spec"].take();
    for field in ["labels", "annotations"] {
        place["metadata"][field] = admitted["metadata"][field].take();
    }
}

/// Removes label keys that have become part of a selector already: a second time they would contradict it.
fn drop_folded(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(drop_folded),
        Value::Object(fields) => {
            let selector = fields.get("labelSelector").map(|selector| &selector["matchExpressions"]);
            let selected: Vec<Value> = selector
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|one| one["key"].clone())
                .collect();
            for name in ["matchLabelKeys", "mismatchLabelKeys"] {
                if let Some(Value::Array(keys)) = fields.get_mut(name) {
                    keys.retain(|key| !selected.contains(key));
                }
            }
            fields.iter_mut().for_each(|(_, field)| drop_folded(field));
        }
        _ => {}
    }
}

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests {
    use std::sync::Arc;

    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::ApiServer;
    use karpenter_kube_sim::apiserver::faults::{Fault, Rule};

    use super::*;

    /// A server whose webhook adds a sidecar of one CPU to every pod.
    fn server() -> ApiServer {
        let server = ApiServer::new(Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        let sidecar = json!({"name": "proxy", "image": "i", "resources": {"requests": {"cpu": "1"}}});
        server.write(|store| {
            store.set_pod_webhook(Arc::new(move |pod| {
                if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
                    containers.push(sidecar.clone());
                }
                pod["metadata"]["labels"]["mesh"] = json!("on");
            }));
        });
        server
    }

    fn workload(kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "track": "a"}}, "spec": spec},
            },
        })
    }

    fn containers(spec: &Value) -> Vec<&str> {
        let containers = spec["containers"].as_array().into_iter().flatten();
        containers.map(|one| text(one, "/name")).collect()
    }

    #[tokio::test]
    async fn what_a_webhook_adds_to_pods_is_in_the_manifests_and_nothing_is_stored() {
        let server = server();
        let container = json!({"name": "c", "image": "i"});
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["track"]});
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let spec = json!({"containers": [container], "affinity": apart});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"}});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}});
        pod["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
        let mut set = workload("StatefulSet", &spec);
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        let mut manifests = vec![workload("Deployment", &spec), set, pod, pool.clone()];
        assert_eq!(by_server(&server.client(), &mut manifests).await.unwrap(), Vec::<String>::new());
        for manifest in &manifests[..2] {
            let template = &manifest["spec"]["template"];
            assert_eq!(containers(&template["spec"]), ["c", "proxy"]);
            assert_eq!(template["metadata"]["labels"], json!({"app": "web", "track": "a", "mesh": "on"}));
            let term = template
                .pointer("/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0")
                .unwrap();
            let folded = term["labelSelector"]["matchExpressions"].as_array().is_some();
            assert!(folded && term["matchLabelKeys"] == json!([]), "{term}");
        }
        let mounted = &manifests[1]["spec"]["template"]["spec"]["volumes"][0];
        assert_eq!(mounted["persistentVolumeClaim"]["claimName"], "data-web-0", "the pod was whole");
        assert_eq!(containers(&manifests[2]["spec"]), ["c", "proxy"]);
        assert_eq!(manifests[3], pool);
        let pods: Api<DynamicObject> =
            Api::all_with(server.client(), &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod")));
        assert_eq!(pods.list(&Default::default()).await.unwrap().items.len(), 0);
    }

    #[tokio::test]
    async fn a_refusal_a_missing_right_and_a_missing_namespace_say_what_to_do() {
        let server = server();
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let asked = async || {
            let answer = by_server(&server.client(), &mut [workload("Deployment", &spec)]).await;
            answer.unwrap_err().to_string()
        };
        let refuse = |message: &str| {
            let rule = Rule::on("create").resource("pods").times(1);
            server.faults().inject(rule, Fault::refuse(403, "Forbidden", message));
        };
        refuse("admission webhook \"policy\" denied the request: no tag");
        let refused = asked().await;
        assert!(refused.starts_with("cannot plan Deployment `default/web`: "), "{refused}");
        refuse("pods is forbidden: User \"a\" cannot create resource \"pods\"");
        let forbidden = asked().await;
        assert!(forbidden.contains(RIGHTS), "{forbidden}");
        let mut elsewhere = workload("Deployment", &spec);
        elsewhere["metadata"]["namespace"] = json!("shop");
        let notes = by_server(&server.client(), &mut [elsewhere]).await.unwrap();
        assert!(notes[0].starts_with("namespace `shop` is not in the cluster"), "{notes:?}");
    }
}
