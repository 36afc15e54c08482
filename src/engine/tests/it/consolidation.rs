//! Consolidation from outside: golden scenarios with their events, and what holds for every world.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{About, Decision, Memory, Standing, decide};
use karpenter_model::settings::ReservationPolicy;
use karpenter_model::{
    BinId, Command, Launch, Method, NodeId, Plan, PodKey, Price, Settings, Snapshot, Target,
};
use karpenter_testkit::{render, scenario, small, snapshot};

/// Worlds of each kind, unless the environment asks for more.
const SEEDS: u64 = 150;
/// Found in the long mode: daemons that rules about other pods count go with their machine, but after its other pods.
const DAEMONS_THAT_COUNT: [u64; 2] = [650, 975];

/// A world of a few half-empty machines whose pods have every kind of rule.
fn crowd(seed: u64) -> Snapshot {
    snapshot(&crowd_text(seed))
}

/// The text of [`crowd`].
fn crowd_text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed ^ 0xc0de);
    let mut text = String::from("set static=on\n");
    if rng.u8(0..3) == 0 {
        text.push_str("set spot-to-spot=on\n");
    }
    if rng.u8(0..3) == 0 {
        text.push_str("set many-to-many=on\n");
    }
    for (index, cpu) in [1, 2, 4, 8, 16].into_iter().enumerate() {
        let price = 45 * cpu + rng.u32(0..15);
        let gone = ["", "", " gone=a/spot", " gone=b/od"][rng.usize(0..4)];
        let overlaid = ["", " overlaid=price", "", " overlaid=capacity", ""][index];
        let _ = writeln!(
            text,
            "type t{index} cpu={cpu} mem={}Gi pods={} zones=a,b od=0.{price:03} spot=0.{:03}{gone}{overlaid}",
            cpu * 2,
            cpu * 4 + 2,
            price / 3
        );
    }
    for pool in 0..3 {
        let policy = ["", "", " policy=balanced", " consolidate=10m"][rng.usize(0..4)];
        let more =
            ["", "", " limit=cpu=12", " require=type:Exists/min=2", " taint=x:NoSchedule", " replicas=2"];
        let _ = writeln!(text, "pool p{pool} types=*{policy}{} budget=100%", more[rng.usize(0..more.len())]);
    }
    text.push_str("daemon logs cpu=100m mem=64Mi tolerate=*\n");
    for node in 0..rng.usize(3..9) {
        let zone = ["a", "b"][rng.usize(0..2)];
        let capacity = ["spot", "on-demand"][rng.usize(0..2)];
        let more = ["", "", "", " quiet=5m", " state=registered", " leaving", " taint=x:NoSchedule"];
        let more = more[rng.usize(0..more.len())];
        let (pool, kind) = (rng.usize(0..3), rng.usize(1..5));
        let _ =
            writeln!(text, "node n{node} pool=p{pool} type=t{kind} zone={zone} capacity={capacity}{more}");
        for pod in 0..rng.usize(0..4) {
            let cpu = ["100m", "500m", "900m", "1500m"][rng.usize(0..4)];
            let rule = [
                "",
                "",
                "",
                " spread=zone/1",
                " spread=host/1",
                " anti-affinity=host",
                " anti-affinity=zone/app=z",
                " affinity=zone",
                " select=zone=a",
                " port=80",
                " owner=daemonset",
            ];
            let rule = rule[rng.usize(0..rule.len())];
            let app = ["x", "y", "z"][rng.usize(0..3)];
            let _ = writeln!(
                text,
                "pod n{node}-{pod} cpu={cpu} mem=128Mi label=app={app}{rule} tolerate=x on=n{node}"
            );
        }
    }
    for pod in 0..rng.usize(0..3) {
        let _ = writeln!(text, "pod w{pod} cpu=500m mem=128Mi label=app=x spread=host/1");
    }
    text
}

/// Budgets stop nothing.
fn open_budgets(snapshot: &mut Snapshot) {
    for pool in &mut snapshot.pools {
        Arc::make_mut(pool).disruption.budgets.clear();
    }
}

/// Returns the decision when nothing is under way.
fn decided(snapshot: &Snapshot, memory: &mut Memory) -> Arc<Decision> {
    decide(snapshot, memory, &Standing { proposed: &[], running: &BTreeSet::new() })
}

/// Commands, why the other machines stay, events about consolidation, and what each method did.
fn rendered(decision: &Decision) -> String {
    let mut text = render::disruption(&decision.commands, &decision.nodes);
    for note in decision.notes.iter().filter(|note| note.kind.as_str().contains("onsolidat")) {
        let about = match &note.about {
            About::Machine(node) => format!("node {node}"),
            About::Pool(pool) => format!("pool {pool}"),
        };
        let _ = writeln!(text, "event {} on {about}: {}", note.kind.as_str(), note.message);
    }
    for (method, stats) in &decision.methods {
        let name = method.consolidation_type();
        if stats.eligible > 0 && matches!(method, Method::MultiNode | Method::SingleNode | Method::ManyToMany)
        {
            let more = if stats.unfinished { ", more next time" } else { "" };
            let _ = writeln!(text, "{name}: {} eligible{more}", stats.eligible);
        }
    }
    text
}

/// The world in which the machines of `commands` are being removed, and the plan that houses their pods.
fn afterwards(snapshot: &Snapshot, commands: &[Command]) -> (Snapshot, Plan) {
    let gone: BTreeSet<&NodeId> = commands.iter().flat_map(Command::nodes).collect();
    let mut world = snapshot.clone();
    for node in world.nodes.iter_mut().filter(|node| gone.contains(&node.id)) {
        Arc::make_mut(node).marked_for_deletion = true;
    }
    world.settings = Arc::new(Settings {
        reservation_policy: ReservationPolicy::Fallback,
        ..(*snapshot.settings).clone()
    });
    let launches = commands.iter().flat_map(|command| &command.replacements).zip(1..);
    let plan = Plan {
        revision: world.revision,
        launches: launches.map(|(launch, bin)| Launch { bin: BinId(bin), ..launch.clone() }).collect(),
        nominations: commands.iter().flat_map(|command| command.nominations.clone()).collect(),
        ..Plan::default()
    };
    (world, plan)
}

/// Returns the faults of the commands of `decision`: pods without a place or in a wrong one, a more expensive
/// replacement, a machine in two commands, pods sent to a machine that goes.
fn faults(snapshot: &Snapshot, decision: &Decision) -> Vec<String> {
    let mut faults = Vec::new();
    let whole = Plan { revision: snapshot.revision, commands: decision.commands.clone(), ..Plan::default() };
    faults.extend(audit(snapshot, &whole).iter().map(|finding| format!("{finding:?}")));
    let (world, plan) = afterwards(snapshot, &decision.commands);
    // Pods that wait, or leave anyway, are somewhere else by then, where the audit does not see them.
    let settled = world.pending.is_empty() && !snapshot.nodes.iter().any(|node| node.is_leaving());
    let about_others = |rule| matches!(rule, Rule::Spread | Rule::PodAffinity | Rule::AntiAffinity);
    let found = audit(&world, &plan);
    let found = found.iter().filter(|finding| settled || !about_others(finding.rule));
    faults.extend(found.map(|finding| format!("{finding:?}")));
    let housed: BTreeSet<&PodKey> = plan
        .nominations
        .iter()
        .map(|nomination| &nomination.pod)
        .chain(plan.launches.iter().flat_map(|launch| &launch.pods))
        .collect();
    // Pods whose eviction costs nothing do not keep an empty machine.
    let consolidated = decision.commands.iter().filter(|command| command.method != Method::Emptiness);
    let candidates = consolidated.flat_map(Command::nodes);
    for node in candidates.filter_map(|id| snapshot.nodes.iter().find(|node| node.id == *id)) {
        let homeless = node.pods.iter().filter(|pod| snapshot.currently_reschedulable(pod));
        let homeless = homeless.filter(|pod| !housed.contains(&pod.key));
        faults.extend(homeless.map(|pod| format!("{} has no place", pod.key)));
    }
    let mut gone = BTreeSet::new();
    for command in &decision.commands {
        faults.extend(
            command.nodes().filter(|node| !gone.insert(*node)).map(|node| format!("{node} goes twice")),
        );
        let prices = |launch: &Launch| worst(snapshot, launch);
        let after: Price = command.replacements.iter().map(prices).sum();
        let before: Price = command.candidates.iter().map(|candidate| candidate.price).sum();
        if !command.replacements.is_empty() && after >= before {
            faults.push(format!("{after} for {before}: {command:?}"));
        }
    }
    let target = |nomination: &karpenter_model::Nomination| match &nomination.target {
        Target::Node(name) => {
            world.nodes.iter().any(|node| node.name.as_ref() == Some(name) && !node.is_leaving())
        }
        Target::Claim(_) => false,
    };
    faults
        .extend(plan.nominations.iter().filter(|one| !target(one)).map(|one| format!("{one:?} is no place")));
    faults
}

/// The most a launch may end up costing.
fn worst(snapshot: &Snapshot, launch: &Launch) -> Price {
    let types = &snapshot.instance_types[&launch.pool];
    let offered = types.iter().filter(|known| launch.instance_types.contains(&known.name));
    let worst =
        offered.filter_map(|known| known.worst_launch_price(&launch.requirements, &snapshot.registry));
    worst.max().unwrap_or(Price::MAX)
}

#[test]
fn every_scenario_gives_its_commands_and_events() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/consolidation");
    scenario::check_all(&directory, |fixture| {
        let snapshot = snapshot(fixture);
        let decision = decided(&snapshot, &mut Memory::default());
        let faults = faults(&snapshot, &decision);
        assert_eq!(faults, [""; 0], "{fixture}{}", rendered(&decision));
        rendered(&decision)
    });
}

#[test]
fn commands_house_every_pod_and_never_cost_more() {
    let mut commands = 0;
    for seed in (0..karpenter_testkit::seeds(SEEDS)).chain(DAEMONS_THAT_COUNT) {
        for mut snapshot in [small::world(seed), small::social(seed), small::attached(seed), crowd(seed)] {
            open_budgets(&mut snapshot);
            if seed % 2 == 0 {
                snapshot.pending.clear();
            }
            let decision = decided(&snapshot, &mut Memory::default());
            let faults = faults(&snapshot, &decision);
            assert_eq!(faults, [""; 0], "seed {seed}: {}\n{}", rendered(&decision), crowd_text(seed));
            commands += decision.commands.len();
        }
    }
    assert!(commands > 100, "only {commands} commands");
}
