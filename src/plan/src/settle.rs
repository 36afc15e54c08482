//! Writes that the controllers of pools and claims would make before a plan is made, made here: hashes, the conditions of
//! pools, drift, the status of pod disruption budgets, taints of nodes that do not serve, volumes of claims.
//!
//! In a cluster with a running controller nothing changes by it. A manifest that no controller has looked at becomes
//! ready or says why not, and machines of a pool whose template a manifest changes drift. The rules are those of
//! `karpenter_lifecycle` and `karpenter_api`.

pub(crate) mod classes;
pub(crate) mod nodes;
pub(crate) mod volumes;

use jiff::Timestamp;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::manifest::faults;
use karpenter_api::{Condition, ConditionStatus, NodeClaim, NodePool, convert};
use karpenter_controllers::conditions;
use karpenter_controllers::view::Class;
use karpenter_lifecycle::claim::drift;
use karpenter_lifecycle::pool::status::hash;
use karpenter_lifecycle::pool::status::readiness::NodeClass;
use karpenter_model::names::{annotation, condition, reason};
use karpenter_model::{
    Claim, ConditionType, DisruptionSettings, InstanceType, LabelRegistry, NodeClassRef, Pool,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{BUDGET, ObjectKey, Objects, text};
use crate::workloads::{has_ended, is_planned, labels_of};

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
    let classes = objects.clone();
    let mut unready = refused_classes(&classes);
    for (key, object) in objects.of_kind_mut("NodePool") {
        // Pools that cannot be read are reported when the objects are loaded.
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
        let mut problems: Vec<String> = pool.problems(registry).iter().map(ToString::to_string).collect();
        if problems.is_empty() {
            problems.extend(refused(object));
        }
        unready.extend(judge(&mut status.conditions, &pool, problems, class, at));
        object["status"] = json!(status);
    }
    for (name, annotations) in stamped {
        for (_, claim) in objects.of_kind_mut("NodeClaim").filter(|(key, _)| key.name == name) {
            annotate(claim, &annotations);
        }
    }
    unready
}

/// Sets the conditions that make a pool ready; returns the reason if it is not.
fn judge(
    list: &mut Vec<Condition>,
    pool: &NodePool,
    problems: Vec<String>,
    class: NodeClass,
    at: Timestamp,
) -> Option<String> {
    let mut conditions = Conditions::open(Dependents::NODE_POOL, list, &pool.metadata, at);
    let of_class = conditions::judge(&mut conditions, &problems, class);
    let failing = conditions.get(condition::READY).is_none_or(|ready| ready.status != ConditionStatus::True);
    failing.then(|| {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let class = (of_class.status != ConditionStatus::True).then_some(of_class);
        let class = class.map(|class| format!("node class: {} {}", class.reason, class.message));
        let why: Vec<String> = problems.into_iter().chain(class).collect();
        format!("pool `{name}` is not ready: {}", why.join("; "))
    })
}

/// Names the node classes that an API server refuses, and which are therefore not there.
fn refused_classes(objects: &Objects) -> Vec<String> {
    let said = |(key, class): (&ObjectKey, &Value)| {
        let why = refused(class);
        (!why.is_empty()).then(|| {
            format!("node class `{}` is not there, an API server refuses it: {}", key.name, why.join("; "))
        })
    };
    objects.of_kind("EC2NodeClass").filter_map(said).collect()
}

/// Returns why an API server refuses an object that none has stored.
pub(crate) fn refused(object: &Value) -> Vec<String> {
    let is_stored = !text(object, "/metadata/uid").is_empty() && !is_planned(object);
    if is_stored {
        return Vec::new();
    }
    faults(object, true).iter().map(ToString::to_string).collect()
}

/// Returns the node class of a pool, as far as it is known.
fn class(objects: &Objects, reference: &NodeClassRef) -> NodeClass {
    let found = objects.of_kind(&reference.kind).find(|(key, _)| key.name == reference.name);
    match found.filter(|(_, class)| refused(class).is_empty()) {
        Some((_, class)) => Class::state_of(class["metadata"].get("deletionTimestamp").is_some(), class),
        None => NodeClass::Missing,
    }
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
        // Whether the template has changed cannot be judged without the hash, which files often leave out.
        let has_hash = model.annotations.contains_key(annotation::POOL_HASH);
        let stands =
            |reason: &str| !OURS.contains(&reason) || reason == reason::NODE_POOL_DRIFTED && !has_hash;
        let provider = match &known {
            Some(reason) if stands(reason) => drift::Provider::Drifted(reason),
            _ => drift::Provider::Same,
        };
        let step = drift::step(&model, drift::local(&model, facts), provider);
        let mut status = claim.status.take().unwrap_or_default();
        let mut conditions =
            Conditions::open(Dependents::NODE_CLAIM, &mut status.conditions, &claim.metadata, at);
        step.conditions.iter().for_each(|change| conditions::change(&mut conditions, change));
        if conditions.changed() {
            object["status"] = json!(status);
        }
    }
}

/// Gives budgets of manifests the status that the disruption controller will give them.
pub(crate) fn budgets(objects: &mut Objects) {
    let is_judged = |budget: &Value| {
        let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        budget["status"].is_object() && number("/status/observedGeneration") >= number("/metadata/generation")
    };
    let open = objects.of_kind(BUDGET).filter(|(_, budget)| !is_judged(budget));
    let statuses: Vec<(ObjectKey, Value)> =
        open.map(|(key, budget)| (key.clone(), status_of(objects, key, budget))).collect();
    for (key, status) in statuses {
        for (_, budget) in objects.of_kind_mut(BUDGET).filter(|(of, _)| **of == key) {
            budget["status"] = status.clone();
        }
    }
}

fn status_of(objects: &Objects, key: &ObjectKey, budget: &Value) -> Value {
    let selector = budget["spec"].get("selector").cloned();
    let selector = convert::selector(selector.and_then(|one| serde_json::from_value(one).ok()).as_ref());
    let covered = |(pod, object): &(&ObjectKey, &Value)| {
        pod.namespace == key.namespace
            && !has_ended(object)
            && selector.as_ref().is_some_and(|selector| selector.matches(&labels_of(object)))
    };
    let pods: Vec<&Value> = objects.of_kind("Pod").filter(covered).map(|(_, pod)| pod).collect();
    let of_pods = pods.iter().map(|pod| {
        let owner = controller_of(pod);
        let like = || pods.iter().filter(|other| controller_of(other) == owner).count();
        // A pod without a controller is one that nothing is expected of.
        let wanted = owner.map_or(0, |(kind, name)| {
            wanted(objects, key, kind, name, pod).unwrap_or_else(|| i64::try_from(like()).unwrap_or(i64::MAX))
        });
        (is_healthy(pod), Some((owner, wanted)))
    });
    convert::allowance(budget, of_pods).status(budget)
}

/// Kind and name of the controller of a pod.
fn controller_of(pod: &Value) -> Option<(&str, &str)> {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    Some((text(owner, "/kind"), text(owner, "/name")))
}

/// Returns the number of pods that the controller of `pod` wants, if that is among the objects. A ReplicaSet wants what its
/// Deployment does.
fn wanted(objects: &Objects, budget: &ObjectKey, kind: &str, name: &str, pod: &Value) -> Option<i64> {
    let replicas = |object: &Value| object.pointer("/spec/replicas").map_or(Some(1), Value::as_i64);
    let named = |(key, _): &(&ObjectKey, &Value)| key.namespace == budget.namespace && key.name == name;
    let own = objects.of_kind(kind).find(named).map(|(_, object)| object);
    let selects = |(key, object): &(&ObjectKey, &Value)| {
        let selector = serde_json::from_value(object["spec"]["selector"].clone()).ok();
        key.namespace == budget.namespace
            && convert::selector(selector.as_ref()).is_some_and(|selector| selector.matches(&labels_of(pod)))
    };
    let deployment = || objects.of_kind("Deployment").find(selects).map(|(_, object)| object);
    let found = own.or_else(|| deployment().filter(|_| kind == "ReplicaSet"));
    found.and_then(replicas)
}

fn is_healthy(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = |one: &Value| one["type"] == condition::READY && one["status"] == "True";
    conditions.into_iter().flatten().any(is_ready) && pod["metadata"].get("deletionTimestamp").is_none()
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

    use karpenter_model::names::label;
    use karpenter_testkit::objects::{node_claim, node_pool};

    use super::*;

    fn pool(spec: &Value) -> Value {
        node_pool("default", &[], &json!({"template": {"spec": spec}}))
    }

    fn class(ready: &str) -> Value {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "class-default"},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Some", "message": "text"}]},
        })
    }

    fn claim() -> Value {
        let at = "2026-01-01T00:00:00Z";
        let launched = json!({"type": "Launched", "status": "True", "lastTransitionTime": at, "reason": "Launched", "message": ""});
        let labels = json!({label::NODE_POOL: "default"});
        let metadata = json!({"uid": "1", "creationTimestamp": at, "labels": labels});
        node_claim("default-a", &[], &json!({"metadata": metadata, "status": {"conditions": [launched]}}))
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

    /// Three pods of one ReplicaSet, two of which are ready, in the order of their names.
    fn web() -> Vec<Value> {
        let pod = |name: &str, ready: &str| {
            json!({
                "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": "shop", "labels": {"app": "web"},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": true}],
                },
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        vec![pod("a", "True"), pod("b", "True"), pod("c", "False")]
    }

    fn deployment(replicas: i64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}},
        })
    }

    fn budget(spec: &Value) -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
        })
    }

    fn status(objects: Vec<Value>) -> Value {
        let mut objects: Objects = objects.into_iter().collect();
        budgets(&mut objects);
        let (_, budget) = objects.of_kind(BUDGET).next().unwrap();
        budget["status"].clone()
    }

    #[test]
    fn a_budget_of_a_manifest_has_the_status_that_the_disruption_controller_gives_it() {
        let web_selector = json!({"matchLabels": {"app": "web"}});
        let of = |field: &str, value: Value| json!({field: value, "selector": web_selector});
        let none = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}});
        // Allowed, healthy, desired and expected.
        let table: Vec<(Value, Option<i64>, [i64; 4])> = vec![
            (of("maxUnavailable", json!(1)), None, [0, 2, 2, 3]),
            (of("maxUnavailable", json!(2)), None, [1, 2, 1, 3]),
            (of("maxUnavailable", json!("50%")), None, [1, 2, 1, 3]),
            (of("maxUnavailable", json!(2)), Some(5), [0, 2, 3, 5]),
            (of("maxUnavailable", json!(0)), None, [0, 2, 3, 3]),
            (of("minAvailable", json!(1)), None, [1, 2, 1, 3]),
            (of("minAvailable", json!("50%")), None, [0, 2, 2, 3]),
            (of("minAvailable", json!("50%")), Some(2), [1, 2, 1, 2]),
            (json!({"minAvailable": 1, "selector": {}}), None, [1, 2, 1, 3]),
            (json!({"minAvailable": 1}), None, [0, 0, 1, 0]),
            (none, None, [0, 0, 1, 0]),
        ];
        for (spec, replicas, expected) in table {
            let objects = web().into_iter().chain([budget(&spec)]).chain(replicas.map(deployment));
            let status = status(objects.collect());
            let fields = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            assert_eq!(fields.map(|field| status[field].as_i64().unwrap()), expected, "{spec} {replicas:?}");
        }
    }

    #[test]
    fn pods_without_a_controller_are_expected_by_no_budget_in_percent() {
        let mut pods = web();
        for pod in &mut pods {
            pod["metadata"]["ownerReferences"] = Value::Null;
        }
        for (spec, allowed) in [
            (json!({"maxUnavailable": 1, "selector": {}}), 0),
            (json!({"minAvailable": "10%", "selector": {}}), 0),
            (json!({"minAvailable": 1, "selector": {}}), 1),
        ] {
            let objects = pods.iter().cloned().chain([budget(&spec)]);
            assert_eq!(status(objects.collect())["disruptionsAllowed"], allowed, "{spec}");
        }
    }

    #[test]
    fn a_status_stands_until_the_budget_changes() {
        let selector = json!({"matchLabels": {"app": "web"}});
        let mut judged = budget(&json!({"maxUnavailable": 0, "selector": selector}));
        judged["status"] = json!({"disruptionsAllowed": 7});
        assert_eq!(status(web().into_iter().chain([judged.clone()]).collect())["disruptionsAllowed"], 7);
        let mut objects: Objects = web().into_iter().chain([judged]).collect();
        objects.apply(budget(&json!({"maxUnavailable": 2, "selector": selector})));
        budgets(&mut objects);
        let (_, changed) = objects.of_kind(BUDGET).next().unwrap();
        assert_eq!(changed["status"]["disruptionsAllowed"], 1);
    }

    #[test]
    fn what_an_api_server_refuses_is_not_there() {
        let mut refused = class("True");
        refused["metadata"] = json!({"name": "default"});
        refused["spec"] = json!({"role": "a", "instanceProfile": "b"});
        let (_, unready) = settled(vec![pool(&json!({})), refused]);
        assert!(
            unready[0].starts_with("node class `default` is not there, an API server refuses it: "),
            "{unready:?}"
        );
        assert!(unready[1].contains("NodeClassNotFound"), "{unready:?}");
        let mut heavy = pool(&json!({}));
        heavy["spec"]["weight"] = json!(1_000);
        let (_, unready) = settled(vec![heavy, class("True")]);
        assert!(unready[0].starts_with("pool `default` is not ready: `spec.weight`: "), "{unready:?}");
    }
}
