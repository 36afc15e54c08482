//! `karpenter convert` against a real kube-apiserver: what it writes is accepted, what it reads is read with the rights the
//! guide names, and definitions that refuse the old kinds say where to go.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ServiceAccount;
use karpenter_e2e::cluster::local::LocalCluster;
use karpenter_e2e::{command_line, manifests, prepare, wait};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::process::Command;

use super::chart;

/// Manifests that the guide converts.
const EXAMPLE: &str = "docs/examples/older-versions.yaml";

/// Every manifest that the converter's goldens emit, asked of the API server without storing it. A field that the server
/// does not know, and a warning, is a failure.
pub(crate) async fn every_converted_manifest_is_accepted(client: &Client) {
    let (mut accepted, mut wrong) = (Vec::new(), Vec::new());
    for golden in goldens() {
        let case = golden.file_name().unwrap().to_string_lossy().into_owned();
        // Objects of v1 in the input are passed on as they are, and may be wrong; values are no manifests.
        if case.starts_with("v1-") || case.starts_with("values-") {
            continue;
        }
        for mut object in manifests::documents(&fs::read_to_string(&golden).unwrap()).unwrap() {
            if !object["apiVersion"].as_str().is_some_and(|version| version.starts_with("karpenter.")) {
                continue;
            }
            // Other cases store objects of the same names.
            let name =
                format!("{}.{}", object["metadata"]["name"].as_str().unwrap(), accepted.len() + wrong.len());
            object["metadata"]["name"] = json!(name);
            match refusal(client, &object).await {
                None => accepted.push(object),
                Some(said) => wrong.push(format!("{case}: {said}\n{object}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} are refused:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted.len() >= 70, "{}", accepted.len());
    for kind in ["NodePool", "EC2NodeClass", "NodeClaim"] {
        assert!(accepted.iter().any(|object| object["kind"] == kind), "{kind}");
    }
    let mut misspelt = accepted[0].clone();
    misspelt["spec"]["requirement"] = json!([]);
    let said = refusal(client, &misspelt).await.expect("a field that is not known is refused");
    assert!(said.contains("unknown field") && said.contains("spec.requirement"), "{said}");
}

fn goldens() -> Vec<PathBuf> {
    let folder = prepare::cache::repository().join("src/convert/tests/it/cases");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut goldens: Vec<PathBuf> =
        files.filter(|path| path.to_string_lossy().ends_with(".out.yaml")).collect();
    goldens.sort();
    goldens
}

/// Returns the API server's error or warning about an object.
async fn refusal(client: &Client, object: &Value) -> Option<String> {
    let text = |field: &str| object[field].as_str().unwrap();
    let plural =
        karpenter_api::crds().into_iter().map(|crd| crd.spec.names).find(|names| names.kind == text("kind"));
    let plural = plural.expect("it is one of our kinds").plural;
    let path = format!("/apis/{}/{plural}?dryRun=All&fieldValidation=Strict", text("apiVersion"));
    let body = Body::from(serde_json::to_vec(object).unwrap());
    let request = Request::post(path).header("content-type", "application/json").body(body).unwrap();
    let response = client.send(request).await.expect("the API server answers");
    let (status, headers) = (response.status(), response.headers().clone());
    let said: Bytes = response.into_body().collect().await.unwrap().to_bytes();
    let warnings: Vec<_> = headers.get_all("warning").iter().collect();
    (!status.is_success() || !warnings.is_empty())
        .then(|| format!("{status} {warnings:?} {}", String::from_utf8_lossy(&said)))
}

/// The chart's definitions of the old kinds first, which refuse every object with the name of the converter; then the
/// definitions as an old installation has them, with objects that are converted.
pub(crate) async fn old_objects_are_refused_or_converted(cluster: &LocalCluster) {
    let client = cluster.client();
    let rendered = chart::render("karpenter-crd", None, &["--set", "refuseOlderKinds=true"]);
    let mut definitions = manifests::documents(&rendered).unwrap();
    let is_old = |crd: &Value| {
        ["Provisioner", "AWSNodeTemplate", "Machine"].iter().any(|k| crd["spec"]["names"]["kind"] == *k)
    };
    definitions.retain(is_old);
    assert_eq!(definitions.len(), 3);
    manifests::apply_definitions(&client, &stream(&definitions)).await.expect("the definitions are accepted");
    for definition in &definitions {
        let said = create(&client, definition).await.expect_err("it is refused").to_string();
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        assert!(said.contains(kind) && said.contains("karpenter convert"), "{said}");
    }
    let (code, manifests, said) = convert(cluster.kubeconfig(), &["--live"]).await;
    assert_eq!((code, manifests.as_str()), (0, ""), "{said}");

    for definition in &mut definitions {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            .as_object_mut()
            .unwrap()
            .remove("x-kubernetes-validations");
    }
    manifests::apply_definitions(&client, &stream(&definitions)).await.expect("the definitions are accepted");
    let example = fs::read_to_string(prepare::cache::repository().join(EXAMPLE)).unwrap();
    // The rules of a definition go a moment after it has changed.
    wait::settles("the old objects to be accepted", || manifests::apply(&client, &example)).await.unwrap();

    let (code, manifests, said) = convert(cluster.kubeconfig(), &["--live", "--workloads"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("3 objects converted"), "{said}");
    let (_, expected, _) = convert(cluster.kubeconfig(), &["--filename", EXAMPLE]).await;
    let of_kind = |text: &str, kind: &str| {
        manifests::documents(text).unwrap().into_iter().find(|object| object["kind"] == kind).unwrap()
    };
    for kind in ["NodePool", "EC2NodeClass"] {
        assert_eq!(of_kind(&manifests, kind)["spec"], of_kind(&expected, kind)["spec"], "{kind}");
    }
    let workload = of_kind(&manifests, "Deployment");
    assert_eq!(
        workload["spec"]["template"]["spec"]["nodeSelector"],
        json!({"karpenter.sh/nodepool": "default"})
    );
    assert_eq!(workload["status"], Value::Null);
    reads_with_the_rights_of_the_guide(cluster).await;
}

/// A service account with no right learns which it lacks; with those of the guide it gets everything.
async fn reads_with_the_rights_of_the_guide(cluster: &LocalCluster) {
    let client = cluster.client();
    let name = "converter";
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let kubeconfig = cluster.service_account_kubeconfig("default", name).await.unwrap();
    let (code, manifests, said) = convert(&kubeconfig, &["--live", "--workloads"]).await;
    assert_eq!((code, manifests.as_str()), (1, ""), "{said}");
    for plural in ["provisioners", "awsnodetemplates", "deployments", "cronjobs"] {
        assert!(said.contains(plural) && said.contains("grant verb `list`"), "{said}");
    }
    let guide =
        fs::read_to_string(prepare::cache::repository().join("docs/guides/from-older-karpenter.md")).unwrap();
    let role = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    manifests::apply(&client, role).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "karpenter-convert"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    });
    manifests::apply_json(&client, binding).await.unwrap();
    // Roles take a moment to count.
    let all = wait::until("the roles to count", || async {
        let (code, manifests, said) = convert(&kubeconfig, &["--live", "--workloads"]).await;
        Ok(if code == 0 { Ok(manifests) } else { Err(said) })
    });
    assert_eq!(manifests::documents(&all.await.unwrap()).unwrap().len(), 3);
}

/// Runs the built program: exit code, manifests and report.
async fn convert(kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(command_line::binary().unwrap())
        .arg("convert")
        .args(arguments)
        .current_dir(prepare::cache::repository())
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn stream(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// Creates an object of an old kind, as `kubectl apply` would.
async fn create(client: &Client, definition: &Value) -> kube::Result<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let spec = &definition["spec"];
    let kind = GroupVersionKind::gvk(
        &text(&spec["group"]),
        &text(&spec["versions"][0]["name"]),
        &text(&spec["names"]["kind"]),
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, &text(&spec["names"]["plural"]));
    let object = DynamicObject::new("default", &resource).data(json!({"spec": {"requirements": []}}));
    Api::all_with(client.clone(), &resource).create(&PostParams::default(), &object).await
}
