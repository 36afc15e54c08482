//! Whatever overlays there are: verdicts do not depend on their order, what stands never clashes, what does not stand
//! clashes with what does, and each price and each amount is the heaviest overlay's.

use proptest::prelude::*;

use super::*;

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let of = |key: &'static str, values: &'static [&'static str]| {
        (proptest::sample::subsequence(values, 1..=values.len()), any::<bool>()).prop_map(
            move |(values, others)| {
                let operator = if others { Operator::NotIn } else { Operator::In };
                Requirement::new(registry(), &Expression::new(key, operator, &values))
            },
        )
    };
    prop_oneof![
        of(label::INSTANCE_TYPE, &TYPES),
        of(label::ZONE, &ZONES),
        of(label::CAPACITY_TYPE, &["on-demand", "spot"]),
        of(label::NODE_POOL, &["web", "data"]),
        of("team", &["data"]),
    ]
}

fn any_overlay() -> impl Strategy<Value = Overlay> {
    let price = proptest::option::of(0..3_i64);
    let capacity = proptest::collection::btree_map(prop_oneof![Just("x/y"), Just("x/z")], 1..3_i64, 0..3);
    let requirements = proptest::collection::vec(any_requirement(), 0..3);
    (0..3_i32, requirements, price, capacity).prop_map(|(weight, requirements, price, capacity)| {
        let capacity: Vec<(&str, i64)> = capacity.into_iter().collect();
        let price = price.map(|nanos| PriceChange::To(Price::from_nanos(nanos)));
        Overlay { price, ..with("", weight, &requirements, &capacity) }
    })
}

fn any_overlays() -> impl Strategy<Value = Vec<Overlay>> {
    proptest::collection::vec(any_overlay(), 0..7).prop_map(|mut overlays| {
        for (index, overlay) in overlays.iter_mut().enumerate() {
            overlay.name = format!("o{index}").as_str().into();
        }
        overlays
    })
}

fn pools() -> [Pool; 2] {
    [pool("web", &[]), pool("data", &[("team", "data")])]
}

/// Places of the offerings `overlay` is for, as the specification says it.
fn meant(overlay: &Overlay, one: &InstanceType, pool: &Pool) -> Vec<usize> {
    let defined: Requirements =
        one.requirements.iter().chain(labels_of(pool, registry()).iter()).cloned().collect();
    if defined.compatible(&overlay.requirements, karpenter_model::Undefined::Nothing).is_err() {
        return Vec::new();
    }
    let offerings = one.offerings.iter().enumerate();
    offerings
        .filter(|(_, offering)| offering.is_compatible(&overlay.requirements, registry()))
        .map(|(index, _)| index)
        .collect()
}

fn clash(first: &Overlay, second: &Overlay) -> bool {
    let at = |pool: &Pool, one: &InstanceType| {
        let (of_first, of_second) = (meant(first, one, pool), meant(second, one, pool));
        let price = first.price.is_some()
            && second.price.is_some()
            && of_first.iter().any(|offering| of_second.contains(offering));
        let mut names = first.capacity.iter().map(|(name, _)| name.as_str());
        let amount = names.any(|name| second.capacity.get(name).is_some());
        price || (amount && !of_first.is_empty() && !of_second.is_empty())
    };
    first.weight == second.weight && pools().iter().any(|pool| types().iter().any(|one| at(pool, one)))
}

proptest! {
    #[test]
    fn verdicts_do_not_depend_on_the_order_of_the_list(
        (overlays, shuffled) in any_overlays().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(judged(&overlays, &pools()), judged(&shuffled, &pools()));
    }

    #[test]
    fn what_stands_never_clashes_and_what_does_not_clashes_with_one_before_it(overlays in any_overlays()) {
        let judged = judged(&overlays, &pools());
        let of = |name: &OverlayName| overlays.iter().find(|one| one.name == *name).unwrap();
        let stands = |one: &&Overlay| !judged.conflicts.contains_key(&one.name);
        let standing: Vec<&Overlay> = overlays.iter().filter(stands).collect();
        for (place, first) in standing.iter().enumerate() {
            for second in &standing[..place] {
                prop_assert!(!clash(first, second), "{:?} {:?}", first, second);
            }
        }
        for (name, conflict) in &judged.conflicts {
            prop_assert!(!judged.conflicts.contains_key(&conflict.with));
            prop_assert!(conflict.with > *name, "alphabetically last first");
            prop_assert!(clash(of(name), of(&conflict.with)));
        }
    }

    #[test]
    fn every_price_and_amount_is_that_of_the_heaviest_overlay_that_stands(overlays in any_overlays()) {
        let judged = judged(&overlays, &pools());
        let mut standing: Vec<&Overlay> =
            overlays.iter().filter(|one| !judged.conflicts.contains_key(&one.name)).collect();
        standing.sort_by_key(|one| std::cmp::Reverse(one.weight));
        for pool in pools() {
            let seen = judged.overlays.of(&pool, registry()).unwrap().lay_over(&types(), registry());
            for (one, before) in seen.iter().zip(types().iter()) {
                for (index, offering) in before.offerings.iter().enumerate() {
                    let mut meant = standing.iter().filter(|o| meant(o, before, &pool).contains(&index));
                    let change = meant.find_map(|overlay| overlay.price);
                    let expected = change.map_or(offering.price, |change| change.apply(offering.price));
                    prop_assert_eq!(one.offerings[index].price, expected);
                }
                for name in ["x/y", "x/z"] {
                    let mut meant = standing.iter().filter(|o| !meant(o, before, &pool).is_empty());
                    let amount = meant.find_map(|overlay| overlay.capacity.get(name));
                    prop_assert_eq!(one.capacity.get(name), amount);
                }
            }
        }
    }
}
