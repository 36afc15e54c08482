//! The effects of a change: classes that drift, drift that a budget holds back, and what happens without it.

use super::*;
use crate::FailOn;

/// A cluster of three machines with a pod each, whose pool lets `budget` of them go at once.
fn three_machines(budget: &str) -> Vec<Value> {
    let spec = json!({"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": budget}]}});
    let mut objects = vec![pool("a", &spec), written_class("first", "one")];
    for name in ["one", "two", "three"] {
        objects.push(deployment(name, 1, "3", &json!({"nodeName": name})));
        objects.extend(machine(name));
    }
    objects
}

/// The class with user data and an image of this name.
fn written_class(user_data: &str, image: &str) -> Value {
    let mut class = class();
    class["spec"] = json!({
        "role": "nodes", "amiFamily": "AL2023", "userData": user_data,
        "amiSelectorTerms": [{"name": image}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    });
    class
}

fn applied(manifest: Value) -> WhatIf {
    WhatIf { manifests: vec![manifest], ..WhatIf::default() }
}

#[test]
fn a_changed_class_is_planned_as_drift_and_changed_selectors_as_what_is_not_known() {
    let mut defaulted = written_class("first", "one");
    defaulted["spec"]["metadataOptions"] = json!({"httpTokens": "required", "httpEndpoint": "enabled"});
    let mut other_pool = written_class("second", "one");
    other_pool["metadata"]["name"] = json!("other");
    for (what, class, verdict, removed, may_drift) in [
        ("user data", written_class("second", "one"), Verdict::Changes, 3, 0),
        ("image", written_class("first", "two"), Verdict::Unknown, 0, 3),
        ("both", written_class("second", "two"), Verdict::Changes, 3, 0),
        ("nothing", written_class("first", "one"), Verdict::Unchanged, 0, 0),
        ("a default that is written out", defaulted, Verdict::Unchanged, 0, 0),
        ("another class", other_pool, Verdict::Unchanged, 0, 0),
    ] {
        let cluster = world(three_machines("100%"), WhatIf::default());
        let stream = cluster.export(&offerings(&["a", "b"]), About::default(), false);
        assert!(!stream.contains("first") && !stream.contains("amiSelectorTerms\":[{"), "{stream}");
        let exported = Objects::read("export", &stream).unwrap();
        for (source, objects) in [("cluster", three_machines("100%")), ("export", exported)] {
            let world = world(objects, applied(class.clone()));
            let forecast = world.forecast(&offerings(&["a", "b"]), Vec::new());
            let going: usize = forecast.removals.iter().map(|removal| removal.nodes.len()).sum();
            assert_eq!(
                (forecast.verdict, going, forecast.uncertain()),
                (verdict, removed, may_drift),
                "{what}, {source}: {}",
                forecast.text()
            );
        }
    }
    let forecast = world(three_machines("0"), applied(written_class("first", "two")));
    let text = forecast.forecast(&offerings(&["a", "b"]), Vec::new()).text();
    assert!(
        text.starts_with("3 nodes may drift, which cannot be known from here; no pod waits.\n"),
        "{text}"
    );
    assert!(text.contains("the selectors of node class `default` change"), "{text}");
}

#[test]
fn drift_that_a_budget_holds_back_is_a_change() {
    for (budget, now, later) in [("100%", 3, 0), ("1", 1, 2), ("0", 0, 3)] {
        let forecast = planned(three_machines(budget), applied(written_class("second", "one")));
        let going: usize = forecast.removals.iter().map(|removal| removal.nodes.len()).sum();
        let text = forecast.text();
        assert_eq!((going, forecast.later.len()), (now, later), "{budget}: {text}");
        assert_eq!(forecast.verdict, Verdict::Changes, "{budget}: {text}");
        let said = text.contains(&format!("Replace later, because they have drifted: {later} node"));
        assert_eq!(said, later > 0, "{budget}: {text}");
    }
}

#[test]
fn the_effect_of_a_change_is_told_from_what_happens_anyway() {
    // A pod of the cluster waits for ever, and an empty node goes whatever is applied.
    let mut objects = three_machines("100%");
    objects.push(deployment("huge", 1, "300", &json!({})));
    let before = planned(objects.clone(), WhatIf::default());
    let effect = |what_if: WhatIf| planned(objects.clone(), what_if).against(&before, vec!["x".to_owned()]);
    let conditions = ["new-pending", "removals", "drift", "changes", "cost=+5%", "cost=+100%"];
    let failing = |forecast: &Forecast| -> Vec<&str> {
        let fails = |condition: &&str| condition.parse::<FailOn>().unwrap().failure(forecast).is_some();
        conditions.into_iter().filter(fails).collect()
    };
    let api = |cpu: &str| applied(deployment("api", 1, cpu, &json!({})));
    for (what, what_if, expected) in [
        ("nothing", applied(written_class("first", "one")), vec![]),
        ("a pod that fits on a new node", api("3"), vec!["changes", "cost=+5%"]),
        ("a pod that fits nowhere", api("200"), vec!["new-pending"]),
        (
            "a pod that is there asks for more",
            applied(deployment("one", 1, "200", &json!({}))),
            vec!["new-pending"],
        ),
        ("user data", applied(written_class("second", "one")), vec!["removals", "drift", "changes"]),
        ("an image", applied(written_class("first", "two")), vec!["drift"]),
    ] {
        let forecast = effect(what_if);
        assert_eq!(failing(&forecast), expected, "{what}: {}", forecast.text());
    }
    assert_eq!(failing(&before), ["new-pending"], "without a change the plan itself counts");
    for wrong in ["pending", "cost=10%", "cost=+10", "cost=+x%", ""] {
        let error = wrong.parse::<FailOn>().unwrap_err().to_string();
        assert!(error.contains("write new-pending, removals"), "{error}");
    }
    let text = effect(api("3")).text();
    assert!(text.contains("Assumed\n    x\n    makes +$"), "{text}");
    assert!(text.contains("1 node more launched"), "{text}");
}
