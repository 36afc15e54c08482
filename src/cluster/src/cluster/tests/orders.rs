//! The answer does not depend on the order in which events arrive, nor on how often, nor on when it is read.

use proptest::prelude::*;

use super::*;

/// One change of a small world, before it has a version.
#[derive(Debug, Clone)]
enum Step {
    Pod { which: u8, on: Option<u8>, ended: bool },
    PodGone(u8),
    Node { which: u8, machine: u8, initialized: bool },
    NodeGone(u8),
    Claim { which: u8, launched: bool, deleting: bool },
    ClaimGone(u8),
    Pool { weight: i32 },
    PoolGone,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, proptest::option::of(0..3_u8), any::<bool>()).prop_map(|(which, on, ended)| Step::Pod {
            which,
            on,
            ended
        }),
        (0..4_u8).prop_map(Step::PodGone),
        (0..3_u8, 0..3_u8, any::<bool>()).prop_map(|(which, machine, initialized)| Step::Node {
            which,
            machine,
            initialized
        }),
        (0..3_u8).prop_map(Step::NodeGone),
        (0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(which, launched, deleting)| Step::Claim {
            which,
            launched,
            deleting
        }),
        (0..3_u8).prop_map(Step::ClaimGone),
        (0..3_i32).prop_map(|weight| Step::Pool { weight }),
        Just(Step::PoolGone),
    ]
}

fn event(step: &Step, version: u64) -> Event {
    let version = Version(version);
    match step {
        Step::Pod { which, on, ended } => {
            let node = on.map(|node| format!("n{node}"));
            let mut pod = pod(&format!("p{which}"), node.as_deref());
            if *ended {
                pod.phase = PodPhase::Failed;
            }
            Event::pod(version, pod)
        }
        Step::PodGone(which) => Event::gone::<Pod>(PodKey::new("ns", &format!("p{which}")), version),
        Step::Node { which, machine, initialized } => {
            Event::node(version, node(&format!("n{which}"), &format!("c{machine}"), *initialized))
        }
        Step::NodeGone(which) => Event::gone::<NodeObject>(format!("n{which}").into(), version),
        Step::Claim { which, launched, deleting } => {
            let name = format!("c{which}");
            let base = if *launched { claim(&name) } else { unlaunched(&name) };
            Event::claim(version, Claim { deletion: deleting.then(|| at(1)), ..base })
        }
        Step::ClaimGone(which) => Event::gone::<Claim>(format!("c{which}").into(), version),
        Step::Pool { weight } => Event::pool(version, Pool { weight: *weight, ..pool() }),
        Step::PoolGone => Event::gone::<Pool>("web".into(), version),
    }
}

/// Everything a reader can see, except how often it changed.
fn seen(cluster: &mut Cluster) -> impl PartialEq + std::fmt::Debug + use<> {
    let snapshot = cluster.freeze(at(0));
    let web = "web".into();
    (
        snapshot.nodes,
        snapshot.pending,
        snapshot.pools,
        cluster.usage(&web, []),
        cluster.derived.members.keys().cloned().collect::<Vec<_>>(),
        cluster.derived.bound.clone(),
    )
}

/// Some hundred cases, more with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(300), failure_persistence: None, ..default }
}

/// Usage added up from scratch.
fn usage_of(snapshot: &Snapshot) -> Resources {
    let web: PoolName = "web".into();
    let counted = snapshot.nodes.iter().filter(|node| node.is_managed() && !node.is_leaving());
    let mut usage = Resources::new();
    for node in counted.filter(|node| node.pool().as_ref() == Some(&web)) {
        usage.add(&node.effective_capacity());
    }
    usage
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_order_and_repetition_gives_the_same_answer(
        steps in proptest::collection::vec(step(), 1..30),
        picks in proptest::collection::vec((any::<u32>(), any::<bool>()), 60),
    ) {
        let events: Vec<Event> = (1..).zip(&steps).map(|(version, step)| event(step, version)).collect();
        let mut ordered = cluster();
        tell(&mut ordered, events.iter().cloned());

        // Every event at least once, some twice, in an arbitrary order, with looks in between.
        let twice = events.iter().zip(&picks).filter(|(_, (_, twice))| *twice).map(|(event, _)| event);
        let mut shuffled: Vec<(u32, &Event)> =
            picks.iter().map(|(order, _)| *order).zip(events.iter().chain(twice)).collect();
        shuffled.sort_by_key(|(order, _)| *order);
        let mut other = cluster();
        for (order, event) in shuffled {
            other.apply(event.clone());
            if order % 3 == 0 {
                other.freeze(at(0));
            }
        }
        prop_assert_eq!(seen(&mut other), seen(&mut ordered));
    }

    #[test]
    fn the_revision_is_another_one_exactly_when_something_else_is_shown(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut cluster = cluster();
        let mut last = cluster.freeze(at(0));
        let contents = |snapshot: &Snapshot| format!("{:?}", Snapshot { revision: 0, ..snapshot.clone() });
        for (version, step) in (1..).zip(&steps) {
            cluster.apply(event(step, version));
            let next = cluster.freeze(at(0));
            prop_assert_eq!(next.revision != last.revision, contents(&next) != contents(&last), "{:?}", step);
            prop_assert!(next.revision >= last.revision);
            last = next;
        }
    }

    #[test]
    fn usage_is_always_what_the_machines_add_up_to(
        steps in proptest::collection::vec(step(), 1..30),
        marks in proptest::collection::vec(0..3_u8, 0..3),
    ) {
        let mut cluster = cluster();
        for (version, step) in (1..).zip(&steps) {
            cluster.apply(event(step, version));
            let marked: Vec<ClaimName> = marks.iter().map(|which| format!("c{which}").into()).collect();
            if version % 3 == 0 {
                cluster.mark_for_deletion(&marked);
            } else if version % 3 == 1 {
                cluster.unmark(&marked);
            }
            let (usage, _) = cluster.usage(&"web".into(), []);
            prop_assert_eq!(&usage, &usage_of(&cluster.freeze(at(0))));
        }
    }

    #[test]
    fn a_list_of_what_exists_repairs_any_lost_events(
        steps in proptest::collection::vec(step(), 1..30),
        lost in proptest::collection::vec(any::<bool>(), 30),
    ) {
        let events: Vec<Event> = (1..).zip(&steps).map(|(version, step)| event(step, version)).collect();
        let mut whole = cluster();
        tell(&mut whole, events.iter().cloned());

        let mut partial = cluster();
        let kept = events.iter().zip(&lost).filter(|(_, lost)| !**lost).map(|(event, _)| event.clone());
        tell(&mut partial, kept);
        let began = partial.begin_list();
        let version = Version(1000);
        let claims: Vec<Claim> = whole.facts.claims.models().map(|claim| claim.as_ref().clone()).collect();
        let nodes: Vec<NodeObject> = whole.facts.nodes.models().map(|node| node.as_ref().clone()).collect();
        let pods: Vec<Pod> = whole.facts.pods.models().map(|pod| pod.as_ref().clone()).collect();
        let pools: Vec<Pool> = whole.facts.pools.models().map(|pool| pool.as_ref().clone()).collect();
        let listed_claims = claims.iter().map(|claim| claim.name.clone()).collect();
        let listed_nodes = nodes.iter().map(|node| node.name.clone()).collect();
        let listed_pods = pods.iter().map(|pod| pod.key.clone()).collect();
        let listed_pools = pools.iter().map(|pool| pool.name.clone()).collect();
        tell(&mut partial, claims.into_iter().map(|claim| Event::claim(version, claim)));
        tell(&mut partial, nodes.into_iter().map(|node| Event::node(version, node)));
        tell(&mut partial, pods.into_iter().map(|pod| Event::pod(version, pod)));
        tell(&mut partial, pools.into_iter().map(|pool| Event::pool(version, pool)));
        partial.finish_list::<Claim>(&listed_claims, began);
        partial.finish_list::<NodeObject>(&listed_nodes, began);
        partial.finish_list::<Pod>(&listed_pods, began);
        partial.finish_list::<Pool>(&listed_pools, began);
        prop_assert_eq!(seen(&mut partial), seen(&mut whole));
    }
}
