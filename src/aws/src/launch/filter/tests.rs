//! Choice of the types of a launch, on a small made-up catalogue.

use karpenter_model::{Expression, Operator, Requirement};

use super::*;
use crate::registry::label_registry;

/// Offerings as `(capacity type, price)` in zone `a`.
fn kind(name: &str, offerings: &[(CapacityType, i64)]) -> Arc<InstanceType> {
    let offering = |(capacity_type, price): &(CapacityType, i64)| {
        Offering::new("a", *capacity_type, Price::from_nanos(*price))
    };
    let gpus = i64::from(name.starts_with('g'));
    Arc::new(InstanceType {
        requirements: [Requirement::one_of(label::INSTANCE_TYPE.into(), [name.into()])].into_iter().collect(),
        capacity: Resources::new()
            .with("cpu", karpenter_model::Quantity::from_units(4))
            .with(capacity::NVIDIA_GPU, karpenter_model::Quantity::from_units(gpus)),
        ..InstanceType::bare(name, offerings.iter().map(offering).collect())
    })
}

fn names(types: &[Arc<InstanceType>], requirements: &Requirements) -> Result<Vec<String>, Empty> {
    let registry = label_registry();
    let requests = Resources::new().with("cpu", karpenter_model::Quantity::ONE);
    let wanted = Wanted { requirements, requests: &requests, registry: &registry, min_values_relaxed: false };
    Ok(narrow(types, wanted)?.into_iter().map(|one| one.instance_type.name.to_string()).collect())
}

use CapacityType::{OnDemand, Spot};

#[test]
fn cheapest_first_and_sixty_at_most() {
    let types: Vec<_> = (0..80).map(|n| kind(&format!("m5.{n:02}"), &[(OnDemand, 1_000 - n)])).collect();
    let names = names(&types, &Requirements::new()).unwrap();
    assert_eq!((names.len(), names[0].as_str(), names[59].as_str()), (60, "m5.79", "m5.20"));
}

#[test]
fn spot_dearer_than_on_demand_is_left_out_when_either_will_do() {
    let types = [kind("m5.a", &[(Spot, 90), (OnDemand, 100)]), kind("m5.b", &[(Spot, 101)])];
    assert_eq!(names(&types, &Requirements::new()).unwrap(), ["m5.a"]);
    let spot: Requirements =
        [Requirement::one_of(label::CAPACITY_TYPE.into(), ["spot".into()])].into_iter().collect();
    assert_eq!(names(&types, &spot).unwrap(), ["m5.a", "m5.b"]);
}

#[test]
fn spot_is_not_held_against_an_estimate() {
    let mut guessed = InstanceType::clone(&kind("m5.a", &[(OnDemand, 10)]));
    guessed.offerings[0].estimated = true;
    let spot = kind("m5.b", &[(Spot, 101)]);
    assert_eq!(names(&[guessed.into(), Arc::clone(&spot)], &Requirements::new()).unwrap(), ["m5.a", "m5.b"]);
    let told = kind("m5.c", &[(OnDemand, 100)]);
    assert_eq!(names(&[spot, told], &Requirements::new()).unwrap(), ["m5.c"]);
}

#[test]
fn an_on_demand_launch_with_few_types_is_noticed_when_it_may_be_spot_too() {
    let candidates = |count: usize| -> Vec<Candidate> {
        let types = (0..count).map(|n| kind(&format!("m5.{n}"), &[(OnDemand, 1)]));
        types.map(|one| Candidate { offerings: one.offerings.clone(), instance_type: one }).collect()
    };
    let only = |capacity_type: CapacityType| -> Requirements {
        let value = capacity_type.as_str().into();
        [Requirement::one_of(label::CAPACITY_TYPE.into(), [value])].into_iter().collect()
    };
    let any = Requirements::new();
    for (count, bought, wanted, few) in [
        (4, OnDemand, &any, Some(4)),
        (5, OnDemand, &any, None),
        (4, Spot, &any, None),
        (4, OnDemand, &only(OnDemand), None),
    ] {
        assert_eq!(few_to_fall_back_to(&candidates(count), bought, wanted), few, "{count} {bought:?}");
    }
}

#[test]
fn metal_and_accelerators_are_left_out_unless_they_are_all_there_is() {
    let metal = kind("m5.metal", &[(OnDemand, 1)]);
    let gpu = kind("g5.large", &[(OnDemand, 2)]);
    let plain = kind("m5.large", &[(OnDemand, 3)]);
    let all = [Arc::clone(&metal), Arc::clone(&gpu), plain];
    assert_eq!(names(&all, &Requirements::new()).unwrap(), ["m5.large"]);
    assert_eq!(names(&[metal, gpu], &Requirements::new()).unwrap(), ["m5.metal", "g5.large"]);
}

#[test]
fn min_values_keep_everything_and_must_be_met() {
    let types = [kind("m5.metal", &[(OnDemand, 1)]), kind("m5.large", &[(OnDemand, 2)])];
    let at_least = |least| -> Requirements {
        let expression = Expression {
            min_values: Some(least),
            ..Expression::new(label::INSTANCE_TYPE, Operator::Exists, &[])
        };
        Requirements::from_expressions(&label_registry(), &[expression])
    };
    assert_eq!(names(&types, &at_least(2)).unwrap(), ["m5.metal", "m5.large"]);
    assert_eq!(names(&types, &at_least(3)), Err(Empty::MinValues));
}

#[test]
fn nothing_available_is_said_and_the_kind_of_purchase_follows_preference() {
    assert_eq!(names(&[kind("m5.large", &[])], &Requirements::new()), Err(Empty::NoneCompatible));
    let both = kind("m5.large", &[(OnDemand, 2), (Spot, 1)]);
    let candidate = Candidate { offerings: both.offerings.clone(), instance_type: both };
    assert_eq!(capacity_type(&[candidate]), Spot);
}

#[test]
fn hardware_is_shared_unless_only_dedicated_will_do() {
    let tenancy = |values: &[&str]| -> Requirements {
        let values = values.iter().map(|value| (*value).into());
        [Requirement::one_of(aws::INSTANCE_TENANCY.into(), values)].into_iter().collect()
    };
    for (requirements, named, expected) in [
        (Requirements::new(), false, false),
        (tenancy(&["default"]), false, false),
        (tenancy(&["default", "dedicated"]), true, false),
        (tenancy(&["dedicated"]), true, true),
    ] {
        let found = (names_dedicated(&requirements), dedicated(&requirements));
        assert_eq!(found, (named, expected), "{requirements}");
    }
}

#[test]
fn what_is_bought_another_way_is_left_out() {
    let candidates = [("m5.a", &[(Spot, 1), (OnDemand, 2)][..]), ("m5.b", &[(OnDemand, 1)])]
        .map(|(name, offerings)| kind(name, offerings))
        .map(|one| Candidate { offerings: one.offerings.clone(), instance_type: one })
        .to_vec();
    for (capacity_type, expected) in [(Spot, &["m5.a"][..]), (OnDemand, &["m5.a", "m5.b"])] {
        let left = of_capacity_type(candidates.clone(), capacity_type);
        let names: Vec<_> = left.iter().map(|one| one.instance_type.name.as_str()).collect();
        assert_eq!(names, expected);
        assert!(left.iter().all(|one| one.offerings.iter().all(|one| one.capacity_type == capacity_type)));
    }
}
