//! One table: what is written, and which rules say something about which field.

use karpenter_model::names::label;
use serde_json::json;

use super::*;
use crate::fixture::offerings;

fn registry() -> LabelRegistry {
    LabelRegistry::core()
}

fn pool(name: &str, spec: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        }}},
    });
    for (pointer, value) in spec.as_object().into_iter().flatten() {
        let mut place = &mut pool["spec"];
        for step in pointer.split('.') {
            place = &mut place[step];
        }
        *place = value.clone();
    }
    pool
}

fn found(objects: Vec<Value>) -> Vec<String> {
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let offerings = offerings(&["a", "b"]);
    let found = lint(objects, Some(&offerings), &registry(), at);
    found.iter().map(|one| format!("{} {} {}", one.object, one.field, one.rule)).collect()
}

fn of_pool(spec: &Value) -> Vec<String> {
    let all = found(vec![pool("a", spec)]);
    all.iter().map(|text| text.trim_start_matches("NodePool/a ").to_owned()).collect()
}

fn requires(key: &str, values: &[&str]) -> Value {
    json!({"template.spec.requirements": [{"key": key, "operator": "In", "values": values}]})
}

#[test]
fn a_pool_that_can_be_meant_has_no_findings() {
    let spec = json!({
        "limits": {"cpu": "10"}, "disruption": {
            "consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m",
            "budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}],
        },
        "template.metadata.labels": {"team": "a"},
        "template.spec.requirements": [{"key": label::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}],
    });
    assert_eq!(of_pool(&spec), Vec::<String>::new());
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_is_written_of_one_pool() {
    let budgets = |budgets: Value| json!({"disruption.budgets": budgets});
    let table: Vec<(Value, &[&str])> = vec![
        (json!({"weigth": 5}), &["spec.weigth unknown-field"]),
        (json!({"disruption.consolidateafter": "1m"}), &["spec.disruption.consolidateafter unknown-field"]),
        (json!({"limits": {"cpu": "1"}}), &["spec.limits.cpu limit-too-small"]),
        (json!({"limits": {"cpu": "2"}}), &[]),
        (json!({"limits": {"cpus": "100"}}), &["spec.limits.cpus limit-unused"]),
        (json!({"limits": {"nodes": "0"}}), &["spec.limits.nodes limit-zero"]),
        (
            requires(label::ARCH, &["arm64"]),
            &[
                "spec.template.spec.requirements no-offering",
                "spec.template.spec.requirements[0].values no-such-value",
            ],
        ),
        (
            requires(label::ZONE, &["zone-a", "zone-z"]),
            &["spec.template.spec.requirements[0].values no-such-value"],
        ),
        (
            requires("karpenter.sh/capacitytype", &["spot"]),
            &[
                "spec.template.spec.requirements[0] invalid",
                "spec.template.spec.requirements[0].key key-typo",
            ],
        ),
        (
            requires(label::CAPACITY_TYPE, &["ondemand", "on-demand"]),
            &[
                "spec.template.spec.requirements[0].key value-typo",
                "spec.template.spec.requirements[0].values no-such-value",
            ],
        ),
        (
            requires(label::CAPACITY_TYPE, &["spot"]),
            &["spec.template.spec.requirements[0].values no-spot-fallback"],
        ),
        (budgets(json!([{"nodes": "ten"}])), &["spec.disruption.budgets[0].nodes budget-invalid"]),
        (
            budgets(json!([{"nodes": "0"}])),
            &["spec.disruption.budgets consolidation-never", "spec.disruption.budgets[0].nodes budget-never"],
        ),
        (
            budgets(json!([{"nodes": "0", "reasons": ["Drifted"]}])),
            &["spec.disruption.budgets[0].nodes budget-never"],
        ),
        (
            budgets(json!([{"nodes": "5", "reasons": []}])),
            &["spec.disruption.budgets[0].reasons budget-unused"],
        ),
        (budgets(json!([{"nodes": "5"}, {"nodes": "7"}])), &["spec.disruption.budgets[1] budget-unused"]),
        (budgets(json!([{"nodes": "5"}, {"nodes": "50%"}])), &[]),
        (
            budgets(json!([{"nodes": "1", "schedule": "@daily", "duration": "24h"}])),
            &["spec.disruption.budgets[0].schedule budget-always"],
        ),
        (
            budgets(json!([{"nodes": "1", "schedule": "9 to 5", "duration": "1h"}])),
            &["spec.disruption.budgets[0].schedule budget-invalid"],
        ),
        (json!({"weight": 10}), &["spec.weight weight-unused"]),
        (
            json!({"disruption": {"consolidateAfter": "Never", "consolidationPolicy": "WhenEmpty"}}),
            &["spec.disruption.consolidationPolicy consolidation-never"],
        ),
        (
            json!({"disruption.consolidateAfter": "48h", "template.spec.expireAfter": "24h"}),
            &["spec.disruption.consolidateAfter consolidation-never"],
        ),
        (json!({"replicas": 3, "disruption.consolidateAfter": "1m"}), &["spec.replicas consolidation-never"]),
    ];
    for (spec, expected) in table {
        assert_eq!(of_pool(&spec), expected, "{spec}");
    }
}

#[test]
fn a_value_that_no_known_type_has_means_nothing_where_not_all_are_known() {
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let spec = requires(label::INSTANCE_TYPE, &["enormous"]);
    let rules = |offerings: &Offerings| {
        let found = lint([pool("a", &spec)], Some(offerings), &registry(), at);
        found.iter().map(|one| one.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&offerings(&["a"])), ["no-offering", "no-such-value"]);
    assert_eq!(rules(&Offerings { partial: true, ..offerings(&["a"]) }), Vec::<&str>::new());
}

#[test]
fn pools_beside_each_other() {
    let taint = json!({"template.spec.taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    let spot = requires(label::CAPACITY_TYPE, &["spot"]);
    let on_demand = requires(label::CAPACITY_TYPE, &["on-demand"]);
    let mut heavy_spot = spot.clone();
    heavy_spot["weight"] = json!(10);
    let team = |team: &str| json!({"template.metadata.labels": {"team": team}});
    let table: Vec<(Value, Value, &[&str])> = vec![
        (json!({}), json!({}), &["NodePool/a spec.weight overlap"]),
        (json!({"weight": 10}), json!({}), &[]),
        (json!({}), taint, &[]),
        (team("a"), team("b"), &[]),
        (spot, on_demand.clone(), &[]),
        (heavy_spot, on_demand, &["NodePool/a spec.weight weight-unused"]),
    ];
    for (one, other, expected) in table {
        assert_eq!(found(vec![pool("a", &one), pool("b", &other)]), expected, "{one} {other}");
    }
}

#[test]
fn a_node_class_is_missed_where_others_are() {
    let class = |name: &str| json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}});
    let other = found(vec![pool("a", &json!({})), class("other")]);
    assert_eq!(other, ["NodePool/a spec.template.spec.nodeClassRef.name no-node-class"]);
    assert_eq!(found(vec![pool("a", &json!({})), class("default")]), Vec::<String>::new());
}

#[test]
fn keys_of_pods_are_looked_at_and_selectors_of_pods_are_not() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "shop"},
        "spec": {
            "selector": {"matchExpressions": [{"key": "topology.kubernetes.io/zon", "operator": "Exists"}]},
            "template": {"spec": {
                "nodeSelector": {"kubernetes.io/arhc": "arm64"},
                "topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zon"}],
            }},
        },
    });
    assert_eq!(
        found(vec![deployment]),
        [
            "Deployment/shop/api spec.template.spec.nodeSelector.kubernetes.io/arhc key-typo",
            "Deployment/shop/api spec.template.spec.topologySpreadConstraints[0].topologyKey key-typo",
        ]
    );
}

#[test]
fn people_read_what_is_wrong_and_what_to_do() {
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let text = lint_text(&lint([pool("a", &json!({"weigth": 5}))], None, &registry(), at));
    let expected = "\
error: NodePool/a spec.weigth (unknown-field)
    there is no such field, so what it says has no effect
    do: write `weight`
1 finding.
";
    assert_eq!(text, expected);
    assert_eq!(lint_text(&[]), "Nothing found.\n");
}

#[test]
fn keys_of_older_versions_are_told_apart_from_misspelt_ones() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "shop", "annotations": {"team": "shop"}},
        "spec": {"template": {
            "metadata": {"annotations": {"karpenter.sh/do-not-evict": "true"}},
            "spec": {"nodeSelector": {"karpenter.sh/provisioner-name": "default"}},
        }},
    });
    assert_eq!(
        found(vec![deployment]),
        [
            "Deployment/shop/api spec.template.metadata.annotations.karpenter.sh/do-not-evict old-key",
            "Deployment/shop/api spec.template.spec.nodeSelector.karpenter.sh/provisioner-name old-key",
        ]
    );
}
