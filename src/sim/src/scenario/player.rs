//! Plays one scenario with one seed: the controller unmodified, the world of the simulation, and the timeline of the file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use karpenter_aws_sim::Options;
use karpenter_kube_sim::kubelet;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::act::{act, apply};
use super::follow::{Met, Stage, follow};
use super::format::FaultName;
use super::judge::{Failure, judge};
use super::observe::Observer;
use super::obstacles;
use super::one_plan;
use super::pace;
use super::read::{Action, Scenario};
use super::report::Played;
use super::value::Span;
use crate::check::Violation;
use crate::defect::Defect;
use crate::history::{Fault, History};
use crate::process;
use crate::run::alone;
use crate::trace::Trace;
use crate::world::{World, WorldOptions};

/// Shortest and longest time between two looks at the world.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));

/// Plays the scenario. With `print`, every request and event of a watch is written to standard output.
pub fn play(scenario: &Scenario, seed: u64, print: bool) -> Result<Played> {
    let history = History::quiet(seed, scenario.file.duration.0);
    play_in(history, scenario, print)
}

/// Plays it with a defect planted, and returns what is not as it is to be.
pub fn failures_with(scenario: &Scenario, defect: Defect) -> Result<Vec<Failure>> {
    let history = History::quiet(scenario.file.seed, scenario.file.duration.0);
    Ok(play_in(history.with_defect(defect), scenario, false)?.failures)
}

fn play_in(history: History, scenario: &Scenario, print: bool) -> Result<Played> {
    let scenario = scenario.clone();
    alone(history.seed, move || async move { played(Arc::new(history), &scenario, print).await })
}

async fn played(history: Arc<History>, scenario: &Scenario, print: bool) -> Result<Played> {
    let trace = Trace::new(print);
    let world = Arc::new(World::on(&history, world_options(scenario), trace.clone()).await?);
    let mut stage = Simulated { world: Arc::clone(&world), observer: Observer::new(Arc::clone(&world)) };
    apply(&world, &scenario.manifests).await?;
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    let began = Instant::now();
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.clone()));
    let failed = follow(scenario, began, look(scenario), &mut stage).await;
    let mut recording = stage.observer.finish();
    stop.cancel();
    if scenario.expectations.iter().any(|one| one.what.is_of_one_plan()) {
        recording.one_plan = Some(one_plan::price(&world).await?);
    }
    let broken = folded(&world.truth.violations());
    let could_happen = failed.is_none();
    let mut failures: Vec<Failure> = failed.into_iter().chain(broken).collect();
    // An action that could not happen makes the expectations mean nothing. A rule that breaks does not.
    if could_happen {
        failures.extend(judge(&scenario.expectations, &recording));
    }
    let obstacles = obstacles::found(&world);
    Ok(Played { recording, failures, obstacles, hash: Some(trace.hash()) })
}

/// A failure for each rule that was broken, with the first break and how many there were: what is wrong once is mostly wrong
/// every time.
fn folded(violations: &[Violation]) -> Vec<Failure> {
    let mut by_rule: Vec<(&Violation, usize, u64)> = Vec::new();
    for one in violations {
        match by_rule.iter_mut().find(|(first, ..)| first.rule == one.rule) {
            Some((_, count, last)) => (*count, *last) = (*count + 1, one.seconds),
            None => by_rule.push((one, 1, one.seconds)),
        }
    }
    let at = |seconds| Span(Duration::from_secs(seconds));
    let said = |(first, count, last): (&Violation, usize, u64)| {
        let more = match count {
            1 => String::new(),
            count => format!("; and {} times more, last at {}", count - 1, at(last)),
        };
        Failure {
            line: None,
            subject: format!("rule `{}`", first.rule),
            expected: "never to be broken".to_owned(),
            actual: format!("at {}: {}{more}", at(first.seconds), first.what),
            because: None,
        }
    };
    by_rule.into_iter().map(said).collect()
}

/// The world of the simulation, as scenarios are played in it.
struct Simulated {
    world: Arc<World>,
    observer: Observer,
}

impl Stage for Simulated {
    async fn look(&mut self) -> Result<()> {
        self.observer.look();
        Ok(())
    }

    async fn act(&mut self, action: &Action) -> Result<Met> {
        self.world.trace.note("world", &format!("{action:?}"), "");
        act(&self.world, &mut self.observer, action).await
    }

    async fn allow(&mut self, fault: FaultName, possible: bool) -> Result<()> {
        self.world.weather.allow(fault.into(), possible);
        Ok(())
    }
}

/// Between two looks at the world: a second for every twelve minutes, because a long day has time.
fn look(scenario: &Scenario) -> Duration {
    (scenario.file.duration.0 / 720).clamp(LOOK.0, LOOK.1)
}

fn world_options(scenario: &Scenario) -> WorldOptions {
    let file = &scenario.file;
    let cluster = scenario.cluster();
    let faults: BTreeSet<Fault> = file.faults.iter().map(|span| Fault::from(span.value.fault)).collect();
    let stale = faults.contains(&Fault::from(FaultName::AwsStale));
    let mut settings = file.settings.clone();
    // There is no other replica, and keeping the Lease is much of what a quiet controller does.
    settings.entry("disable-leader-election".to_owned()).or_insert_with(|| "true".to_owned());
    WorldOptions {
        account: Options {
            cluster: cluster.clone(),
            region: scenario.region(),
            kubernetes_version: "1.35".to_owned(),
            zones: 3,
            instance_types: scenario.instance_types(),
            boot_delay: pace::PENDING,
            invisible_for: Duration::from_secs(if stale { 8 } else { 0 }),
            ..Options::default()
        },
        cluster,
        start: file.start,
        machines: kubelet::Options {
            boot: pace::BOOT,
            ready: pace::READY,
            spread: pace::SPREAD,
            // Heartbeats are most of what there is to compute.
            heartbeat: Duration::from_secs(40),
            poll: Duration::from_secs(10),
            ..kubelet::Options::default()
        },
        look: look(scenario),
        objects: Vec::new(),
        settings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_of_one_rule_are_one_failure() {
        let broken = |rule, seconds, what: &str| Violation { rule, seconds, what: what.to_owned() };
        let all = [
            broken("a", 60, "first"),
            broken("b", 61, "other"),
            broken("a", 62, "second"),
            broken("a", 120, "third"),
        ];
        let said: Vec<String> =
            folded(&all).iter().map(|one| format!("{}: {}", one.subject, one.actual)).collect();
        assert_eq!(
            said,
            ["rule `a`: at 1m: first; and 2 times more, last at 2m", "rule `b`: at 1m1s: other"]
        );
        assert!(folded(&[]).is_empty());
    }
}
