//! Draws a history: sizes small enough for a run of a second or two, and every part from a stream of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;

use super::{Company, Event, Fault, History, Kind, Odd, Policy, Pool, Reservation, What, Workload};
use crate::seed::{Seed, one_in};

/// Shortest and longest time in which things happen, in minutes.
const MINUTES: std::ops::Range<u64> = 5..15;

pub(super) fn history(number: u64) -> History {
    let seed = Seed(number);
    let trouble = Duration::from_mins(seed.stream("length").u64(MINUTES));
    let faults = faults(&mut seed.stream("faults"));
    let mut pools = pools(&mut seed.stream("pools"));
    let mut random = seed.stream("workloads");
    let mut workloads: Vec<Workload> =
        (0..random.usize(1..4)).map(|number| workload(&format!("w{number}"), &mut random)).collect();
    let mut random = seed.stream("second budgets");
    for workload in &mut workloads {
        workload.twice_guarded = one_in(&mut random, 8);
    }
    let mut random = seed.stream("apart");
    for workload in &mut workloads {
        workload.apart = one_in(&mut random, 6);
    }
    let mut events = Vec::new();
    life(&mut seed.stream("life"), trouble, &pools, &workloads, &mut events);
    volumes(&mut seed.stream("volumes"), &mut workloads, &mut events);
    let held = workloads.iter().any(|workload| workload.twice_guarded);
    let mut random = seed.stream("ends of machines");
    for pool in &mut pools {
        ends(pool, held, &mut random);
    }
    pools.extend(fixed(&mut seed.stream("fixed number"), trouble, &mut events));
    let repairs = repairs(&mut seed.stream("repairs"), trouble, &mut events);
    let reservations = reservations(&mut seed.stream("reservations"), trouble, &mut events);
    let daemons = daemons(&mut seed.stream("daemons"), &mut workloads);
    kinds(&mut seed.stream("kinds"), &mut workloads);
    differences(&mut seed.stream("differences"), trouble, &mut events);
    lost_nodes(&mut seed.stream("lost nodes"), trouble, &mut events);
    let mut random = seed.stream("two zones");
    for pool in &mut pools {
        pool.two_zones = one_in(&mut random, 5) && pool.replicas.is_none();
    }
    // A node that another client deletes never drains of pods that two budgets guard, under no controller.
    if held {
        events.retain(|event| !matches!(event.what, What::DeleteClaim(_) | What::DeleteNode(_)));
    }
    for fault in &faults {
        // Without reservations none can be found missing.
        if *fault != Fault::AwsReservations || !reservations.is_empty() {
            strikes(*fault, &mut seed.stream(&format!("{fault:?}")), trouble, &mut events);
        }
    }
    events.sort_by_key(|event| event.at);
    let replicas = if one_in(&mut seed.stream("replicas"), 4) { 2 } else { 1 };
    History {
        seed: number,
        faults,
        replicas,
        repairs,
        daemons,
        pools,
        reservations,
        workloads,
        events,
        trouble,
        defect: None,
    }
}

/// Each fault in some histories, none in a few, so that what only shows without the others shows too.
fn faults(random: &mut Rng) -> BTreeSet<Fault> {
    let likely = random.u32(1..8);
    Fault::ALL.into_iter().filter(|_| random.u32(..10) < likely).collect()
}

/// One pool always has room for everything, so that every pod can run in the end.
fn pools(random: &mut Rng) -> Vec<Pool> {
    let mut pool = |name: &str, weight, cores| Pool {
        name: name.to_owned(),
        weight,
        cores,
        budget: random.u32(1..4),
        consolidate_after: [0, 15, 30, 60][random.usize(..4)],
        policy: if random.u32(..4) == 0 { Policy::WhenEmpty } else { Policy::WhenEmptyOrUnderutilized },
        spot: random.bool(),
        replicas: None,
        expire_after: None,
        grace: None,
        two_zones: false,
    };
    let mut pools = vec![pool("roomy", 1, None), pool("tight", 10, Some(12)), pool("spare", 20, Some(24))];
    pools.truncate(random.usize(1..4));
    pools
}

/// Draws how machines of a pool end by themselves. Pods that are `held` would keep one that is too old for ever.
fn ends(pool: &mut Pool, held: bool, random: &mut Rng) {
    let (expires, waits) = (one_in(random, 4), one_in(random, 4));
    let (minutes, seconds) = (random.u32(4..12), random.u32(30..180));
    pool.expire_after = (expires && (waits || !held)).then_some(minutes);
    pool.grace = waits.then_some(seconds);
    if one_in(random, 4) && pool.policy == Policy::WhenEmptyOrUnderutilized {
        pool.policy = Policy::Balanced;
    }
}

/// Sometimes a pool with a fixed number of machines, which changes.
fn fixed(random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) -> Option<Pool> {
    let pool = Pool {
        name: "fixed".to_owned(),
        weight: 0,
        cores: None,
        budget: random.u32(1..3),
        consolidate_after: 30,
        policy: Policy::WhenEmpty,
        spot: random.bool(),
        replicas: Some(random.u32(1..4)),
        expire_after: None,
        grace: None,
        two_zones: false,
    };
    let others: Vec<Event> = (0..random.usize(..4))
        .map(|_| {
            let name = pool.name.clone();
            let what = if random.bool() {
                What::Resize(name, random.u32(..4))
            } else {
                What::DriftPool(name, random.u32(..))
            };
            Event { at: moment(random, trouble), what }
        })
        .collect();
    one_in(random, 4).then(|| {
        events.extend(others);
        pool
    })
}

/// Sometimes the one pod of a workload has a volume, which one node at a time can have.
fn volumes(random: &mut Rng, workloads: &mut [Workload], events: &mut [Event]) {
    for workload in workloads {
        workload.volume = one_in(random, 4);
        if !workload.volume {
            continue;
        }
        workload.replicas = 1;
        for event in &mut *events {
            match &mut event.what {
                What::Scale(name, replicas) if *name == workload.name => *replicas = 1.min(*replicas),
                _ => {}
            }
        }
    }
}

/// Sometimes machines that fail are replaced, and one does: more at once would be too many of a few to believe it.
fn repairs(random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) -> bool {
    let fails = Event { at: moment(random, trouble), what: What::Break(random.usize(..100)) };
    let repairs = one_in(random, 4);
    events.extend(repairs.then_some(fails));
    repairs
}

/// Sometimes capacity is reserved; more of it comes, and some is cancelled.
fn reservations(random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) -> Vec<Reservation> {
    let mut some: Vec<Reservation> = (0..random.usize(2..6))
        .map(|number| Reservation {
            id: format!("cr-{number:017x}"),
            instance_type: ["m5.large", "m5.xlarge", "m6a.2xlarge", "c5.xlarge"][random.usize(..4)],
            zone: random.usize(..3),
            instances: random.u32(1..4),
        })
        .collect();
    let mut others = Vec::new();
    for reservation in &some {
        if random.bool() {
            let what = What::CancelReservation(reservation.id.clone());
            others.push(Event { at: moment(random, trouble), what });
        }
    }
    for reservation in some.split_off(some.len() / 2) {
        others.push(Event { at: moment(random, trouble), what: What::Reserve(reservation) });
    }
    if !one_in(random, 3) {
        return Vec::new();
    }
    events.extend(others);
    some
}

/// Sometimes there are daemons, and pods that want them on their node or do not.
fn daemons(random: &mut Rng, workloads: &mut [Workload]) -> bool {
    let companies: Vec<Option<Company>> = workloads
        .iter()
        .map(|_| [None, Some(Company::Beside), Some(Company::Apart)][random.usize(..3)])
        .collect();
    let daemons = one_in(random, 3);
    for (workload, company) in workloads.iter_mut().zip(companies).filter(|_| daemons) {
        workload.company = company;
    }
    daemons
}

/// Some workloads are no deployments. The disruption controller counts no budgets for pods of Jobs.
fn kinds(random: &mut Rng, workloads: &mut [Workload]) {
    for workload in workloads.iter_mut().filter(|workload| !workload.volume) {
        let kind = [Kind::Deployment, Kind::Deployment, Kind::StatefulSet, Kind::Job][random.usize(..4)];
        let guarded = workload.guarded || workload.twice_guarded;
        if kind != Kind::Job || !guarded {
            workload.kind = kind;
        }
    }
}

/// Sometimes machines are not as foreseen.
fn differences(random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) {
    let some: Vec<Event> = (0..random.usize(1..4))
        .map(|_| {
            let odd = match random.u32(..6) {
                0 | 1 => Odd::Room(["cpu", "memory", "pods"][random.usize(..3)], random.i32(1..90)),
                2 | 3 => Odd::Taint,
                4 => Odd::Late(random.u64(10..90), random.u64(10..90)),
                _ => Odd::Flaps(random.u64(60..300), random.u64(5..50)),
            };
            // Early ones meet more machines.
            let at = moment(random, trouble / 2);
            Event { at, what: What::Differ(odd, random.usize(1..12)) }
        })
        .collect();
    if one_in(random, 3) {
        events.extend(some);
    }
}

/// Sometimes a Node is gone and its claim stays.
fn lost_nodes(random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) {
    let lost = |random: &mut Rng| What::LoseNode(random.usize(..100), random.bool());
    let some: Vec<Event> =
        (0..random.usize(1..3)).map(|_| Event { at: moment(random, trouble), what: lost(random) }).collect();
    if one_in(random, 4) {
        events.extend(some);
    }
}

fn workload(name: &str, random: &mut Rng) -> Workload {
    Workload {
        name: name.to_owned(),
        kind: Kind::Deployment,
        replicas: random.u32(1..6),
        millicores: [100, 400, 900, 1_500, 3_000][random.usize(..5)],
        guarded: random.u32(..3) == 0,
        twice_guarded: false,
        do_not_disrupt: random.u32(..5) == 0,
        spread: random.u32(..4) == 0,
        apart: false,
        volume: false,
        company: None,
    }
}

fn moment(random: &mut Rng, trouble: Duration) -> Duration {
    let longest = u64::try_from(trouble.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random.u64(30_000..longest.max(30_001)))
}

/// Draws what happens in a cluster and an account where nothing is wrong.
fn life(
    random: &mut Rng,
    trouble: Duration,
    pools: &[Pool],
    workloads: &[Workload],
    events: &mut Vec<Event>,
) {
    for number in 0..random.usize(2..12) {
        let some = random.choice(workloads).map_or_else(String::new, |workload| workload.name.clone());
        let what = match random.u32(..14) {
            0..=4 => What::Scale(some, random.u32(..8)),
            5 | 6 => What::Arrive(workload(&format!("late{number}"), random)),
            7 => What::Leave(some),
            8 | 9 => {
                let pool = random.choice(pools).map_or_else(String::new, |pool| pool.name.clone());
                What::DriftPool(pool, random.u32(..))
            }
            10 => What::Interrupt(random.usize(..100)),
            11 => What::EndInstance(random.usize(..100)),
            12 if random.bool() => What::StopInstance(random.usize(..100)),
            12 => What::DeleteNode(random.usize(..100)),
            _ => What::DeleteClaim(random.usize(..100)),
        };
        events.push(Event { at: moment(random, trouble), what });
    }
}

/// The events of a fault that has any; the others strike request by request.
fn strikes(fault: Fault, random: &mut Rng, trouble: Duration, events: &mut Vec<Event>) {
    for _ in 0..random.usize(1..5) {
        let at = moment(random, trouble);
        let what = match fault {
            Fault::AwsCapacity => {
                What::Dry(random.usize(..3), random.bool(), Duration::from_secs(random.u64(20..400)))
            }
            Fault::AwsDoomedBoots => What::Doom(random.u32(1..3)),
            Fault::Kubelets if random.bool() => What::NoJoin(Duration::from_secs(random.u64(10..120))),
            Fault::Kubelets => What::Silence(random.usize(..100)),
            Fault::WatchExpiries => What::Forget,
            Fault::Crashes => What::Crash(random.usize(..2), random.u32(..120)),
            Fault::Holds => What::Hold(random.usize(..2), Duration::from_secs(random.u64(5..60))),
            Fault::AwsNoImages => What::NoImages(Duration::from_secs(random.u64(60..400))),
            Fault::AwsReservations => What::NoReservations(Duration::from_secs(random.u64(60..400))),
            Fault::AwsSubnets => What::NoSubnets(random.usize(..3), Duration::from_secs(random.u64(60..400))),
            _ => return,
        };
        events.push(Event { at, what });
    }
}
