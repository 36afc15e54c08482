//! Custom kinds: the accept/reject tables of the product's schemas, and the mechanics around them.

use karpenter_api::{
    cases::{self, Expected, Step},
    crd,
};
use karpenter_kube_sim::apiserver::ApiServer;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::ApiResource,
};
use serde_json::{Value, json};

use crate::world::{code, server};

fn serving_custom_kinds() -> ApiServer {
    let server = server();
    for definition in crd::crd_values() {
        server.load(&definition).expect("a valid definition");
    }
    server
}

fn api(server: &ApiServer, version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').expect("a custom kind");
    let definitions = crd::crd_values();
    let definition = definitions.iter().find(|d| d["spec"]["names"]["kind"] == kind).expect("a known kind");
    let plural = definition["spec"]["names"]["plural"].as_str().expect("a plural name");
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    if definition["spec"]["scope"] == "Namespaced" {
        Api::default_namespaced_with(server.client(), &resource)
    } else {
        Api::all_with(server.client(), &resource)
    }
}

async fn play(server: &ApiServer, object: &Value, then: &Step) -> Result<Value, String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let api = api(server, object["apiVersion"].as_str().unwrap_or_default(), kind);
    let dynamic: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let name = dynamic.name_any();
    let params = PatchParams::default();
    let answer = match (api.create(&PostParams::default(), &dynamic).await, then) {
        (Ok(created), Step::Nothing) => Ok(created),
        (Ok(_), Step::Update(patch)) => api.patch(&name, &params, &Patch::Merge(patch)).await,
        (Ok(_), Step::Status(patch)) => api.patch_status(&name, &params, &Patch::Merge(patch)).await,
        (Err(error), Step::Nothing) => Err(error),
        (Err(error), _) => panic!("the object of `{name}` must be valid before its step: {error}"),
    };
    let _ = api.delete(&name, &DeleteParams::default()).await;
    answer.map(|o| serde_json::to_value(o).expect("JSON")).map_err(|error| error.to_string())
}

fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

#[tokio::test(start_paused = true)]
async fn every_schema_case_gets_its_verdict() {
    let server = serving_custom_kinds();
    let mut wrong = Vec::new();
    let cases = cases::all();
    for case in &cases {
        let answer = play(&server, &case.object, &case.then).await;
        let right = match (&case.expected, &answer) {
            (Expected::Accept { stored }, Ok(object)) => contains(object, stored),
            (Expected::Reject { mentions }, Err(message)) => message.contains(mentions),
            _ => false,
        };
        if !right {
            wrong.push(format!("{}: expected {:?}, got {answer:?}", case.name, case.expected));
        }
    }
    assert!(cases.len() > 100, "the tables are there");
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn status_is_written_through_its_subresource_only() {
    let server = serving_custom_kinds();
    let case = cases::all().into_iter().find(|c| {
        c.name.starts_with("NodePool")
            && c.then == Step::Nothing
            && matches!(c.expected, Expected::Accept { .. })
    });
    let mut object = case.expect("an accepted pool").object;
    object["status"] = json!({"nodes": 7});
    let pools = api(&server, "karpenter.sh/v1", "NodePool");
    let dynamic: DynamicObject = serde_json::from_value(object).expect("an object");
    let name = dynamic.name_any();
    let created = pools.create(&PostParams::default(), &dynamic).await.expect("created");
    assert!(created.data.get("status").is_none(), "dropped on create: {}", created.data);
    let patch = Patch::Merge(json!({"status": {"nodes": 3}, "spec": {"weight": 5}}));
    let main = pools.patch(&name, &PatchParams::default(), &patch).await.expect("patched");
    assert!(main.data.get("status").is_none());
    assert_eq!(main.data["spec"]["weight"], 5);
    assert_eq!(main.meta().generation, Some(2));
    let patch = Patch::Merge(
        json!({"status": {"nodes": 3}, "spec": {"weight": 9}, "metadata": {"labels": {"a": "b"}}}),
    );
    let status = pools.patch_status(&name, &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!((&status.data["status"]["nodes"], &status.data["spec"]["weight"]), (&json!(3), &json!(5)));
    assert!(status.labels().is_empty());
    assert_eq!(status.meta().generation, Some(2));
    let unversioned = DynamicObject {
        metadata: kube::core::ObjectMeta { resource_version: None, ..status.metadata.clone() },
        ..status
    };
    assert_eq!(code(pools.replace(&name, &PostParams::default(), &unversioned).await), 422);
}

#[tokio::test(start_paused = true)]
async fn refusals_name_the_field_and_unknown_fields_are_dropped() {
    let server = serving_custom_kinds();
    let pools = api(&server, "karpenter.sh/v1", "NodePool");
    let base = cases::all()
        .into_iter()
        .find(|c| c.name.starts_with("NodePool") && matches!(c.expected, Expected::Accept { .. }));
    let mut object = base.expect("an accepted pool").object;
    object["spec"]["weight"] = json!(101);
    object["spec"]["nonsense"] = json!(1);
    let dynamic: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let refused = pools.create(&PostParams::default(), &dynamic).await.expect_err("too heavy");
    let kube::Error::Api(status) = refused else { panic!("expected a refusal, got {refused:?}") };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(status.details.as_ref().expect("details").causes[0].field, "spec.weight");
    object["spec"]["weight"] = json!(100);
    let dynamic: DynamicObject = serde_json::from_value(object).expect("an object");
    let created = pools.create(&PostParams::default(), &dynamic).await.expect("created");
    assert!(created.data["spec"].get("nonsense").is_none());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_stops_serving_its_kind() {
    let server = serving_custom_kinds();
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(server.client());
    let stored = definitions.get("nodepools.karpenter.sh").await.expect("found");
    let conditions = stored.status.and_then(|s| s.conditions).unwrap_or_default();
    assert!(conditions.iter().any(|c| c.type_ == "Established" && c.status == "True"));
    let pools = api(&server, "karpenter.sh/v1", "NodePool");
    assert!(pools.list(&ListParams::default()).await.is_ok());
    definitions.delete("nodepools.karpenter.sh", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(code(pools.list(&ListParams::default()).await), 404);
}
