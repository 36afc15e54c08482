//! Small worlds with a best plan that is known, and random ones in which nothing may get lost.

use fastrand::Rng;

use super::*;
use crate::index::Ix;
use crate::place::topology::Topology;

fn unit(amounts: [i64; 2], turn: Turn) -> Unit {
    Unit { kind: 0, amounts: amounts.to_vec(), profiles: Vec::new(), turn }
}

fn machine(room: [i64; 2], price: i64) -> Machine {
    Machine { room: room.to_vec(), price, accepts: 1 }
}

/// The price and the units of each machine after all moves.
fn filled(units: &[Unit], machines: &[Machine], placed: &[Vec<usize>]) -> (i64, Vec<Vec<usize>>) {
    let (units, machines) = (units.to_vec().into(), machines.to_vec().into());
    let topology = Topology::default();
    let mut loads = Loads::new(&units, &machines, &topology, placed.iter().map(|units| numbered(units)))
        .expect("every machine is for sale");
    let before = loads.price();
    fill(&mut loads);
    assert!(loads.price() <= before, "{} is more than {before}", loads.price());
    (loads.price(), loads.placed().map(|units| units.into_iter().map(Ix::get).collect()).collect())
}

fn numbered(units: &[usize]) -> Vec<UnitIx> {
    units.iter().copied().map(UnitIx::new).collect()
}

#[test]
fn a_machine_whose_units_have_room_elsewhere_is_needless() {
    let units = [unit([6, 1], Turn::Then), unit([2, 1], Turn::Then), unit([2, 1], Turn::Then)];
    let machines = [machine([4, 4], 40), machine([10, 10], 100)];
    assert_eq!(filled(&units, &machines, &[vec![0], vec![1, 2]]), (100, vec![vec![0, 1, 2]]));
}

#[test]
fn a_machine_that_loses_one_unit_may_be_a_cheaper_one() {
    // The first has room for one of the units of the second, which is enough for the cheaper machine.
    let units = [unit([8, 1], Turn::Then), unit([4, 1], Turn::Last), unit([2, 1], Turn::Then)];
    let machines = [machine([4, 4], 40), machine([10, 10], 100)];
    assert_eq!(filled(&units, &machines, &[vec![0], vec![1, 2]]), (140, vec![vec![0, 2], vec![1]]));
}

#[test]
fn a_machine_grows_where_that_is_cheaper_than_another_one() {
    let units = [unit([3, 1], Turn::Then), unit([2, 1], Turn::Then)];
    let machines = [machine([4, 4], 50), machine([6, 6], 70)];
    assert_eq!(filled(&units, &machines, &[vec![0], vec![1]]), (70, vec![vec![0, 1]]));
}

#[test]
fn others_make_room_on_a_machine_that_is_filled() {
    // Forty small units of kind 0 fill a machine for both kinds, forty are on one for their kind alone, with room for
    // twenty more. The large unit is of kind 1.
    let large = Unit { kind: 1, ..unit([10, 10], Turn::Then) };
    let units: Vec<Unit> = std::iter::once(large).chain((0..80).map(|_| unit([1, 1], Turn::Then))).collect();
    let for_both = |room, price| Machine { accepts: 0b11, ..machine(room, price) };
    let machines = [for_both([10, 10], 50), for_both([40, 40], 200), machine([60, 60], 200)];
    let placed = [vec![0], (1..41).collect(), (41..81).collect()];
    let (price, placed) = filled(&units, &machines, &placed);
    assert_eq!(price, 400, "the machine of the large unit is needless");
    let with = placed.iter().find(|units| units.contains(&0)).expect("it is somewhere");
    assert_eq!(with.len(), 31, "thirty stay with it, ten have moved on");
}

#[test]
fn no_unit_is_lost_and_no_machine_too_small_or_dearer_than_before() {
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let turns = Turn::ALL;
        let units: Vec<Unit> = (0..rng.usize(2..90))
            .map(|_| Unit {
                kind: rng.usize(0..3),
                ..unit([rng.i64(1..12), rng.i64(0..12)], turns[rng.usize(0..5)])
            })
            .collect();
        let mut machines: Vec<Machine> = (0..12)
            .map(|_| {
                let room = [rng.i64(12..60), rng.i64(12..60)];
                Machine {
                    price: room[0] * 3 + room[1] + rng.i64(0..40),
                    accepts: rng.u64(1..8),
                    ..machine(room, 0)
                }
            })
            .collect();
        machines.push(Machine { accepts: 7, ..machine([600, 600], 900) });
        machines.sort_by_key(|machine| machine.price);
        let mut placed: Vec<Vec<usize>> = vec![Vec::new(); 12];
        (0..units.len()).for_each(|unit| placed[rng.usize(0..12)].push(unit));
        placed.retain(|units| !units.is_empty());
        let (price, placed) = filled(&units, &machines, &placed);
        let mut all: Vec<usize> = placed.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..units.len()).collect::<Vec<_>>(), "seed {seed}");
        let least = |members: &Vec<usize>| {
            let of = |name: usize| members.iter().map(|unit| units[*unit].amounts[name]).sum::<i64>();
            let kinds = members.iter().fold(0, |kinds, unit| kinds | 1 << units[*unit].kind);
            let holds = |machine: &&Machine| {
                machine.accepts & kinds == kinds && of(0) <= machine.room[0] && of(1) <= machine.room[1]
            };
            machines.iter().find(holds).expect("a machine holds them").price
        };
        assert_eq!(
            placed.iter().map(least).sum::<i64>(),
            price,
            "seed {seed}: the price is that of the machines"
        );
    }
}
