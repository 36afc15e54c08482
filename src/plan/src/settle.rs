//! What the controllers of pools and claims would write before a plan is made, written here: hashes, the conditions of
//! pools, drift.
//!
//! In a cluster with a running controller nothing changes by it. A manifest that no controller has looked at becomes
//! ready or says why not, and machines of a pool whose template a manifest changes drift. The rules are those of
//! `karpenter_lifecycle` and `karpenter_api`.

pub(crate) mod classes;

use jiff::Timestamp;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::{Condition, ConditionStatus, NodeClaim, NodePool, convert};
use karpenter_lifecycle::claim::drift;
use karpenter_lifecycle::pool::status::hash;
use karpenter_lifecycle::pool::status::readiness::{NodeClass, verdict};
use karpenter_lifecycle::step::ConditionValue;
use karpenter_model::names::{condition, reason};
use karpenter_model::{
    Claim, ConditionType, DisruptionSettings, InstanceType, LabelRegistry, NodeClassRef, Pool,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{Objects, text};

pub use classes::MayDrift;

/// Reasons of drift that follow from pool and claim; all others are the provider's, whose word stands.
const OURS: [&str; 5] = [
    reason::NODE_POOL_DRIFTED,
    reason::REQUIREMENTS_DRIFTED,
    reason::EXPIRES_SOON,
    reason::REBALANCE_RECOMMENDED,
    reason::INSTANCE_TYPE_NOT_FOUND,
];

/// Brings hashes and conditions of every pool up to date; returns why pools are not ready or cannot be read, in name order.
pub(crate) fn pools(objects: &mut Objects, registry: &LabelRegistry, at: Timestamp) -> Vec<String> {
    let claims: Vec<Claim> = claims(objects, registry).collect();
    let mut stamped: Vec<(String, Value)> = Vec::new();
    let mut unready = Vec::new();
    let classes = objects.clone();
    for (key, object) in objects.of_kind_mut("NodePool") {
        // What cannot be read is reported when the objects are loaded.
        let Ok(mut pool) = NodePool::deserialize(&*object) else { continue };
        let model = match convert::pool(&pool, registry) {
            Ok(model) => model,
            Err(error) => {
                unready.push(error.to_string());
                continue;
            }
        };
        if pool.metadata.uid.is_none() {
            object["metadata"]["uid"] = json!(format!("planned-nodepool-{}", key.name));
        }
        let stored = pool.metadata.annotations.clone().unwrap_or_default();
        let owned = claims.iter().filter(|claim| claim.pool.as_ref() == Some(&model.name));
        let stamps = hash::stamps(&stored, &model.hash, owned);
        annotate(object, &json!(stamps.pool));
        stamped.extend(stamps.claims.iter().map(|(claim, stamp)| (claim.to_string(), json!(stamp))));
        let class = class(&classes, &model.template.node_class);
        let mut status = pool.status.take().unwrap_or_default();
        unready.extend(judge(&mut status.conditions, &pool, registry, class, at));
        object["status"] = json!(status);
    }
    for (name, annotations) in stamped {
        for (_, claim) in objects.of_kind_mut("NodeClaim").filter(|(key, _)| key.name == name) {
            annotate(claim, &annotations);
        }
    }
    unready
}

/// Sets the conditions that make a pool ready; why it is not, if so.
fn judge(
    list: &mut Vec<Condition>,
    pool: &NodePool,
    registry: &LabelRegistry,
    class: NodeClass,
    at: Timestamp,
) -> Option<String> {
    let mut conditions = Conditions::open(Dependents::NODE_POOL, list, &pool.metadata, at);
    let problems: Vec<String> = pool.problems(registry).iter().map(ToString::to_string).collect();
    let of_class = verdict(class);
    if problems.is_empty() {
        conditions.set_true(condition::VALIDATION_SUCCEEDED);
    } else {
        let message = problems.join("; ");
        conditions.set_false(condition::VALIDATION_SUCCEEDED, reason::NODE_POOL_VALIDATION_FAILED, &message);
    }
    let status = match of_class.status {
        karpenter_model::ConditionStatus::True => ConditionStatus::True,
        karpenter_model::ConditionStatus::False => ConditionStatus::False,
        karpenter_model::ConditionStatus::Unknown => ConditionStatus::Unknown,
    };
    conditions.set(condition::NODE_CLASS_READY, status, &of_class.reason, &of_class.message);
    let failing = conditions.get(condition::READY).is_none_or(|ready| ready.status != ConditionStatus::True);
    failing.then(|| {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let class = (status != ConditionStatus::True).then_some(of_class);
        let class = class.map(|class| format!("node class: {} {}", class.reason, class.message));
        let why: Vec<String> = problems.into_iter().chain(class).collect();
        format!("pool `{name}` is not ready: {}", why.join("; "))
    })
}

/// What is known of the node class of a pool.
fn class(objects: &Objects, reference: &NodeClassRef) -> NodeClass {
    let found = objects.of_kind(&reference.kind).find(|(key, _)| key.name == reference.name);
    let Some((_, class)) = found else { return NodeClass::Missing };
    if class["metadata"].get("deletionTimestamp").is_some() {
        return NodeClass::Terminating;
    }
    let conditions = class.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|one| one["type"] == condition::READY);
    NodeClass::Present(ready.map(|ready| ConditionValue {
        status: match text(ready, "/status") {
            "True" => karpenter_model::ConditionStatus::True,
            "False" => karpenter_model::ConditionStatus::False,
            _ => karpenter_model::ConditionStatus::Unknown,
        },
        reason: text(ready, "/reason").to_owned(),
        message: text(ready, "/message").to_owned(),
    }))
}

/// Judges again whether claims have drifted from their pools, with what each pool can launch, or are to be replaced in time
/// by what `settings` say.
pub(crate) fn drift<'t>(
    objects: &mut Objects,
    registry: &LabelRegistry,
    types: impl Fn(&Pool) -> Option<&'t [std::sync::Arc<InstanceType>]>,
    settings: &DisruptionSettings,
    at: Timestamp,
) {
    let pools: Vec<(Pool, NodePool)> = objects
        .of_kind("NodePool")
        .filter_map(|(_, object)| NodePool::deserialize(object).ok())
        .filter_map(|pool| Some((convert::pool(&pool, registry).ok()?, pool)))
        .collect();
    for (_, object) in objects.of_kind_mut("NodeClaim") {
        let Ok(mut claim) = NodeClaim::deserialize(&*object) else { continue };
        let (model, _) = convert::claim_in_part(&claim, registry);
        let of_claim = |(pool, _): &&(Pool, NodePool)| model.pool.as_ref() == Some(&pool.name);
        let Some((pool, of_pool)) = pools.iter().find(of_claim) else { continue };
        let annotations = of_pool.metadata.annotations.clone().unwrap_or_default();
        let facts = drift::Facts {
            pool,
            pool_annotations: &annotations,
            instance_types: types(pool),
            registry,
            type_found: None,
            settings,
            now: at,
        };
        let known = model.conditions.get(&ConditionType::Drifted).map(|known| known.reason.clone());
        let provider = match &known {
            Some(reason) if !OURS.contains(&reason.as_str()) => drift::Provider::Drifted(reason),
            _ => drift::Provider::Same,
        };
        let step = drift::step(&model, drift::local(&model, facts), provider);
        let mut status = claim.status.take().unwrap_or_default();
        let mut conditions =
            Conditions::open(Dependents::NODE_CLAIM, &mut status.conditions, &claim.metadata, at);
        for change in &step.conditions {
            match &change.to {
                Some(to) => {
                    conditions.set(condition::DRIFTED, ConditionStatus::True, &to.reason, &to.message);
                }
                // It decides nothing else, so it can always be removed.
                None => drop(conditions.clear(condition::DRIFTED)),
            }
        }
        if conditions.changed() {
            object["status"] = json!(status);
        }
    }
}

/// The claims that can be read.
pub(crate) fn claims<'a>(
    objects: &'a Objects,
    registry: &'a LabelRegistry,
) -> impl Iterator<Item = Claim> + 'a {
    let claims = objects.of_kind("NodeClaim").filter_map(|(_, object)| NodeClaim::deserialize(object).ok());
    claims.map(|claim| convert::claim_in_part(&claim, registry).0)
}

fn annotate(object: &mut Value, annotations: &Value) {
    for (key, value) in annotations.as_object().into_iter().flatten() {
        object["metadata"]["annotations"][key] = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_model::names::annotation;

    use super::*;

    fn pool(spec: &Value) -> Value {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            pool["spec"]["template"]["spec"][key] = value.clone();
        }
        pool
    }

    fn class(ready: &str) -> Value {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Some", "message": "text"}]},
        })
    }

    fn claim() -> Value {
        let at = "2026-01-01T00:00:00Z";
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": "default-a", "uid": "1", "creationTimestamp": at,
                "labels": {karpenter_model::names::label::NODE_POOL: "default"},
            },
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
            "status": {"conditions": [
                {"type": "Launched", "status": "True", "lastTransitionTime": at, "reason": "Launched", "message": ""},
            ]},
        })
    }

    fn settled(given: Vec<Value>) -> (Objects, Vec<String>) {
        let mut objects: Objects = given.into_iter().collect();
        let unready = pools(&mut objects, &LabelRegistry::core(), Timestamp::UNIX_EPOCH);
        (objects, unready)
    }

    fn drifted(objects: &Objects) -> Option<String> {
        let (_, claim) = objects.of_kind("NodeClaim").next()?;
        let conditions = claim.pointer("/status/conditions")?.as_array()?;
        let drifted = conditions.iter().find(|one| one["type"] == condition::DRIFTED)?;
        Some(text(drifted, "/reason").to_owned())
    }

    #[test]
    fn a_pool_without_status_becomes_ready_with_its_class() {
        let (objects, unready) = settled(vec![pool(&json!({})), class("True")]);
        assert_eq!(unready, Vec::<String>::new());
        let (_, pool) = objects.of_kind("NodePool").next().unwrap();
        let read = convert::pool(&NodePool::deserialize(pool).unwrap(), &LabelRegistry::core()).unwrap();
        assert!(read.ready);
        assert_eq!(pool["metadata"]["annotations"][annotation::POOL_HASH], read.hash);
    }

    #[test]
    fn a_pool_that_is_not_ready_says_why() {
        let (_, unready) = settled(vec![pool(&json!({}))]);
        assert_eq!(
            unready,
            ["pool `default` is not ready: node class: NodeClassNotFound NodeClass not found on cluster"]
        );
        let (_, unready) = settled(vec![pool(&json!({})), class("False")]);
        assert_eq!(unready, ["pool `default` is not ready: node class: Some text"]);
        let taints = json!({"taints": [{"key": "a", "effect": "Maybe"}]});
        let (_, unready) = settled(vec![pool(&taints), class("True")]);
        assert!(unready[0].contains("effect") && unready[0].contains("correct the object"), "{unready:?}");
    }

    /// Judges without knowing what pools can launch.
    fn judge(objects: &mut Objects, settings: &DisruptionSettings) {
        drift(objects, &LabelRegistry::core(), |_| None, settings, Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn a_changed_template_makes_its_machines_drift() {
        let (mut objects, _) = settled(vec![pool(&json!({})), class("True"), claim()]);
        judge(&mut objects, &DisruptionSettings::default());
        assert_eq!(drifted(&objects), None, "stamped with the hash of the pool it is of");
        objects.apply(pool(&json!({"taints": [{"key": "a", "effect": "NoSchedule"}]})));
        pools(&mut objects, &LabelRegistry::core(), Timestamp::UNIX_EPOCH);
        judge(&mut objects, &DisruptionSettings::default());
        assert_eq!(drifted(&objects).as_deref(), Some(reason::NODE_POOL_DRIFTED));
        objects.apply(pool(&json!({})));
        pools(&mut objects, &LabelRegistry::core(), Timestamp::UNIX_EPOCH);
        judge(&mut objects, &DisruptionSettings::default());
        assert_eq!(drifted(&objects), None, "the change was taken back");
    }

    #[test]
    fn a_machine_that_expires_soon_drifts_where_the_controller_is_set_to_replace_it_before() {
        let mut young = claim();
        young["spec"]["expireAfter"] = json!("24h");
        let (mut objects, _) = settled(vec![pool(&json!({})), class("True"), young]);
        let at: Timestamp = "2026-01-01T20:00:00Z".parse().unwrap();
        for (hours, expected) in [(0, None), (6, Some(reason::EXPIRES_SOON)), (0, None)] {
            let expiry_lead = Duration::from_hours(hours);
            let settings = DisruptionSettings { expiry_lead, ..DisruptionSettings::default() };
            drift(&mut objects, &LabelRegistry::core(), |_| None, &settings, at);
            assert_eq!(drifted(&objects).as_deref(), expected, "{hours} h");
        }
    }

    #[test]
    fn a_machine_the_cloud_recommends_to_leave_drifts_where_the_controller_is_set_to_act_on_that() {
        let mut recommended = claim();
        let since = json!("2026-01-01T10:00:00Z");
        recommended["metadata"]["annotations"] = json!({annotation::REBALANCE_RECOMMENDED: since});
        let (mut objects, _) = settled(vec![pool(&json!({})), class("True"), recommended]);
        let expected = [(false, None), (true, Some(reason::REBALANCE_RECOMMENDED)), (false, None)];
        for (on_rebalance, expected) in expected {
            let settings = DisruptionSettings { on_rebalance, ..DisruptionSettings::default() };
            judge(&mut objects, &settings);
            assert_eq!(drifted(&objects).as_deref(), expected, "{on_rebalance}");
        }
    }

    #[test]
    fn the_word_of_the_provider_about_drift_stands() {
        let mut of_provider = claim();
        let conditions = of_provider["status"]["conditions"].as_array_mut().unwrap();
        conditions
            .push(json!({"type": "Drifted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "AMIDrift", "message": "AMIDrift"}));
        let (mut objects, _) = settled(vec![pool(&json!({})), class("True"), of_provider]);
        judge(&mut objects, &DisruptionSettings::default());
        assert_eq!(drifted(&objects).as_deref(), Some("AMIDrift"));
    }
}
