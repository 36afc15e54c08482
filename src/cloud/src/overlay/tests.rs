//! Behavior that the reference pins about overlays (spec scheduling 24, 32.14), and fixes of its defects.

mod properties;

use std::sync::{Arc, LazyLock};

use karpenter_model::names::label;
use karpenter_model::{
    CapacityType, Expression, InstanceType, LabelRegistry, Offering, Operator, Overlaid, Overlay,
    OverlayName, Pool, Price, PriceChange, Quantity, Requirement, Resources, Template,
};

use super::*;

const TYPES: [&str; 3] = ["small", "medium", "large"];
const ZONES: [&str; 2] = ["a", "b"];

fn registry() -> &'static LabelRegistry {
    static REGISTRY: LazyLock<LabelRegistry> = LazyLock::new(LabelRegistry::core);
    &REGISTRY
}

fn only(key: &str, values: &[&str]) -> Requirement {
    Requirement::one_of(key.into(), values.iter().map(|value| (*value).into()))
}

/// Sold on demand and as spot in two zones; the price tells offerings apart.
fn instance_type(size: i64, name: &str) -> Arc<InstanceType> {
    let ways = ZONES.iter().zip(0..).flat_map(|(zone, place)| {
        [
            (*zone, CapacityType::OnDemand, 100 * size + 10 * place),
            (*zone, CapacityType::Spot, 50 * size + place),
        ]
    });
    let offerings = ways.map(|(zone, capacity_type, price)| Offering {
        available: capacity_type == CapacityType::OnDemand,
        capacity_override: Resources::new().with("override", Quantity::ONE),
        overhead_override: Resources::new().with("cpu", Quantity::ONE),
        ..Offering::new(zone, capacity_type, Price::from_nanos(price))
    });
    Arc::new(InstanceType {
        requirements: [
            only(label::INSTANCE_TYPE, &[name]),
            only(label::ZONE, &ZONES),
            only(label::CAPACITY_TYPE, &["on-demand", "spot"]),
        ]
        .into_iter()
        .collect(),
        capacity: Resources::new().with("cpu", Quantity::from_units(4)),
        ..InstanceType::bare(name, offerings.collect())
    })
}

fn types() -> List {
    (1..).zip(TYPES).map(|(size, name)| instance_type(size, name)).collect()
}

fn pool(name: &str, labels: &[(&str, &str)]) -> Pool {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Pool { template: Template { labels, ..Template::default() }, ..Pool::bare(name) }
}

fn overlay(name: &str, weight: i32, requirements: &[Requirement]) -> Overlay {
    let requirements = requirements.iter().cloned().collect();
    Overlay { name: name.into(), weight, requirements, price: None, capacity: Resources::new() }
}

fn priced(name: &str, weight: i32, requirements: &[Requirement], nanos: i64) -> Overlay {
    let price = Some(PriceChange::To(Price::from_nanos(nanos)));
    Overlay { price, ..overlay(name, weight, requirements) }
}

fn with(name: &str, weight: i32, requirements: &[Requirement], resources: &[(&str, i64)]) -> Overlay {
    let units = |(name, units): &(&str, i64)| ((*name).into(), Quantity::from_units(*units));
    Overlay { capacity: resources.iter().map(units).collect(), ..overlay(name, weight, requirements) }
}

fn judged(overlays: &[Overlay], pools: &[Pool]) -> Judged {
    let sight =
        |pool: &Pool| Sight { pool: pool.name.clone(), labels: labels_of(pool, registry()), types: types() };
    let sights: Vec<Sight> = pools.iter().map(sight).collect();
    judge(overlays.iter().cloned().map(Arc::new).collect(), &sights, registry())
}

/// Names of the overlays that are in conflict.
fn losers(overlays: &[Overlay]) -> Vec<String> {
    let judged = judged(overlays, &[pool("web", &[])]);
    judged.conflicts.keys().map(ToString::to_string).collect()
}

/// The types of `pool` under `overlays`.
fn laid(overlays: &[Overlay], pool: &Pool) -> List {
    let judged = judged(overlays, std::slice::from_ref(pool));
    judged.overlays.of(pool, registry()).expect("looked at").lay_over(&types(), registry())
}

fn prices(one: &InstanceType) -> Vec<i64> {
    one.offerings.iter().map(|offering| offering.price.nanos()).collect()
}

fn amounts(one: &InstanceType, name: &str) -> i64 {
    one.capacity.amount(name).as_units_ceil()
}

#[test]
fn of_equal_weight_the_alphabetically_last_stands_even_if_both_say_the_same() {
    let table = [
        (priced("a", 5, &[], 1), priced("b", 5, &[], 1), "a"),
        (priced("b", 5, &[], 1), priced("a", 5, &[], 2), "a"),
        (with("a", 0, &[], &[("x/y", 1)]), with("b", 0, &[], &[("x/y", 1)]), "a"),
        // Amounts are per type: two zones of one type are not apart.
        (
            with("a", 5, &[only(label::ZONE, &["a"])], &[("x/y", 1)]),
            with("b", 5, &[only(label::ZONE, &["b"])], &[("x/y", 2), ("x/z", 1)]),
            "a",
        ),
    ];
    for (first, second, loser) in table {
        assert_eq!(losers(&[first.clone(), second.clone()]), [loser], "{first:?} {second:?}");
    }
}

#[test]
fn different_weights_or_disjoint_requirements_are_no_conflict() {
    let table = [
        (priced("a", 5, &[], 1), priced("b", 6, &[], 1)),
        (with("a", 5, &[], &[("x/y", 1)]), with("b", 6, &[], &[("x/y", 2)])),
        (
            priced("a", 5, &[only(label::INSTANCE_TYPE, &["small"])], 1),
            priced("b", 5, &[only(label::INSTANCE_TYPE, &["large"])], 1),
        ),
        (priced("a", 5, &[only(label::ZONE, &["a"])], 1), priced("b", 5, &[only(label::ZONE, &["b"])], 1)),
        (with("a", 5, &[], &[("x/y", 1)]), with("b", 5, &[], &[("x/z", 1)])),
        (priced("a", 5, &[], 1), with("b", 5, &[], &[("x/y", 1)])),
        (priced("a", 5, &[only("team", &["data"])], 1), priced("b", 5, &[], 1)),
    ];
    for (first, second) in table {
        assert_eq!(losers(&[first.clone(), second.clone()]), [""; 0], "{first:?} {second:?}");
    }
}

#[test]
fn of_three_the_overlapping_one_that_sorts_lower_is_in_conflict_and_the_unrelated_stands() {
    let small = [only(label::INSTANCE_TYPE, &["small"])];
    let large = [only(label::INSTANCE_TYPE, &["large"])];
    let price = |name, requirements| priced(name, 5, requirements, 1);
    assert_eq!(losers(&[price("a", &small), price("b", &small), price("c", &large)]), ["a"]);
    let amount = |name, requirements| with(name, 5, requirements, &[("x/y", 1)]);
    assert_eq!(losers(&[amount("a", &small), amount("b", &large), amount("c", &small)]), ["a"]);
}

/// The reference remembers only the last overlay applied to a type.
#[test]
fn a_third_overlay_of_equal_weight_hides_no_conflict() {
    let overlays = [
        with("a", 5, &[], &[("x/y", 1)]),
        with("b", 5, &[], &[("x/z", 1)]),
        with("c", 5, &[], &[("x/y", 2)]),
    ];
    assert_eq!(losers(&overlays), ["a"]);
    // Nor does one that another overlay outweighs.
    let overlays = [priced("a", 5, &[], 1), priced("b", 9, &[], 1), priced("c", 5, &[], 2)];
    assert_eq!(losers(&overlays), ["a"]);
}

#[test]
fn an_overlay_in_conflict_applies_in_no_pool_and_is_in_nobodys_way() {
    let overlays = [
        with("a", 5, &[], &[("x/z", 1)]),
        with("b", 5, &[], &[("x/y", 1), ("x/z", 1)]),
        with("c", 5, &[only("team", &["data"])], &[("x/y", 1)]),
    ];
    let (data, web) = (pool("data", &[("team", "data")]), pool("web", &[]));
    let judged = judged(&overlays, &[data, web.clone()]);
    let conflict = &judged.conflicts[&OverlayName::from("b")];
    assert_eq!((conflict.with.as_str(), conflict.pool.as_str()), ("c", "data"));
    assert_eq!(judged.conflicts.len(), 1, "`a` shares a resource only with `b`");
    let seen = judged.overlays.of(&web, registry()).unwrap().lay_over(&types(), registry());
    assert_eq!((amounts(&seen[0], "x/y"), amounts(&seen[0], "x/z")), (0, 1));
}

#[test]
fn a_conflict_says_with_what_where_and_what_to_do() {
    let (price, amount) = (
        judged(&[priced("a", 5, &[], 1), priced("b", 5, &[], 1)], &[pool("web", &[])]),
        judged(&[with("a", 5, &[], &[("x/y", 1)]), with("b", 5, &[], &[("x/y", 1)])], &[pool("web", &[])]),
    );
    let text = |judged: &Judged| judged.conflicts.values().map(ToString::to_string).collect::<String>();
    assert_eq!(
        text(&price),
        "overlay `b` has the same weight and also changes the price of `small` in pool `web`; give them different \
         weights or requirements that exclude each other"
    );
    assert!(text(&amount).contains("also changes resource `x/y` of `small`"), "{}", text(&amount));
}

#[test]
fn the_heaviest_overlay_of_a_price_wins_and_lighter_ones_are_ignored() {
    let spot = [only(label::CAPACITY_TYPE, &["spot"])];
    let half = Overlay { price: Some(PriceChange::adjustment("-50%").unwrap()), ..overlay("half", 1, &[]) };
    let seen = laid(&[half, priced("spot", 9, &spot, 7)], &pool("web", &[]));
    assert_eq!(prices(&seen[0]), [50, 7, 55, 7], "no change is made of a changed price");
    assert_eq!(prices(&seen[2]), [150, 7, 155, 7]);
    assert_eq!(seen[0].overlaid, Overlaid { price: true, capacity: false });
}

#[test]
fn amounts_merge_and_the_heaviest_writes_each_resource() {
    let overlays = [
        with("light", 1, &[], &[("x/y", 1), ("x/z", 1), ("nvidia.com/gpu", 2)]),
        with("heavy", 9, &[], &[("x/y", 8), ("hugepages-2Mi", 4)]),
    ];
    let seen = laid(&overlays, &pool("web", &[]));
    let found = ["x/y", "x/z", "nvidia.com/gpu", "hugepages-2Mi", "cpu"].map(|name| amounts(&seen[0], name));
    assert_eq!(found, [8, 1, 2, 4, 4]);
    assert_eq!(seen[0].overlaid, Overlaid { price: false, capacity: true });
    assert_eq!(prices(&seen[0]), prices(&types()[0]));
}

#[test]
fn a_price_is_for_the_offerings_that_match_and_an_amount_for_the_whole_type() {
    let of_zone = [only(label::ZONE, &["b"])];
    let both =
        Overlay { capacity: Resources::new().with("x/y", Quantity::ONE), ..priced("p", 1, &of_zone, 7) };
    let seen = laid(&[both], &pool("web", &[]));
    assert_eq!(prices(&seen[1]), [200, 100, 7, 7]);
    assert_eq!(amounts(&seen[1], "x/y"), 1);
}

#[test]
fn a_price_that_is_set_is_no_estimate_and_one_that_is_changed_stays_one() {
    let mut guessed = InstanceType::clone(&instance_type(1, "guessed"));
    guessed.offerings.iter_mut().for_each(|offering| offering.estimated = true);
    let types: List = [Arc::new(guessed)].into();
    let web = pool("web", &[]);
    let estimated = |overlay: Overlay| {
        let judged = judged(&[overlay], std::slice::from_ref(&web));
        let seen = judged.overlays.of(&web, registry()).unwrap().lay_over(&types, registry());
        seen[0].offerings.iter().map(|offering| offering.estimated).collect::<Vec<_>>()
    };
    let of_zone = [only(label::ZONE, &["b"])];
    let set = priced("set", 1, &of_zone, 7);
    let dearer = Overlay { price: Some(PriceChange::By(Price::from_nanos(1))), ..set.clone() };
    assert_eq!(estimated(set), [true, true, false, false]);
    assert_eq!(estimated(dearer), [true; 4]);
}

#[test]
fn an_overlay_without_a_matching_offering_does_nothing() {
    // The type says it is sold in zone c too, but there is no offering.
    let mut odd = InstanceType::clone(&instance_type(1, "odd"));
    odd.requirements.replace(only(label::ZONE, &["a", "b", "c"]));
    let types: List = [Arc::new(odd)].into();
    let web = pool("web", &[]);
    let of_zone = [only(label::ZONE, &["c"])];
    let judged = judged(&[with("o", 1, &of_zone, &[("x/y", 1)])], std::slice::from_ref(&web));
    let seen = judged.overlays.of(&web, registry()).unwrap().lay_over(&types, registry());
    assert!(Arc::ptr_eq(&seen, &types));
}

#[test]
fn overlays_can_be_for_one_pool_or_for_labels_of_templates() {
    let (web, data) = (pool("web", &[]), pool("data", &[("team", "data")]));
    let not_data = Requirement::new(registry(), &Expression::new("team", Operator::NotIn, &["data"]));
    let table = [
        (only(label::NODE_POOL, &["web"]), [true, false]),
        (only(label::NODE_POOL, &["other"]), [false, false]),
        (only("team", &["data"]), [false, true]),
        (only("team", &["web"]), [false, false]),
        (not_data, [true, false]),
        (Requirement::exists("team".into()), [false, true]),
    ];
    for (requirement, changed) in table {
        let overlay = priced("o", 1, std::slice::from_ref(&requirement), 7);
        let seen = [&web, &data].map(|pool| laid(std::slice::from_ref(&overlay), pool)[0].overlaid.price);
        assert_eq!(seen, changed, "{requirement}");
    }
}

/// Labels no type and no pool defines are not there, even well-known ones.
#[test]
fn matching_is_strict() {
    for key in ["unknown", label::WINDOWS_BUILD] {
        let overlay = priced("o", 1, &[only(key, &["x"])], 7);
        assert_eq!(prices(&laid(&[overlay], &pool("web", &[]))[0]), prices(&types()[0]), "{key}");
    }
}

/// The reference drops what replaces amounts through an offering whose price it changes.
#[test]
fn only_prices_and_amounts_change() {
    let overlays = [priced("o", 1, &[], 7), with("q", 2, &[], &[("x/y", 1)])];
    let seen = laid(&overlays, &pool("web", &[("team", "data")]));
    for (seen, before) in seen.iter().zip(types().iter()) {
        let mut expected = InstanceType::clone(before);
        expected.capacity.set("x/y", Quantity::ONE);
        expected.overlaid = Overlaid { price: true, capacity: true };
        for offering in &mut expected.offerings {
            offering.price = Price::from_nanos(7);
        }
        assert_eq!(**seen, expected, "requirements without labels of the pool, overrides, availability");
    }
}

#[test]
fn types_no_overlay_is_for_are_the_same_objects() {
    let web = pool("web", &[]);
    let judged =
        judged(&[priced("o", 1, &[only(label::INSTANCE_TYPE, &["small"])], 7)], std::slice::from_ref(&web));
    let before = types();
    let seen = judged.overlays.of(&web, registry()).unwrap().lay_over(&before, registry());
    let same: Vec<bool> = seen.iter().zip(before.iter()).map(|(seen, one)| Arc::ptr_eq(seen, one)).collect();
    assert_eq!(same, [false, true, true]);
}

#[test]
fn a_pool_that_was_not_looked_at_is_not_known_and_one_without_overlays_is() {
    let (web, new) = (pool("web", &[]), pool("new", &[]));
    let judged = judged(&[], std::slice::from_ref(&web));
    let before = types();
    let seen = judged.overlays.of(&web, registry()).unwrap().lay_over(&before, registry());
    assert!(Arc::ptr_eq(&seen, &before));
    assert_eq!(judged.overlays.of(&new, registry()), None);
    assert_eq!(Overlays::default().of(&web, registry()), None);
}

#[test]
fn prices_of_listed_types_alone_are_previews() {
    let listed = |names: &[&str]| only(label::INSTANCE_TYPE, names);
    let not =
        Requirement::new(registry(), &Expression::new(label::INSTANCE_TYPE, Operator::NotIn, &["small"]));
    let adjusted = Overlay {
        price: Some(PriceChange::adjustment("+1").unwrap()),
        ..overlay("adjusted", 7, &[listed(&["new-1"])])
    };
    let overlays = [
        priced("one", 1, &[listed(&["new-1", "new-2"])], 11),
        priced("heavier", 2, &[listed(&["new-2"])], 22),
        priced("zonal", 3, &[listed(&["new-3"]), only(label::ZONE, &["a"])], 33),
        priced("others", 4, &[not], 44),
        adjusted,
    ];
    let previews = judged(&overlays, &[]).overlays.previews();
    let previews: Vec<_> = previews.iter().map(|(name, price)| (name.as_str(), price.nanos())).collect();
    assert_eq!(previews, [("new-1", 11), ("new-2", 22)]);
}
