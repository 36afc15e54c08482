//! Schemas against Rust types, against the tables, and against what the API server asks of any schema.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::cases::{self, Expected, Step};
use crate::schema::{Schema, Violation};
use crate::{EC2NodeClass, NodeClaim, NodeOverlay, NodePool};

mod check;
mod full;

fn schema(kind: &str) -> Value {
    let of_kind = |crd: &Value| crd["spec"]["names"]["kind"] == kind;
    let crd = crd_values().into_iter().find(of_kind).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What an API server stores of `object`, or the complaints.
fn admit(object: &Value, old: Option<&Value>) -> Outcome {
    let mut stored = object.clone();
    let schema = Schema::compile(&schema(object["kind"].as_str().unwrap()));
    let complaints = |violation| match violation {
        Violation::Values(causes) => causes.iter().map(ToString::to_string).collect(),
        Violation::UnknownFields(_) => unreachable!("they are dropped"),
    };
    schema.admit(&mut stored, old, false).map_err(complaints).map(|()| stored)
}

fn run(case: &cases::Case) -> Outcome {
    let (Step::Update(patch) | Step::Status(patch)) = &case.then else {
        return admit(&case.object, None);
    };
    let created = admit(&case.object, None).expect("the first step is accepted");
    let mut updated = created.clone();
    cases::merge(&mut updated, patch);
    admit(&updated, Some(&created))
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

/// Object as it is stored, or the complaints.
type Outcome = Result<Value, Vec<String>>;

/// Every case with its outcome. Computed once for all tests.
static OUTCOMES: LazyLock<Vec<(cases::Case, Outcome)>> = LazyLock::new(|| {
    let outcome = |case: cases::Case| {
        let outcome = run(&case);
        (case, outcome)
    };
    cases::all().into_iter().map(outcome).collect()
});

#[test]
fn every_case_gets_its_verdict() {
    let mut wrong = Vec::new();
    for (case, outcome) in OUTCOMES.iter() {
        match (&case.expected, outcome) {
            (Expected::Accept { stored }, Ok(found)) if contains(found, stored) => {}
            (Expected::Reject { mentions }, Err(complaints))
                if complaints.iter().any(|c| c.contains(mentions.as_str())) => {}
            (verdict, found) => wrong.push(format!("{}\n  wanted {verdict:?}\n  found {found:?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_overlays_of_the_documentation_are_accepted_and_right() {
    let text = include_str!("../../../../docs/examples/nodeoverlays.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    assert_eq!(objects.len(), 3);
    for object in objects {
        let stored = admit(&object, None).unwrap();
        let overlay: NodeOverlay = serde_json::from_value(stored).unwrap();
        let mut registry = karpenter_model::LabelRegistry::core();
        registry.well_known.extend(karpenter_model::names::label::aws::WELL_KNOWN.map(Into::into));
        let read = crate::convert::overlay(&overlay, &registry).unwrap();
        assert!(read.price.is_some() || !read.capacity.is_empty(), "{object}");
    }
}

#[test]
fn cases_are_named_once_and_objects_too() {
    let cases = cases::all();
    let names: BTreeSet<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    let objects: BTreeSet<String> =
        cases.iter().map(|c| format!("{}/{}", c.object["kind"], c.object["metadata"]["name"])).collect();
    assert_eq!((names.len(), objects.len()), (cases.len(), cases.len()));
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let broken: Vec<&String> =
        OUTCOMES.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).flatten().collect();
    for crd in crd_values() {
        for message in messages(&crd) {
            assert!(broken.iter().any(|b| b.contains(&message)), "no case breaks the rule `{message}`");
        }
    }
}

/// The messages of all rules below a value.
fn messages(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("rule").and(map.get("message")).and_then(Value::as_str).map(str::to_owned);
            map.values().flat_map(messages).chain(own).collect()
        }
        Value::Array(list) => list.iter().flat_map(messages).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn types_and_schemas_have_the_same_fields() {
    for object in [full::node_pool(), full::node_claim(), full::node_overlay(), full::ec2_node_class()] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let mut in_object = check::leaves(&object);
        in_object.retain(|path| path.starts_with("spec.") || path.starts_with("status."));
        let in_schema = check::schema_leaves(&schema(&kind));
        assert_eq!(in_object, in_schema, "{kind}");
    }
}

#[test]
fn accepted_objects_survive_the_rust_types_unchanged() {
    for (case, outcome) in OUTCOMES.iter() {
        let Ok(stored) = outcome else { continue };
        let again = match stored["kind"].as_str().unwrap() {
            "NodePool" => serde_json::to_value(serde_json::from_value::<NodePool>(stored.clone()).unwrap()),
            "NodeClaim" => serde_json::to_value(serde_json::from_value::<NodeClaim>(stored.clone()).unwrap()),
            "NodeOverlay" => {
                serde_json::to_value(serde_json::from_value::<NodeOverlay>(stored.clone()).unwrap())
            }
            "EC2NodeClass" => {
                serde_json::to_value(serde_json::from_value::<EC2NodeClass>(stored.clone()).unwrap())
            }
            // Buffers have a schema but no type yet.
            _ => continue,
        };
        let mut again = again.unwrap();
        // Fields that the types always write although they may be absent.
        if stored.get("spec").is_none() {
            again.as_object_mut().unwrap().shift_remove("spec");
        }
        assert!(check::same_but_for_written_defaults(stored, &again), "{}\n{stored}\n{again}", case.name);
    }
}

#[test]
fn objects_of_another_kind_are_refused() {
    let mut pool = full::node_pool();
    pool["apiVersion"] = json!("karpenter.sh/v1beta1");
    let error = serde_json::from_value::<NodePool>(pool).unwrap_err().to_string();
    let wanted = "expected `NodePool` of `karpenter.sh/v1`, found `NodePool` of `karpenter.sh/v1beta1`";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn definitions_lose_nothing_as_typed_values() {
    for (value, typed) in crd_values().iter().zip(crds()) {
        let typed = serde_json::to_value(&typed).unwrap();
        assert!(contains_numerically(&typed, value), "{}", value["metadata"]["name"]);
    }
}

/// Like [`contains`], with `1` equal to `1.0`: typed bounds are floating-point numbers.
fn contains_numerically(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|w| contains_numerically(w, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains_numerically(w, p))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => whole == part,
    }
}

#[test]
fn yaml_reads_back_as_the_same_values() {
    let yaml = crds_yaml();
    let documents: Vec<Value> =
        yaml.split("---\n").skip(1).map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    assert_eq!(documents, crd_values());
}
