//! The search against trying everything, on worlds small enough for that.

use karpenter_model::device::{Device, DeviceConstraint, DeviceCount, Reach, RequestKind};
use karpenter_model::{Quantity, ResourceClaim};

use super::world::*;
use crate::Spot;

/// A small random world: devices, and claims `c0`, `c1`, and so on.
fn small(seed: u64) -> (World, usize) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut world = world();
    for pool in 0..dice.usize(1..3) {
        let devices = (0..dice.usize(1..4)).map(|number| {
            let name = format!("d{pool}{number}");
            let mut one = if dice.u8(0..4) == 0 { shared(&name, dice.i64(2..5)) } else { device(&name) };
            if dice.bool() {
                one = with(one, "numa", ["0", "1"][dice.usize(0..2)]);
            }
            if dice.u8(0..3) == 0 { drawing(one, dice.i64(1..4)) } else { one }
        });
        let devices: Vec<Device> = devices.collect();
        let mut slice = slice(&format!("p{pool}"), devices);
        slice.counters = vec![chip(dice.i64(2..6))];
        slice.reach = match dice.u8(0..4) {
            0 => Reach::Selected(vec![zone(&["a"])]),
            1 => Reach::Selected(vec![zone(&["b"])]),
            2 => Reach::Selected(vec![zone(&["a"]), zone(&["b"])]),
            _ => Reach::Everywhere,
        };
        world = world.slice(slice);
    }
    let claims = dice.usize(1..5);
    for number in 0..claims {
        let requests = (0..dice.usize(1..3)).map(|request_number| {
            let name = format!("r{request_number}");
            match dice.u8(0..4) {
                0 => portion(&name, dice.i64(1..3)),
                1 => request_of(
                    &name,
                    DeviceCount::Exactly(1),
                    &["'numa' in device.attributes['gpu.example.com']"],
                ),
                _ => request(&name, dice.u32(1..3)),
            }
        });
        let mut one = claim(&format!("c{number}"), requests.collect());
        if dice.u8(0..3) == 0 {
            one.constraints = vec![matching("numa")];
        }
        world = world.claim(one);
    }
    (world, claims)
}

/// One device given away, with what was taken of its memory.
type Given = (usize, usize, i64);

/// The devices of `world`, as pool and position, that each device of `claim` could be.
fn slots(claim: &ResourceClaim) -> Vec<(Option<i64>, bool)> {
    let slots = claim.requests.iter().flat_map(|request| {
        let RequestKind::Exactly(exact) = &request.kind else { return Vec::new() };
        let DeviceCount::Exactly(count) = exact.count else { return Vec::new() };
        let asked = exact.capacity.values().next().map(|quantity| quantity.as_units_ceil());
        (0..count).map(|_| (asked, !exact.selectors.is_empty())).collect()
    });
    slots.collect()
}

/// Returns whether `given` breaks nothing: no exclusive device twice, no counter and no capacity overdrawn.
fn sound(world: &World, given: &[Given]) -> bool {
    world.devices.slices.iter().enumerate().all(|(pool, slice)| {
        let of_pool = || given.iter().filter(move |(of, _, _)| *of == pool);
        let drawn: i128 = of_pool()
            .flat_map(|(_, number, _)| &slice.devices[*number].draws)
            .flat_map(|draw| draw.counters.values())
            .map(|quantity| quantity.nanos())
            .sum();
        let limit: i128 =
            slice.counters.iter().flat_map(|set| set.counters.values()).map(|q| q.nanos()).sum();
        let devices = slice.devices.iter().enumerate().all(|(number, device)| {
            let times = || of_pool().filter(|(_, of, _)| *of == number);
            let memory = device.capacity.values().next().map_or(Quantity::ZERO, |capacity| capacity.value);
            let taken: i64 = times().map(|(_, _, taken)| taken).sum();
            if device.shareable { taken <= memory.as_units_ceil() } else { times().count() <= 1 }
        });
        devices && drawn <= limit
    })
}

/// Returns whether `claim` can be served in `zone` beside `given`, trying everything.
fn possible(world: &World, claim: &ResourceClaim, given: &mut Vec<Given>, zone: &str) -> bool {
    fn fill(
        world: &World,
        claim: &ResourceClaim,
        left: &[(Option<i64>, bool)],
        given: &mut Vec<Given>,
        numa: &mut Vec<String>,
        zone: &str,
    ) -> bool {
        let Some(((asked, with_numa), rest)) = left.split_first() else { return true };
        for (pool, slice) in world.devices.slices.iter().enumerate() {
            let reached = match &slice.reach {
                Reach::Selected(terms) => terms.iter().any(|term| {
                    term.expressions
                        .iter()
                        .all(|expression| expression.values.iter().any(|value| *value == *zone))
                }),
                _ => true,
            };
            for (number, device) in slice.devices.iter().enumerate().filter(|_| reached) {
                let memory = device.capacity.values().next().map(|capacity| capacity.value.as_units_ceil());
                let taken = match (asked, memory) {
                    (Some(asked), Some(memory)) if *asked <= memory => *asked,
                    (Some(_), _) => continue,
                    (None, memory) => memory.unwrap_or(0),
                };
                let value = device.attributes.values().next().map(|value| format!("{value:?}"));
                if *with_numa && value.is_none() {
                    continue;
                }
                if !claim.constraints.is_empty() {
                    let Some(value) = &value else { continue };
                    if numa.first().is_some_and(|first| first != value) {
                        continue;
                    }
                }
                given.push((pool, number, taken));
                numa.push(value.unwrap_or_default());
                if sound(world, given) && fill(world, claim, rest, given, numa, zone) {
                    given.pop();
                    return true;
                }
                given.pop();
                numa.pop();
            }
        }
        false
    }
    fill(world, claim, &slots(claim), given, &mut Vec::new(), zone)
}

#[test]
fn a_claim_is_served_exactly_when_there_is_a_way() {
    let (mut served, mut refused) = (0, 0);
    for seed in 0..1_500 {
        let (world, claims) = small(seed);
        let mut run = world.start();
        run.zones = [vec!["a"], vec!["b"], vec!["a", "b"]][usize::try_from(seed % 3).unwrap_or(0)].clone();
        let mut given: Vec<Given> = Vec::new();
        for number in 0..claims {
            let name = format!("c{number}");
            let object =
                world.devices.claims.values().find(|claim| claim.key.name == *name).expect("it is there");
            let zones = run.zones.clone();
            let expected = zones.iter().any(|zone| possible(&world, object, &mut given, zone));
            let before = given.len();
            let got = run.launch(&[&name], number, &["small"]);
            assert_eq!(got.is_ok(), expected, "seed {seed}, claim {name}: {got:?}");
            if got.is_ok() {
                served += 1;
                let spot = Spot::Launch(number);
                for (slot, (_, _, device)) in run.allocator.taken(&run.ledger, &spot).enumerate() {
                    let at =
                        |slice: &std::sync::Arc<karpenter_model::ResourceSlice>| slice.pool == *device.pool;
                    let pool = world.devices.slices.iter().position(at).expect("a known pool");
                    let in_pool = &world.devices.slices[pool].devices;
                    let position =
                        in_pool.iter().position(|one| one.name == device.device.name).expect("known");
                    let memory = device.device.capacity.values().next();
                    let memory = memory.map_or(0, |capacity| capacity.value.as_units_ceil());
                    given.push((pool, position, slots(object)[slot].0.unwrap_or(memory)));
                }
                assert_eq!(given.len() - before, slots(object).len(), "seed {seed}: every slot is filled");
                let constraint = |constraint: &DeviceConstraint| {
                    matches!(constraint, DeviceConstraint::MatchAttribute { .. })
                };
                assert!(object.constraints.iter().all(constraint));
            } else {
                refused += 1;
            }
            assert!(sound(&world, &given), "seed {seed}: {given:?}");
        }
    }
    assert!(served > 500 && refused > 300, "both happen: {served} served, {refused} refused");
}

#[test]
fn the_order_of_slices_and_devices_changes_nothing_about_what_is_possible() {
    for seed in 0..200 {
        let (world, _) = small(seed);
        let served = |world: &World| world.start().launch(&["c0"], 0, &["small"]).is_ok();
        let expected = served(&world);
        let (mut turned, _) = small(seed);
        turned.devices.slices.reverse();
        for slice in &mut turned.devices.slices {
            std::sync::Arc::make_mut(slice).devices.reverse();
        }
        assert_eq!(served(&turned), expected, "seed {seed}");
    }
}

#[test]
fn a_search_ends_however_intricate_the_question() {
    let numa = |number: usize| with(device(&format!("d{number:02}")), "numa", &(number % 16).to_string());
    let mut pool = slice("pool", (0..31).map(numa).collect());
    pool.counters = vec![chip(1)];
    let mut many = claim("many", vec![request("a", 8), request("b", 8)]);
    many.constraints = vec![matching("numa")];
    let world = world().slice(pool).claim(many);
    assert!(world.start().launch(&["many"], 0, &["small"]).is_err());
}
