//! What claims say beyond the text of the goldens (spec core-scheduling 21).

use std::sync::Arc;
use std::time::Duration;

use karpenter_model::{Launch, Settings, label};

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
            (label::MIN_VALUES_RELAXED, "false"),
            (label::POOL_HASH, "1"),
            (label::POOL_HASH_VERSION, label::POOL_HASH_VERSION_CURRENT),
            ("note", "x"),
        ]
    );
}
