//! Properties of claims beyond the text of the goldens (spec scheduling 21).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::names::{annotation, label};
use karpenter_model::{Launch, Plan, Settings};

/// The only claim of the plan for `pool`, with `settings` changed.
fn claim(pool: &str, change: impl FnOnce(&mut Settings)) -> Launch {
    let text = format!("type m cpu=2 mem=4Gi od=0.1\npool web types=* {pool}\npod p cpu=1\n");
    let mut snapshot = karpenter_testkit::snapshot(&text);
    change(Arc::make_mut(&mut snapshot.settings));
    let (plan, _) = karpenter_engine::plan(&snapshot);
    plan.launches.into_iter().next().expect("one pod gets one claim")
}

#[test]
fn grace_period_is_that_of_the_template_or_the_default_of_the_provider_if_it_has_one() {
    let default = |settings: &mut Settings| {
        settings.default_termination_grace_period = Some(Duration::from_hours(1));
    };
    assert_eq!(claim("", |_| {}).termination_grace_period, None);
    assert_eq!(claim("", default).termination_grace_period, Some(Duration::from_hours(1)));
    assert_eq!(claim("grace=5m", default).termination_grace_period, Some(Duration::from_mins(5)));
}

#[test]
fn everything_of_the_template_is_on_the_claim() {
    let claim = claim(
        "label=team=a annotation=note=x taint=a:PreferNoSchedule startup-taint=b:NoExecute expire=24h",
        |_| {},
    );
    let texts =
        |taints: &[karpenter_model::Taint]| taints.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&claim.taints), ["a:PreferNoSchedule"]);
    assert_eq!(texts(&claim.startup_taints), ["b:NoExecute"]);
    assert_eq!(claim.expire_after, Some(Duration::from_hours(24)));
    assert_eq!(claim.labels["team"], "a");
    assert_eq!(claim.labels[label::NODE_POOL], "web");
    assert_eq!(claim.labels["karpenter.test.sh/testnodeclass"], "default");
    let annotations: Vec<(&str, &str)> =
        claim.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        annotations,
        [
            (annotation::MIN_VALUES_RELAXED, "false"),
            (annotation::POOL_HASH, "1"),
            (annotation::POOL_HASH_VERSION, karpenter_model::pool::HASH_VERSION),
            ("note", "x"),
        ]
    );
}

/// Annotations of the claim about overlays, for a pod that requests `cpu`.
fn noted(cpu: u32, pool: &str) -> Vec<(String, String)> {
    let text = format!(
        "type small cpu=2 mem=4Gi od=0.1 overlaid=price\ntype large cpu=8 mem=16Gi od=0.4 overlaid=capacity\n\
         type huge cpu=32 mem=64Gi od=1.6\npool web types=* {pool}\npod p cpu={cpu}\n"
    );
    let snapshot = karpenter_testkit::snapshot(&text);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(karpenter_audit::audit(&snapshot, &plan), []);
    let launch = plan.launches.into_iter().next().expect("one pod gets one claim");
    launch.annotations.into_iter().filter(|(key, _)| key.contains("overlay")).collect()
}

#[test]
fn a_claim_says_whether_a_type_it_may_become_is_overlaid() {
    let yes = |key: &str| (key.to_owned(), "true".to_owned());
    let (price, capacity) =
        (yes(annotation::PRICE_OVERLAY_APPLIED), yes(annotation::CAPACITY_OVERLAY_APPLIED));
    assert_eq!(noted(1, ""), [capacity.clone(), price]);
    assert_eq!(noted(4, ""), [capacity]);
    assert_eq!(noted(16, ""), []);
    // The value of the template stands where there is nothing to say.
    let said = (annotation::PRICE_OVERLAY_APPLIED.to_owned(), "no".to_owned());
    assert_eq!(noted(16, "annotation=karpenter.sh/price-overlay-applied=no"), [said]);
}

#[test]
fn a_replacement_says_so_only_of_the_types_that_are_cheap_enough() {
    let said = |overlaid: &str| {
        let types = format!(
            "type small cpu=2 mem=4Gi od=0.1 {overlaid}\ntype large cpu=8 mem=16Gi od=0.4 overlaid=price\n"
        );
        let world = "pool web types=* budget=100%\nnode n1 pool=web type=large zone=a capacity=on-demand\npod p cpu=1 on=n1\n";
        let snapshot = karpenter_testkit::snapshot(&(types + world));
        let standing = Standing { proposed: &[], running: &BTreeSet::new() };
        let decision = decide(&snapshot, &mut Memory::default(), &standing);
        let plan = Plan { commands: decision.commands.clone(), ..Plan::default() };
        assert_eq!(karpenter_audit::audit(&snapshot, &plan), []);
        let [command] = &decision.commands[..] else { panic!("{decision:?}") };
        command.replacements[0].annotations.contains_key(annotation::PRICE_OVERLAY_APPLIED)
    };
    assert!(!said(""), "the overlaid type is the one that goes");
    assert!(said("overlaid=price"));
}
