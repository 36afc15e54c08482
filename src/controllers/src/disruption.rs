//! `disruption`: removes machines nobody needs any more (spec core-disruption 3.6, 3.14, 3.15).
//!
//! Every ten seconds a plan is made. A machine goes only when a second plan, at least fifteen seconds later, still
//! says so, and a third after the taint has kept new pods away. Taint and mark without a deletion, left by a crash
//! or by a change of mind, are taken back.

mod remove;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_lifecycle::protection;
use karpenter_model::{Command, Method, Plan, RemovalTarget, Snapshot};
use karpenter_telemetry::observe::{self, Outcome};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::provisioner::audited;
use crate::report::publish_event;
use crate::{Context, Error, instance_types};

pub(crate) const NAME: &str = "disruption";

/// How often to look.
const POLL: Duration = Duration::from_secs(10);
/// How long a removal must have been planned before it is carried out.
const SECOND_LOOK: Duration = Duration::from_secs(15);

/// Runs until `shutdown`.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    let mut planned = Planned::default();
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Failures are logged and counted by the wrapper, and the next look starts from what is true then.
        let _reported =
            observe::pass(&context.metrics, NAME, "", |outcome| *outcome, pass(&context, &mut planned)).await;
    }
}

/// Since when each removal has been planned without interruption.
#[derive(Debug, Default)]
struct Planned(BTreeMap<RemovalTarget, Timestamp>);

impl Planned {
    /// Takes note of a plan; returns the removals planned for long enough.
    fn due(&mut self, targets: Vec<RemovalTarget>, now: Timestamp) -> Vec<RemovalTarget> {
        let before = std::mem::take(&mut self.0);
        let since = |target: &RemovalTarget| before.get(target).copied().unwrap_or(now);
        self.0 = targets.iter().map(|target| (target.clone(), since(target))).collect();
        let waited = |target: &RemovalTarget| now.duration_since(self.0[target]);
        targets
            .into_iter()
            .filter(|target| Duration::try_from(waited(target)).is_ok_and(|waited| waited >= SECOND_LOOK))
            .collect()
    }
}

async fn pass(context: &Context, planned: &mut Planned) -> Result<Outcome, Error> {
    instance_types::refresh(context, NAME).await;
    let now = context.now();
    let Some(snapshot) = context.view.snapshot(now) else { return Ok(Outcome::Waiting) };
    tell_protected(context, &snapshot);
    let commands = emptiness(&snapshot);
    let targets: Vec<RemovalTarget> =
        commands.iter().flat_map(|command| &command.candidates).map(|gone| gone.target.clone()).collect();
    context.metrics.disruption.eligible_nodes.set_count(["empty"], targets.len());
    let due = planned.due(targets, now);
    let cleaned = remove::take_back_leftovers(context, &due).await;
    if due.is_empty() {
        return cleaned.map(|cleaned| if cleaned { Outcome::Applied } else { Outcome::Skipped });
    }
    let kept = |mut command: Command| {
        command.candidates.retain(|gone| due.contains(&gone.target));
        command
    };
    let commands = commands.into_iter().map(kept).collect();
    let plan = Plan { revision: snapshot.revision, commands, ..Plan::default() };
    if !audited(context, &snapshot, &plan) {
        return Ok(Outcome::Skipped);
    }
    remove::remove(context, &due).await.and(cleaned).map(|_cleaned| Outcome::Applied)
}

/// What emptiness proposes now.
fn emptiness(snapshot: &Snapshot) -> Vec<Command> {
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let commands = decide(snapshot, &mut Memory::default(), &standing).commands;
    commands.into_iter().filter(|command| command.method == Method::Emptiness).collect()
}

/// Tells pods on our nodes what their do-not-disrupt annotation means.
fn tell_protected(context: &Context, snapshot: &Snapshot) {
    let ours = snapshot.nodes.iter().filter(|node| node.is_managed());
    let told = ours.flat_map(|node| &node.pods).filter_map(|pod| protection::event(pod, snapshot.now));
    for event in told {
        publish_event(context, &event);
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::RemovalTarget;

    use super::{Planned, Timestamp};

    fn target(name: &str) -> RemovalTarget {
        RemovalTarget { id: name.into(), claim: name.into(), node: name.into() }
    }

    #[test]
    fn a_removal_is_due_only_when_planned_without_interruption_for_fifteen_seconds() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut planned = Planned::default();
        assert!(planned.due(vec![target("a")], at(0)).is_empty());
        assert!(planned.due(vec![target("a"), target("b")], at(10)).is_empty());
        assert_eq!(planned.due(vec![target("a"), target("b")], at(20)), [target("a")]);
        assert_eq!(planned.due(vec![target("b")], at(25)), [target("b")]);
        assert!(planned.due(vec![target("a")], at(30)).is_empty(), "interrupted at 25");
    }
}
