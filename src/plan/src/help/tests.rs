//! Conflicts of every kind between one pod and one pool, and the advice that was tried.

use karpenter_model::names::label;
use serde_json::{Value, json};

use crate::WhatIf;
use crate::forecast::Forecast;
use crate::tests::{class, deployment, planned, pool};

/// Plans one pod that asks for `cpu` for a pool whose template has `template` besides its class.
fn waiting(template: &Value, cpu: &str, pod: &Value) -> Forecast {
    let mut pool = pool("a", &json!({}));
    for (field, value) in template.as_object().into_iter().flatten() {
        pool["spec"]["template"]["spec"][field] = value.clone();
    }
    planned(vec![pool, class(), deployment("api", 1, cpu, pod)], WhatIf::default())
}

/// A template that allows one value of a label.
fn allows(key: &str, value: &str) -> Value {
    json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]})
}

#[test]
fn advice_follows_from_the_conflict_and_was_tried() {
    let asks = |key: &str, value: &str| json!({"nodeSelector": {key: value}});
    let mut tainted = allows(label::CAPACITY_TYPE, "on-demand");
    tainted["taints"] = json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]);
    let nothing = json!({});
    for (template, cpu, pod, conflict, help) in [
        (
            &nothing,
            "9",
            &nothing,
            "the pod asks for 9 cpu, and the largest instance type that it allows has 4",
            &["ask for at most 4 cpu per pod"][..],
        ),
        (
            &nothing,
            "1",
            &asks(label::ZONE, "zone-z"),
            "no instance type that it allows has `topology.kubernetes.io/zone` `zone-z`, which the pod asks for",
            &["ask for `topology.kubernetes.io/zone` `zone-a`"],
        ),
        (
            &allows(label::ARCH, "amd64"),
            "1",
            &asks(label::ARCH, "arm64"),
            "the pod asks for `kubernetes.io/arch` `arm64`, and it allows `amd64`",
            // The account has no such type, so allowing it was tried and does not help.
            &[],
        ),
        (
            &allows(label::INSTANCE_TYPE, "small"),
            "3",
            &nothing,
            "the pod asks for 3 cpu, and the largest instance type that it allows has 2",
            &[
                "allow `node.kubernetes.io/instance-type` `large` in pool `a`",
                "ask for at most 2 cpu per pod",
            ],
        ),
        (
            &nothing,
            "1",
            &asks("team", "shop"),
            "the pod asks for `team` `shop`, a label that it does not set",
            &["set label `team` to `shop` in the template of pool `a`"],
        ),
        (
            &tainted,
            "1",
            &nothing,
            "it has the taint `team=x:NoSchedule`, and the pod does not tolerate it",
            &["give the pod a toleration for taint `team=x:NoSchedule`"],
        ),
        (
            &tainted,
            "1",
            &asks(label::CAPACITY_TYPE, "spot"),
            "the pod asks for `karpenter.sh/capacity-type` `spot`, and it allows `on-demand`",
            &[
                "allow `karpenter.sh/capacity-type` `spot` in pool `a`, and give the pod a toleration for taint \
               `team=x:NoSchedule`",
            ],
        ),
    ] {
        let forecast = waiting(template, cpu, pod);
        let waits = &forecast.pending[0];
        assert_eq!(waits.reasons[0].conflict.as_deref(), Some(conflict));
        assert_eq!(waits.help, help, "{conflict}");
        let (brief, verbose) = (forecast.text(), forecast.verbose_text());
        assert!(brief.contains(&format!("pool `a`: {conflict} (")), "{brief}");
        assert!(verbose.contains(&waits.reasons[0].text), "{verbose}");
    }
}

#[test]
fn a_pool_that_launches_nothing_says_which_of_its_requirements_no_type_meets() {
    let arch =
        |operator: &str, value: &str| json!({"key": label::ARCH, "operator": operator, "values": [value]});
    for (requirements, conflict) in [
        (
            json!([arch("In", "x86_64")]),
            "no instance type has `kubernetes.io/arch` `x86_64`, which the pool asks for",
        ),
        (
            json!([arch("In", "amd64"), arch("NotIn", "amd64")]),
            "the pool allows no value of `kubernetes.io/arch`, and no instance type is without that label",
        ),
    ] {
        let forecast = waiting(&json!({"requirements": requirements}), "1", &json!({}));
        let skipped = forecast.pools[0].skipped.as_ref().unwrap();
        assert_eq!(skipped.conflict.as_deref(), Some(conflict));
        assert!(forecast.text().contains(conflict), "{}", forecast.text());
    }
}
