//! The order of the questions, and what must never read as drift.

use std::sync::Arc;

use karpenter_model::{ConditionStatus, Expression, NodeClassRef, Offering, Operator, Price, Resources};

use super::*;
use crate::fixture::{at, claim, holding, pool, with_condition};

fn stamped(hash: &str, version: &str) -> Annotations {
    Annotations::from([
        (annotation::POOL_HASH.to_owned(), hash.to_owned()),
        (annotation::POOL_HASH_VERSION.to_owned(), version.to_owned()),
    ])
}

fn launched(labels: &[(&str, &str)]) -> Claim {
    let mut claim = holding(claim(), &[ConditionType::Launched]);
    claim.annotations = stamped("1", "v3");
    claim.labels.extend(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())));
    claim
}

fn requiring(registry: &LabelRegistry, key: &str, operator: Operator, values: &[&str]) -> Pool {
    let mut pool = pool();
    pool.template.requirements =
        Requirements::from_expressions(registry, &[Expression::new(key, operator, values)]);
    pool
}

fn judge(claim: &Claim, pool: &Pool, annotations: &Annotations) -> Local {
    judge_set(claim, pool, annotations, &DisruptionSettings::default(), 0)
}

fn judge_set(
    claim: &Claim,
    pool: &Pool,
    pool_annotations: &Annotations,
    settings: &DisruptionSettings,
    now: i64,
) -> Local {
    let registry = &LabelRegistry::core();
    let (instance_types, type_found, now) = (None, None, at(now));
    local(claim, Facts { pool, pool_annotations, instance_types, registry, type_found, settings, now })
}

const SAME: Local = Local::AskProvider { type_found: false };

#[test]
fn a_different_hash_of_the_same_version_is_drift_and_nothing_else_about_hashes_is() {
    let table = [
        (stamped("1", "v3"), SAME),
        (stamped("2", "v3"), Local::Drifted("NodePoolDrifted")),
        (stamped("2", "v2"), SAME),
        (Annotations::new(), SAME),
        (Annotations::from([(annotation::POOL_HASH.to_owned(), "2".to_owned())]), SAME),
    ];
    for (annotations, expected) in table {
        assert_eq!(judge(&launched(&[]), &pool(), &annotations), expected, "{annotations:?}");
        let swapped = Claim { annotations: annotations.clone(), ..launched(&[]) };
        assert_eq!(judge(&swapped, &pool(), &stamped("1", "v3")), expected, "{annotations:?} on the claim");
    }
}

#[test]
fn requirements_are_compared_with_labels_one_way() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let drifted = Local::Drifted("RequirementsDrifted");
    let registry = LabelRegistry::core();
    let table: [(Operator, &[&str], Option<&str>, Local); 12] = [
        (In, &["a", "b"], Some("a"), SAME),
        (In, &["a", "b"], Some("c"), drifted),
        (In, &["a"], None, drifted),
        (Exists, &[], Some("x"), SAME),
        (Exists, &[], None, drifted),
        (DoesNotExist, &[], None, SAME),
        (DoesNotExist, &[], Some("x"), drifted),
        (NotIn, &["a"], None, SAME),
        (NotIn, &["a"], Some("a"), drifted),
        (Gt, &["4"], Some("5"), SAME),
        (Gt, &["4"], Some("4"), drifted),
        (Lt, &["4"], None, drifted),
    ];
    for (operator, values, label, expected) in table {
        let claim = launched(&label.map(|value| ("team", value)).into_iter().collect::<Vec<_>>());
        let pool = requiring(&registry, "team", operator, values);
        assert_eq!(judge(&claim, &pool, &stamped("1", "v3")), expected, "{operator:?} {values:?} {label:?}");
    }
    let zone = requiring(&registry, label::ZONE, In, &["a"]);
    assert_eq!(judge(&launched(&[]), &zone, &stamped("1", "v3")), drifted, "well-known keys are not exempt");
}

#[test]
fn the_hash_comes_before_the_requirements() {
    let registry = LabelRegistry::core();
    let pool = requiring(&registry, "team", Operator::Exists, &[]);
    assert_eq!(judge(&launched(&[]), &pool, &stamped("2", "v3")), Local::Drifted("NodePoolDrifted"));
}

fn selling(name: &str, capacity_types: &[CapacityType]) -> Arc<InstanceType> {
    let offerings = capacity_types.iter().map(|capacity_type| {
        let mut offering = Offering::new("a", *capacity_type, Price::from_nanos(1));
        offering.available = false;
        if *capacity_type == CapacityType::Reserved {
            offering.requirements.add(Requirement::one_of("cloud/reservation".into(), ["other".into()]));
        }
        offering
    });
    Arc::new(InstanceType::bare(name, offerings.collect()))
}

fn judge_type(claim: &Claim, types: Option<&[Arc<InstanceType>]>, found: Option<i64>, now: i64) -> Local {
    let mut registry = LabelRegistry::core();
    registry.reservation_id = Some("cloud/reservation".into());
    registry.well_known.insert("cloud/reservation".into());
    let (pool, annotations) = (pool(), stamped("1", "v3"));
    let facts = Facts {
        pool: &pool,
        pool_annotations: &annotations,
        instance_types: types,
        registry: &registry,
        type_found: found.map(at),
        settings: &DisruptionSettings::default(),
        now: at(now),
    };
    local(claim, facts)
}

fn of_type(capacity_type: &str) -> Claim {
    launched(&[(label::INSTANCE_TYPE, "small"), (label::ZONE, "a"), (label::CAPACITY_TYPE, capacity_type)])
}

#[test]
fn a_type_that_is_no_longer_sold_is_drift_after_an_hour() {
    let missing = Local::Drifted("InstanceTypeNotFound");
    let found = Local::AskProvider { type_found: true };
    let (small, large) = (selling("small", &CapacityType::ALL), selling("large", &CapacityType::ALL));
    let sold = [small.clone()];
    let unsold = [large];
    let claim = of_type("spot");
    assert_eq!(judge_type(&claim, Some(&unsold), None, 3600), SAME, "too young");
    assert_eq!(judge_type(&claim, Some(&unsold), None, 3601), missing);
    assert_eq!(judge_type(&claim, Some(&sold), None, 3601), found, "unavailable offerings count");
    assert_eq!(judge_type(&claim, Some(&unsold), Some(9000), 9000 + 1799), SAME, "found a short while ago");
    assert_eq!(judge_type(&claim, Some(&unsold), Some(9000), 9000 + 1800), missing);
    assert_eq!(judge_type(&claim, None, None, 9000), SAME, "no list is no answer");
    assert_eq!(judge_type(&claim, Some(&[]), None, 9000), SAME, "nor is an empty one");
    let elsewhere =
        launched(&[(label::INSTANCE_TYPE, "small"), (label::ZONE, "z"), (label::CAPACITY_TYPE, "spot")]);
    assert_eq!(judge_type(&elsewhere, Some(&sold), None, 9000), missing);
    assert_eq!(judge_type(&launched(&[]), Some(&sold), None, 9000), missing, "no type label");
}

#[test]
fn a_reserved_machine_may_fall_back_to_on_demand_but_not_to_spot() {
    use CapacityType::{OnDemand, Reserved, Spot};
    let mut claim = of_type("reserved");
    claim.labels.insert("cloud/reservation".into(), "mine".into());
    let table: [(&[CapacityType], bool); 5] = [
        (&[Reserved, OnDemand], true),
        (&[Reserved], true),
        (&[OnDemand], true),
        (&[Spot], false),
        (&[], false),
    ];
    for (sold, found) in table {
        let types = [selling("small", sold)];
        let expected = if found {
            Local::AskProvider { type_found: true }
        } else {
            Local::Drifted("InstanceTypeNotFound")
        };
        assert_eq!(judge_type(&claim, Some(&types), None, 9000), expected, "{sold:?}");
    }
}

#[test]
fn a_machine_drifts_some_time_before_it_expires_if_that_is_asked_for() {
    let hour = 3600;
    let judge = |expire_after: Option<u64>, lead: u64, age: i64| {
        let claim = Claim { expire_after: expire_after.map(Duration::from_hours), ..launched(&[]) };
        let expiry_lead = Duration::from_hours(lead);
        let settings = DisruptionSettings { expiry_lead, ..DisruptionSettings::default() };
        judge_set(&claim, &pool(), &stamped("1", "v3"), &settings, age)
    };
    let soon = Local::Drifted("ExpiresSoon");
    let table = [
        (Some(24), 6, 18 * hour - 1, SAME),
        (Some(24), 6, 18 * hour, soon),
        (Some(24), 6, 30 * hour, soon),
        (Some(24), 0, 24 * hour, SAME),
        (None, 6, 1000 * hour, SAME),
        // Never from the beginning, or its replacement would drift as well.
        (Some(24), 48, 12 * hour - 1, SAME),
        (Some(24), 48, 12 * hour, soon),
        (Some(0), 6, 0, SAME),
    ];
    for (expire_after, lead, age, expected) in table {
        assert_eq!(judge(expire_after, lead, age), expected, "{expire_after:?} {lead} {age}");
    }
}

#[test]
fn a_machine_the_cloud_recommends_to_leave_drifts_where_that_is_asked_for() {
    let plain = launched(&[(label::CAPACITY_TYPE, "spot")]);
    let mut recommended = plain.clone();
    recommended.annotations.insert(annotation::REBALANCE_RECOMMENDED.to_owned(), at(1).to_string());
    let table = [
        (&plain, true, SAME),
        (&recommended, false, SAME),
        (&recommended, true, Local::Drifted("RebalanceRecommended")),
    ];
    for (claim, on_rebalance, expected) in table {
        let settings = DisruptionSettings { on_rebalance, ..DisruptionSettings::default() };
        let judged = judge_set(claim, &pool(), &stamped("1", "v3"), &settings, 0);
        assert_eq!(judged, expected, "{on_rebalance}");
    }
}

#[test]
fn a_claim_without_machine_loses_the_condition() {
    let unlaunched = holding(claim(), &[ConditionType::Drifted]);
    for status in [ConditionStatus::Unknown, ConditionStatus::False] {
        let failed = with_condition(unlaunched.clone(), ConditionType::Launched, status, 0);
        assert_eq!(judge(&failed, &pool(), &stamped("2", "v3")), Local::NotLaunched, "{status:?}");
    }
    assert_eq!(judge(&unlaunched, &pool(), &stamped("2", "v3")), Local::NotLaunched);
    let step = step(&unlaunched, Local::NotLaunched, Provider::Same);
    assert_eq!(step.conditions, [Change::removed(ConditionType::Drifted)]);
}

#[test]
fn local_reasons_beat_the_provider_and_its_failure_changes_nothing() {
    let set = |step: Step| step.conditions;
    let drifted = launched(&[]);
    let static_reason = Local::Drifted("NodePoolDrifted");
    assert_eq!(
        set(step(&drifted, static_reason, Provider::Drifted("AMIDrift"))),
        [Change::drifted("NodePoolDrifted")]
    );
    assert_eq!(set(step(&drifted, SAME, Provider::Drifted("AMIDrift"))), [Change::drifted("AMIDrift")]);
    let was = holding(drifted.clone(), &[ConditionType::Drifted]);
    assert_eq!(set(step(&was, SAME, Provider::Same)), [Change::removed(ConditionType::Drifted)]);
    assert_eq!(step(&was, SAME, Provider::Failed), Step::idle().and_wake(Wake::Backoff));
    assert_eq!(set(step(&drifted, SAME, Provider::Same)), []);
}

#[test]
fn behaviour_of_the_pool_plays_no_part() {
    let mut other = pool();
    other.weight = 50;
    other.limits = Some(Resources::one_pod());
    other.disruption.consolidate_after = None;
    other.template.node_class = NodeClassRef::default();
    assert_eq!(judge(&launched(&[]), &other, &stamped("1", "v3")), SAME, "the class is part of the hash");
}
