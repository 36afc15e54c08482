//! Whether an API server with our definitions would take an object, or today's chart its values.

use karpenter_api::manifest::{against as by_schema, refusals, unknown_fields};
use karpenter_api::{EC2NodeClass, NodePool};
use serde_json::Value;

use crate::names;

/// Everything that is wrong with an object of v1, each with its path; empty for kinds without a definition here.
pub(crate) fn problems(object: &Value) -> Vec<String> {
    let unknown = unknown_fields(object).into_iter().map(|one| format!("`{}` is not known there", one.field));
    let mut problems: Vec<String> = unknown.chain(refusals(object).iter().map(ToString::to_string)).collect();
    if problems.is_empty() {
        problems.extend(of_controller(object));
    }
    problems
}

/// Returns what the controller refuses of an object that an API server takes.
fn of_controller(object: &Value) -> Vec<String> {
    if let Ok(pool) = serde_json::from_value::<NodePool>(object.clone()) {
        return pool.problems(&names::registry()).iter().map(ToString::to_string).collect();
    }
    let class = serde_json::from_value::<EC2NodeClass>(object.clone()).ok();
    let kubelet = class.and_then(|class| class.spec.kubelet);
    let problems = kubelet.map(|block| block.problems()).unwrap_or_default();
    problems.into_iter().map(|problem| format!("`spec.kubelet`: {problem}")).collect()
}

/// Everything that is wrong with a value according to a schema.
pub(crate) fn against(schema: &Value, value: &Value) -> Vec<String> {
    let (unknown, causes) = by_schema(schema, value);
    let unknown = unknown.into_iter().map(|one| format!("`{}` is not known there", one.field));
    unknown.chain(causes.iter().map(ToString::to_string)).collect()
}
