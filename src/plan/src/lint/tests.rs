//! One table: what is written, and which rules say something about which field.

use std::sync::Arc;

use karpenter_cloud::ClassFault;
use karpenter_model::names::label;
use karpenter_model::{InstanceType, Quantity, Resources};
use karpenter_testkit::objects::{node_class, node_pool};
use serde_json::{Value, json};

use super::*;
use crate::fixture::offerings;

fn registry() -> LabelRegistry {
    LabelRegistry::core()
}

fn pool(name: &str, spec: &Value) -> Value {
    let mut pool = node_pool(name, &[], &json!({}));
    for (pointer, value) in spec.as_object().into_iter().flatten() {
        let mut place = &mut pool["spec"];
        for step in pointer.split('.') {
            place = &mut place[step];
        }
        *place = value.clone();
    }
    pool
}

fn class(name: &str, spec: &Value) -> Value {
    let mut class = node_class(name, "demo", &json!({}));
    for (field, value) in spec.as_object().into_iter().flatten() {
        class["spec"][field] = value.clone();
    }
    class
}

fn linted(manifests: Vec<Manifest>, offerings: Option<&Offerings>) -> (Vec<LintFinding>, Vec<String>) {
    gated(manifests, offerings, FeatureGates::default())
}

fn gated(
    manifests: Vec<Manifest>,
    offerings: Option<&Offerings>,
    gates: FeatureGates,
) -> (Vec<LintFinding>, Vec<String>) {
    let at = "2026-01-01T12:00:00Z".parse().unwrap();
    let reading = Reading { manifests, faults: Vec::new() };
    let (mut found, notes) = lint(reading, offerings, &registry(), &|_| Vec::new(), gates, at);
    // Objects of Kubernetes have no more here than a rule looks at.
    let is_ours = |one: &LintFinding| {
        ["NodePool/", "EC2NodeClass/", "NodeClaim/", "NodeOverlay/"]
            .iter()
            .any(|kind| one.object.starts_with(kind))
    };
    found.retain(|one| one.rule != "refused" || is_ours(one));
    (found, notes)
}

fn found(objects: Vec<Value>) -> Vec<String> {
    let objects = objects.into_iter().map(Manifest::from).collect();
    let (found, _) = linted(objects, Some(&offerings(&["a", "b"])));
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
        (
            budgets(json!([{"nodes": "0", "schedule": "CRON_TZ=Europe/Berln 0 9 * * *", "duration": "8h"}])),
            &["spec.disruption.budgets[0].schedule budget-invalid"],
        ),
        (
            budgets(json!([{"nodes": "1", "schedule": "CRON_TZ=Europe/Berlin 0 * * * *", "duration": "1h"}])),
            &["spec.disruption.budgets[0].schedule budget-always"],
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
        // aws#8873
        (json!({"replicas": 3, "limits": {"nodes": "3"}}), &["spec.limits.nodes static-limit"]),
        (json!({"replicas": 5, "limits": {"nodes": "3"}}), &["spec.limits.nodes static-limit"]),
        (json!({"replicas": 3, "limits": {"nodes": "4"}}), &[]),
        (json!({"limits": {"nodes": "3"}}), &[]),
        (
            json!({"template.spec.expireAfter": "0s"}),
            &[
                "spec.disruption.consolidateAfter consolidation-never",
                "spec.template.spec.expireAfter expires-while-booting",
            ],
        ),
        (
            json!({"template.spec.expireAfter": "90s"}),
            &["spec.template.spec.expireAfter expires-while-booting"],
        ),
        (json!({"template.spec.expireAfter": "5m"}), &[]),
    ];
    for (spec, expected) in table {
        assert_eq!(of_pool(&spec), expected, "{spec}");
    }
}

#[test]
fn nodes_that_may_go_first_need_no_room_beside_them() {
    let gates = FeatureGates { terminate_first_drift: true, ..FeatureGates::default() };
    let rules = |replicas: u32| {
        let spec = json!({"replicas": replicas, "limits": {"nodes": "3"}});
        let (found, _) = gated(vec![pool("a", &spec).into()], Some(&offerings(&["a", "b"])), gates);
        found.iter().map(|one| (one.rule, one.problem.contains("drifts"))).collect::<Vec<_>>()
    };
    assert_eq!(rules(3), []);
    assert_eq!(rules(5), [("static-limit", false)], "the number is never reached all the same");
}

#[test]
fn a_value_that_no_known_type_has_means_nothing_where_not_all_are_known() {
    let spec = requires(label::INSTANCE_TYPE, &["enormous"]);
    let rules = |offerings: &Offerings| {
        let (found, _) = linted(vec![pool("a", &spec).into()], Some(offerings));
        found.iter().map(|one| one.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&offerings(&["a"])), ["no-offering", "no-such-value"]);
    assert_eq!(rules(&Offerings { partial: true, ..offerings(&["a"]) }), Vec::<&str>::new());
}

#[test]
fn an_operating_system_that_its_class_has_not_is_found_where_not_all_types_are_known() {
    let spec = requires(label::OS, &["windows"]);
    let partial = Offerings { partial: true, ..offerings(&["a"]) };
    let (found, _) = linted(vec![pool("a", &spec).into()], Some(&partial));
    let rules: Vec<_> = found.iter().map(|one| one.rule).collect();
    assert_eq!(rules, ["no-offering", "no-such-value"]);
}

#[test]
fn pools_beside_each_other() {
    let taint = json!({"template.spec.taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    let spot = requires(label::CAPACITY_TYPE, &["spot"]);
    let on_demand = requires(label::CAPACITY_TYPE, &["on-demand"]);
    let with_weight = |mut spec: Value| {
        spec["weight"] = json!(10);
        spec
    };
    let heavy_spot = with_weight(spot.clone());
    let team = |team: &str| json!({"template.metadata.labels": {"team": team}});
    let table: Vec<(Value, Value, &[&str])> = vec![
        (json!({}), json!({}), &["NodePool/a spec.weight overlap"]),
        (json!({"weight": 10}), json!({}), &[]),
        (json!({}), taint, &[]),
        (team("a"), team("b"), &[]),
        (spot, on_demand.clone(), &[]),
        // Three public repositories have spot first and on-demand behind it.
        (heavy_spot, on_demand, &[]),
        (with_weight(requires(label::ARCH, &["amd64"])), requires(label::OS, &["linux"]), &[]),
        (with_weight(team("a")), team("b"), &[]),
        (with_weight(json!({})), json!({"replicas": 2}), &["NodePool/a spec.weight weight-unused"]),
    ];
    for (one, other, expected) in table {
        assert_eq!(found(vec![pool("a", &one), pool("b", &other)]), expected, "{one} {other}");
    }
}

#[test]
fn nodes_that_keep_everything_for_themselves_are_said() {
    let keeping = |of: &str, cpus: i64| {
        let mut offerings = offerings(&["a"]);
        let keep = |one: &Arc<InstanceType>| {
            let mut one = InstanceType::clone(one);
            one.overhead.kube_reserved = Resources::new().with(of, Quantity::from_units(cpus));
            Arc::new(one)
        };
        let types = offerings.types.values_mut();
        types.for_each(|list| *list = list.iter().map(keep).collect());
        let (found, _) = linted(vec![Manifest::from(pool("a", &json!({})))], Some(&offerings));
        found.into_iter().map(|one| one.problem).collect::<Vec<_>>()
    };
    let of =
        |name: &str| vec![format!("nodes of every instance type of the pool have no `{name}` left for pods")];
    assert_eq!(keeping("cpu", 4), of("cpu"));
    assert_eq!(keeping("pods", 20), of("pods"));
    assert_eq!(keeping("cpu", 3), Vec::<String>::new(), "the larger type has one left");
}

/// aws#8255
#[test]
fn reservations_of_a_class_want_a_pool_that_launches_into_them() {
    let selecting = class("default", &json!({"capacityReservationSelectorTerms": [{"id": "cr-0123"}]}));
    let about =
        |objects| found(objects).into_iter().filter(|one| one.contains(" reservations-")).collect::<Vec<_>>();
    let unused = "EC2NodeClass/default spec.capacityReservationSelectorTerms reservations-unused";
    let on_demand = pool("a", &requires(label::CAPACITY_TYPE, &["on-demand"]));
    let reserved = pool("a", &requires(label::CAPACITY_TYPE, &["on-demand", "reserved"]));
    assert_eq!(about(vec![on_demand.clone(), selecting.clone()]), [unused]);
    assert_eq!(about(vec![reserved, selecting.clone()]), Vec::<String>::new());
    assert_eq!(about(vec![pool("a", &json!({})), selecting.clone()]), Vec::<String>::new());
    assert_eq!(about(vec![selecting.clone()]), Vec::<String>::new());
    assert_eq!(about(vec![on_demand, class("default", &json!({}))]), Vec::<String>::new());
    let alone = || pool("a", &requires(label::CAPACITY_TYPE, &["reserved"]));
    let missing = "NodePool/a spec.template.spec.nodeClassRef.name reservations-missing".to_owned();
    assert!(about(vec![alone(), class("default", &json!({}))]).contains(&missing));
    assert!(!about(vec![alone(), selecting]).contains(&missing));
}

#[test]
fn a_node_class_is_missed_where_others_are() {
    let class = |name: &str| class(name, &json!({}));
    let other = found(vec![pool("a", &json!({})), class("other")]);
    assert_eq!(other, ["NodePool/a spec.template.spec.nodeClassRef.name no-node-class"]);
    let of_static = found(vec![pool("a", &json!({"replicas": 2})), class("other")]);
    assert_eq!(of_static, other, "a static pool has one too");
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
fn keys_in_the_template_of_a_cron_job_are_looked_at() {
    let cron_job = |version: &str| {
        json!({
            "apiVersion": version, "kind": "CronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {"karpenter.sh/do-not-evict": "true"}},
                "spec": {"nodeSelector": {
                    "kubernetes.io/arhc": "arm64", "karpenter.sh/provisioner-name": "default",
                    label::CAPACITY_TYPE: "ondemand",
                }},
            }}}},
        })
    };
    let (at, selector) = ("CronJob/default/nightly spec.jobTemplate.spec.template", "spec.nodeSelector");
    let expected = [
        format!("{at}.metadata.annotations.karpenter.sh/do-not-evict old-key"),
        format!("{at}.{selector}.karpenter.sh/capacity-type value-typo"),
        format!("{at}.{selector}.karpenter.sh/provisioner-name old-key"),
        format!("{at}.{selector}.kubernetes.io/arhc key-typo"),
    ];
    assert_eq!(found(vec![cron_job("batch/v1")]), expected);
    let foreign = found(vec![cron_job("batch.volcano.sh/v1alpha1")]);
    assert_eq!(foreign, Vec::<String>::new(), "one of another group is none");
}

#[test]
fn people_read_what_is_wrong_and_what_to_do() {
    let text = lint_text(&linted(vec![pool("a", &json!({"weigth": 5})).into()], None).0);
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

/// Rule, object and place of each finding in a stream, and the notes.
fn of_stream(stream: &str) -> (Vec<String>, Vec<String>) {
    let (found, notes) = linted(crate::stream::read_stream("a.yaml", stream).whole().unwrap(), None);
    let place = |one: &LintFinding| one.origin.as_ref().map(ToString::to_string).unwrap_or_default();
    (found.iter().map(|one| format!("{} {} {}", one.rule, one.object, place(one))).collect(), notes)
}

#[test]
fn a_pool_that_cannot_be_read_names_the_field() {
    for (spec, field) in [
        (json!({"disruption.consolidateAfter": 30}), "spec.disruption.consolidateAfter"),
        (json!({"disruption": {"budgets": [{"nodes": 10}]}}), "spec.disruption.budgets[0].nodes"),
        (json!({"weight": "10"}), "spec.weight"),
    ] {
        let found = of_pool(&spec);
        assert!(found.contains(&format!("{field} unreadable")), "{spec}: {found:?}");
    }
}

#[test]
fn objects_of_kinds_that_are_not_known_are_named_with_their_place() {
    for (head, expected, hint) in [
        ("{apiVersion: karpenter.sh/v1, kind: NodePol}", "unknown-kind NodePol/a", "write `NodePool`"),
        (
            "{apiVersion: karpenter.sh/v1beta1, kind: NodePool}",
            "wrong-api-version NodePool/a",
            "write `karpenter.sh/v1`; `karpenter convert` does that with versions before v1",
        ),
        (
            "{apiVersion: karpenter.k8s.aws/v1, kind: NodePool}",
            "wrong-api-version NodePool/a",
            "write `karpenter.sh/v1`",
        ),
        ("{apiVersion: karpentr.sh/v1, kind: NodePools}", "unknown-kind NodePools/a", "write `NodePool`"),
        (
            "{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner}",
            "old-kind Provisioner/a",
            "convert it: `karpenter convert`",
        ),
        ("{apiVersion: apps/v1, kind: Deploymnt}", "unknown-kind Deploymnt/a", "write `Deployment`"),
        (
            "{apiVersion: v1, kind: Deployment}",
            "wrong-api-version Deployment/default/a",
            "write the version of group `apps`, as in `apps/v1`",
        ),
        (
            "{apiVersion: apps/v1beta1, kind: Deployment}",
            "wrong-api-version Deployment/default/a",
            "write `apps/v1`",
        ),
        ("{apiVersion: v1, kind: NodePol}", "unknown-kind NodePol/a", "write `NodePool`"),
    ] {
        let stream = format!("# first\n---\n\n{}, metadata: {{name: a}}}}\n", head.trim_end_matches('}'));
        let (found, notes) = linted(crate::stream::read_stream("a.yaml", &stream).whole().unwrap(), None);
        let of_kind: Vec<&LintFinding> =
            found.iter().filter(|one| ["kind", "apiVersion"].contains(&one.field.as_str())).collect();
        assert_eq!(of_kind.len(), 1, "{head}: {found:?}");
        let one = of_kind[0];
        let place = one.origin.as_ref().unwrap().to_string();
        assert_eq!((format!("{} {}", one.rule, one.object).as_str(), place.as_str()), (expected, "a.yaml:4"));
        assert_eq!((one.remedy.as_str(), notes.len()), (hint, 0), "{head}");
    }
}

#[test]
fn kinds_of_kubernetes_are_passed_over_and_those_of_others_are_in_the_notes() {
    let stream = "\
apiVersion: v1
kind: Service
metadata: {name: a}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a}}
---
{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}
---
{apiVersion: eks.amazonaws.com/v1, kind: NodeClass, metadata: {name: a}}
";
    let (found, notes) = of_stream(stream);
    assert_eq!(found, Vec::<String>::new());
    let expected = [
        "no rule looks at kind `Certificate` of group `cert-manager.io`: a.yaml:7",
        "no rule looks at kind `Kustomization` of group `kustomize.config.k8s.io`: a.yaml:9",
        "no rule looks at kind `NodeClass` of group `eks.amazonaws.com`: a.yaml:11",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn an_object_of_another_group_is_not_taken_for_one_of_a_kind_that_rules_look_at() {
    let stream = "\
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {nodeSelector: {karpenter.sh/provisioner-name: a}}}}}
---
{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}}
---
{apiVersion: example.com/v1, kind: Pod, metadata: {name: b}, spec: {nodeSelector: {karpenter.sh/provisioner-name: a}}}
";
    let (found, notes) = of_stream(stream);
    assert_eq!(found, ["old-key Job/default/a a.yaml:1"]);
    let expected = [
        "no rule looks at kind `Job` of group `batch.volcano.sh`: a.yaml:3",
        "no rule looks at kind `Pod` of group `example.com`: a.yaml:5",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn objects_without_a_name_and_objects_that_are_there_twice_are_named_with_their_place() {
    let stream = "\
kind: Service
apiVersion: v1
---
{apiVersion: batch/v1, kind: Job, metadata: {generateName: a-}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: example.com/v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}
";
    let (found, _) = of_stream(stream);
    let expected = [
        "duplicate ConfigMap/default/a a.yaml:16",
        "no-name Job without a name a.yaml:4",
        "duplicate Pod/default/a a.yaml:8",
        "no-name Service without a name a.yaml:1",
    ];
    assert_eq!(found, expected);
    let all = crate::stream::read_stream("a.yaml", stream).whole().unwrap();
    let (found, _) = linted(all, None);
    assert!(found[2].problem.starts_with("the object of a.yaml:6 has the same kind"), "{}", found[2].problem);
}

#[test]
fn every_finding_has_the_place_of_its_field() {
    let stream = "---\n# a pool\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {weigth: 5}\n";
    let (found, _) = linted(crate::stream::read_stream("pools/a.yaml", stream).whole().unwrap(), None);
    let text = lint_text(&found);
    assert!(text.contains("error: NodePool/a spec.weigth (unknown-field), pools/a.yaml:6\n"), "{text}");
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!((&json[0]["file"], &json[0]["line"]), (&json!("pools/a.yaml"), &json!(6)));
}

#[test]
fn what_an_api_server_refuses_of_a_class_is_named_with_every_field() {
    for (spec, fields) in [
        (json!({"instanceProfile": "nodes"}), &["spec"][..]),
        (json!({"kubelet": ["maxPods"]}), &["spec.kubelet"]),
        (json!({"tags": {"karpenter.sh/nodepool": "mine"}}), &["spec.tags"]),
        (json!({"amiFamily": "AL2022"}), &["spec.amiFamily"]),
        (
            json!({"detailedMonitoring": "yes", "subnetSelectorTerms": [], "associatePublicIPAddress": 1}),
            &["spec.associatePublicIPAddress", "spec.detailedMonitoring"],
        ),
        (
            json!({"instanceProfile": "nodes", "tags": {"karpenter.sh/nodepool": "mine"}}),
            &["spec", "spec.tags"],
        ),
        (json!({"blockDeviceMappings": null, "tags": null, "kubelet": null}), &[]),
    ] {
        let found = found(vec![class("default", &spec)]);
        let expected: Vec<String> =
            fields.iter().map(|field| format!("EC2NodeClass/default {field} refused")).collect();
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn what_the_provider_has_against_a_class_is_an_error_where_nothing_is_launched() {
    let faults = |_: &Value| {
        [true, false].map(|refused| ClassFault {
            field: "spec.userData",
            problem: "no TOML".to_owned(),
            remedy: "correct it",
            refused,
        })
    };
    let faults = |class: &Value| faults(class).to_vec();
    let stream = serde_json::to_string(&class("default", &json!({}))).unwrap();
    let manifests = crate::stream::read_stream("class.json", &stream).whole().unwrap();
    let reading = Reading { manifests, faults: Vec::new() };
    let (found, _) =
        lint(reading, None, &registry(), &faults, FeatureGates::default(), Timestamp::UNIX_EPOCH);
    let said: Vec<_> = found.iter().map(|one| (one.rule, one.severity, one.field.as_str())).collect();
    assert_eq!(
        said,
        [
            ("class-never-joins", LintSeverity::Warning, "spec.userData"),
            ("class-refused", LintSeverity::Error, "spec.userData"),
        ]
    );
    assert_eq!(found[0].origin.as_ref().unwrap().to_string(), "class.json:1");
}

#[test]
fn empty_fields_are_absent_and_numbers_are_what_kubectl_sends() {
    let stream = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  weight: 1e+01
  limits: {cpu: 1e+06, memory: 1e3Gi, example.com/x: 010}
  disruption:
    consolidateAfter: 1m
    budgets:
  template:
    metadata: {labels: , annotations: ~}
    spec:
      expireAfter:
      taints: null
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64], minValues: }]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: b}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
";
    let (found, _) = of_stream(stream);
    assert_eq!(
        found,
        ["unreadable NodePool/a a.yaml:4", "refused NodePool/a a.yaml:6"],
        "1e3Gi is no quantity, and the field is named"
    );
    let (found, _) = of_stream(&stream.replace("1e3Gi", "1e3"));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn numbers_out_of_bounds_are_refused_with_their_field() {
    for (spec, field) in [
        (json!({"weight": -1}), "spec.weight"),
        (json!({"weight": 1_000}), "spec.weight"),
        (json!({"weight": 1.5}), "spec.weight"),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"limits": {"cpu": true}}), "spec.limits.cpu"),
    ] {
        let found = of_pool(&spec);
        assert!(found.iter().any(|one| one.starts_with(field)), "{spec}: {found:?}");
    }
}

#[test]
fn annotations_that_protect_nothing_are_found_where_they_are() {
    let annotated = |value: &str| json!({"annotations": {"karpenter.sh/do-not-disrupt": value}});
    let deployment = |own: Value, template: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "api", "annotations": own["annotations"]},
            "spec": {"template": {"metadata": template}},
        })
    };
    let none = json!({});
    for (object, at) in [
        (pool("a", &json!({"template.metadata": annotated("1h")})), Some("spec.template.metadata")),
        (pool("a", &json!({"template.metadata": annotated("true")})), None),
        (pool("a", &json!({"template.metadata": annotated("false")})), None),
        (deployment(annotated("true"), none.clone()), Some("metadata")),
        (deployment(none.clone(), annotated("true")), None),
        (deployment(none.clone(), annotated("1h")), None),
        (deployment(none.clone(), annotated("yes")), Some("spec.template.metadata")),
        (deployment(none, annotated("0s")), Some("spec.template.metadata")),
    ] {
        let found = found(vec![object.clone()]);
        let expected = at.map(|at| format!("{at}.annotations.karpenter.sh/do-not-disrupt protects-nothing"));
        assert_eq!(found.len(), usize::from(at.is_some()), "{object} {found:?}");
        assert!(expected.is_none_or(|expected| found[0].ends_with(&expected)), "{found:?}");
    }
}

#[test]
fn warnings_are_accepted_for_one_object_and_errors_are_not() {
    let accepting = |rules: &str, spec: &Value| {
        let mut pool = pool("a", spec);
        pool["metadata"]["annotations"] = json!({"karpenter.sh/lint-accepted": rules});
        pool
    };
    let rules = |object: Value| {
        let (found, notes) = linted(vec![object.into()], Some(&offerings(&["a"])));
        (found.iter().map(|one| one.rule).collect::<Vec<_>>(), notes)
    };
    let spot = requires(label::CAPACITY_TYPE, &["spot"]);
    let (found, notes) = rules(accepting("no-spot-fallback", &spot));
    assert_eq!(found, Vec::<&str>::new());
    assert_eq!(notes, ["findings accepted by annotation karpenter.sh/lint-accepted: 1"]);
    assert_eq!(rules(accepting("overlap", &spot)).0, ["accepts-nothing", "no-spot-fallback"]);
    let wrong = json!({"weigth": 5});
    assert_eq!(rules(accepting("unknown-field", &wrong)).0, ["accepts-nothing", "unknown-field"]);
    assert_eq!(rules(accepting("weight-unused, overlap", &json!({"weight": 5}))).0, ["accepts-nothing"]);
}

#[test]
fn everything_that_kubectl_would_refuse_of_files_is_a_line_with_its_place() {
    let stream = "apiVersion: karpenter.sh/v1\nkind: Nodepool\nmetadata: {name: a}\n---\nkind: [\n---\n\
                  apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec:\n  replicas: 1e+06\n  selector:\n    matchLabels: {app: b}\n  template:\n\
                  \x20   metadata: {labels: {app: b}}\n    spec:\n      nodeselector: {}\n      containers:\n      - name: c\n        image: x\n\
                  \x20       resources: {requests: {cpu: -1}}\n---\n\
                  apiVersion: v1\nkind: Pod\nmetadata: {name: there, uid: \"1\"}\nspec: {containers: [], other: 1}\n";
    let expected = [
        "a.yaml:2: Nodepool/a: `kind`: group `karpenter.sh` has no kind `Nodepool`, so the object is passed over; write `NodePool`",
        "a.yaml:5: `kind` is no YAML here: unclosed bracket '['",
        "a.yaml:11: Deployment/default/b: `spec.replicas`: is 1000000, and a cluster has at most 150000 pods; write fewer",
        "a.yaml:17: Deployment/default/b: `spec.template.spec.nodeselector`: there is no such field, so what it says has no \
         effect; write `nodeSelector`",
        "a.yaml:21: Deployment/default/b: `spec.template.spec.containers[0].resources.requests[cpu]`: Invalid value: \"-1\": \
         must be greater than or equal to 0; correct the field",
    ];
    assert_eq!(refused_lines(&crate::stream::read_stream("a.yaml", stream)), expected);
}

#[test]
fn budgets_of_pods_that_let_none_go() {
    let deployment = |replicas: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {"containers": []}}},
        })
    };
    let budget = |name: &str, spec: Value, labels: Value| {
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
        });
        budget["spec"]["selector"] = json!({"matchLabels": labels});
        budget
    };
    let web = || json!({"app": "web"});
    let never = |field: &str| format!("PodDisruptionBudget/shop/a spec.{field} pod-budget-never");
    let table = [
        (json!(3), json!({"maxUnavailable": 1}), None),
        (json!(3), json!({"maxUnavailable": 0}), Some(never("maxUnavailable"))),
        (json!(3), json!({"minAvailable": 3}), Some(never("minAvailable"))),
        (json!(3), json!({"minAvailable": 2}), None),
        // Shares are rounded up.
        (json!(3), json!({"minAvailable": "70%"}), Some(never("minAvailable"))),
        (json!(1), json!({"minAvailable": 1}), Some(never("minAvailable"))),
        (json!(0), json!({"minAvailable": 1}), None),
        // An autoscaler may run more.
        (Value::Null, json!({"minAvailable": 1}), None),
        (Value::Null, json!({"minAvailable": "100%"}), Some(never("minAvailable"))),
    ];
    for (replicas, spec, expected) in table {
        let objects = vec![deployment(replicas.clone()), budget("a", spec.clone(), web())];
        assert_eq!(found(objects), expected.into_iter().collect::<Vec<_>>(), "{replicas} {spec}");
    }
    let one = json!({"maxUnavailable": 1});
    let both = |labels| {
        vec![deployment(json!(3)), budget("a", one.clone(), web()), budget("b", one.clone(), labels)]
    };
    let overlap = ["PodDisruptionBudget/shop/b spec.selector pod-budgets-overlap"];
    assert_eq!(found(both(json!({"tier": "front"}))), overlap);
    assert_eq!(found(both(json!({"tier": "back"}))), Vec::<String>::new());
}
