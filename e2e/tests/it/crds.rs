//! The custom resource definitions on a real kube-apiserver: it installs them, keeps what it should keep, and answers
//! every case of the tables as expected. With it, programs for people that need no more of a cluster than that.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::cases::{self, Case, Expected, Step};
use karpenter_e2e::cluster::local::{LocalCluster, Options};
use karpenter_e2e::manifests;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::{admitted, older, terminal};

/// One test, because a control plane of its own would take longer than each of the four does.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_conversions_and_view_work_on_a_real_api_server() {
    let cluster = LocalCluster::start(Options::default()).await.expect("the control plane starts");
    let client = cluster.client();
    install(&client).await;
    every_case_is_answered_as_expected(&client).await;
    admitted::the_api_server_takes_and_refuses_what_we_do(&client).await;
    older::every_converted_manifest_is_accepted(&client).await;
    older::old_objects_are_refused_or_converted(&cluster).await;
    terminal::view_shows_the_cluster_and_answers_keys(&cluster).await;
    cluster.stop().await.expect("all processes end");
}

async fn every_case_is_answered_as_expected(client: &Client) {
    let cases = cases::all();
    let mut wrong = Vec::new();
    for case in &cases {
        if let Err(problem) = judge(client, case).await {
            wrong.push(format!("{}\n  {problem}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Creates every definition and waits until the API server serves it.
async fn install(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in karpenter_api::crds() {
        let name = definition.name_any();
        if let Err(error) = definitions.create(&PostParams::default(), &definition).await {
            panic!("the API server refuses `{name}`: {error}");
        }
        manifests::served(client, &definition).await.expect("it is served");
        let installed = definitions.get(&name).await.unwrap();
        let conditions = installed.status.and_then(|status| status.conditions).unwrap_or_default();
        let structural = conditions.iter().all(|c| c.type_ != "NonStructuralSchema" || c.status != "True");
        assert!(structural, "`{name}` is not structural: {conditions:?}");
    }
}

async fn judge(client: &Client, case: &Case) -> Result<(), String> {
    let api = api_of(client, &case.object);
    match (&case.expected, apply(&api, case).await) {
        (Expected::Accept { stored }, Ok(found)) => {
            let found = serde_json::to_value(found).map_err(|error| error.to_string())?;
            if contains(&found, stored) { Ok(()) } else { Err(format!("stored {found}, wanted {stored}")) }
        }
        (Expected::Reject { mentions }, Err(kube::Error::Api(status)))
            if status.message.contains(mentions) =>
        {
            Ok(())
        }
        (Expected::Accept { .. }, Err(error)) => Err(format!("refused: {error}")),
        (Expected::Reject { mentions }, Err(error)) => Err(format!("does not mention `{mentions}`: {error}")),
        (Expected::Reject { mentions }, Ok(_)) => Err(format!("accepted, wanted `{mentions}`")),
    }
}

/// The answer to the last step of the case.
async fn apply(api: &Api<DynamicObject>, case: &Case) -> Result<DynamicObject, kube::Error> {
    let object: DynamicObject =
        serde_json::from_value(case.object.clone()).map_err(kube::Error::SerdeError)?;
    let name = object.name_any();
    let created = api.create(&PostParams::default(), &object).await;
    let parameters = PatchParams::default();
    match &case.then {
        Step::Nothing => created,
        Step::Update(patch) => {
            created.expect("the first step is accepted");
            api.patch(&name, &parameters, &Patch::Merge(patch)).await
        }
        Step::Status(patch) => {
            created.expect("the first step is accepted");
            api.patch_status(&name, &parameters, &Patch::Merge(patch)).await
        }
    }
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |field: &str| object[field].as_str().expect("every case names its kind");
    let (group, version) = text("apiVersion").split_once('/').expect("group and version");
    let definition = karpenter_api::crds().into_iter().find(|crd| crd.spec.names.kind == text("kind"));
    let definition = definition.expect("every kind of the tables has a definition").spec;
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    let resource = ApiResource::from_gvk_with_plural(&kind, &definition.names.plural);
    if definition.scope == "Namespaced" {
        return Api::namespaced_with(client.clone(), "default", &resource);
    }
    Api::all_with(client.clone(), &resource)
}

/// Returns whether everything in `part` is in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|w| contains(w, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        _ => whole == part,
    }
}
