//! Plays one scenario with one seed: the controller unmodified, the world of the simulation, and the timeline of the file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use karpenter_aws_sim::Options;
use karpenter_kube_sim::apiserver::object;
use karpenter_kube_sim::kubelet;
use karpenter_model::names::tag;
use karpenter_plan::region_of;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::act::{act, apply};
use super::format::FaultName;
use super::judge::{Failure, judge};
use super::read::{Action, Scenario};
use super::record::{Recorder, Recording};
use super::value::Span;
use crate::history::{Fault, History};
use crate::process;
use crate::run::alone;
use crate::trace::Trace;
use crate::world::{Ground, World};

/// Shortest and longest time between two looks at the world.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// The cluster of scenarios whose manifests name none.
const CLUSTER: &str = "demo";

/// How a scenario went.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) recording: Recording,
    pub(crate) failures: Vec<Failure>,
    /// Of everything that was asked and answered: equal for equal runs.
    pub(crate) hash: String,
}

/// Plays it. With `print`, every request and event of a watch goes to standard output.
pub(crate) fn play(scenario: &Scenario, seed: u64, print: bool) -> Result<Played> {
    let scenario = scenario.clone();
    alone(seed, move || async move { played(&scenario, seed, print).await })
}

/// Something that happens besides the ticks.
enum Turn<'a> {
    Act(u64, &'a Action),
    Allow(Fault, bool),
}

async fn played(scenario: &Scenario, seed: u64, print: bool) -> Result<Played> {
    let trace = Trace::new(print);
    let history = Arc::new(History::quiet(seed, scenario.file.duration.0));
    let world = Arc::new(World::on(&history, ground(scenario), trace.clone()).await?);
    let mut recorder = Recorder::new(Arc::clone(&world));
    apply(&world, &scenario.manifests).await?;
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    let began = Instant::now();
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.clone()));
    let failed = follow(scenario, &world, &mut recorder, began).await;
    let recording = recorder.finish();
    stop.cancel();
    let mut failures: Vec<Failure> = failed.into_iter().collect();
    failures.extend(world.truth.violations().into_iter().map(|violation| Failure {
        line: None,
        subject: format!("rule `{}`", violation.rule),
        expected: "never to be broken".to_owned(),
        actual: format!("at {}: {}", Span(Duration::from_secs(violation.seconds)), violation.what),
        because: None,
    }));
    // What could not happen makes the rest mean nothing.
    if failures.is_empty() {
        failures = judge(&scenario.expectations, &recording);
    }
    Ok(Played { recording, failures, hash: trace.hash() })
}

/// Lets everything happen at its time, and looks at the world in between; what could not be done ends it.
async fn follow(
    scenario: &Scenario,
    world: &Arc<World>,
    recorder: &mut Recorder,
    began: Instant,
) -> Option<Failure> {
    let mut turns: Vec<(Duration, Turn<'_>)> =
        scenario.events.iter().map(|event| (event.at, Turn::Act(event.line, &event.action))).collect();
    for span in &scenario.file.faults {
        let fault = Fault::from(span.value.fault);
        turns.push((span.value.from.0, Turn::Allow(fault, true)));
        turns.extend(span.value.until.map(|until| (until.0, Turn::Allow(fault, false))));
    }
    turns.sort_by_key(|(at, _)| *at);
    let mut turns = turns.into_iter().peekable();
    let (end, look) = (scenario.file.duration.0, look(scenario));
    let mut tick = Duration::ZERO;
    loop {
        sleep_until(began + tick).await;
        recorder.look();
        if tick >= end {
            return None;
        }
        while let Some((at, turn)) = turns.next_if(|(at, _)| *at < tick + look) {
            sleep_until(began + at).await;
            match turn {
                Turn::Allow(fault, possible) => world.weather.allow(fault, possible),
                Turn::Act(line, action) => {
                    world.trace.note("world", &format!("{action:?}"), "");
                    if let Err(error) = act(world, recorder, action).await {
                        return Some(Failure {
                            line: Some(line),
                            subject: format!("`timeline` at {}", Span(at)),
                            expected: "to happen".to_owned(),
                            actual: format!("{error:#}"),
                            because: None,
                        });
                    }
                }
            }
        }
        tick = (tick + look).min(end);
    }
}

/// Between two looks at the world: a second for every twelve minutes, because a long day has time.
fn look(scenario: &Scenario) -> Duration {
    (scenario.file.duration.0 / 720).clamp(LOOK.0, LOOK.1)
}

fn ground(scenario: &Scenario) -> Ground {
    let file = &scenario.file;
    let mut objects: Vec<Value> = scenario.manifests.iter().map(|manifest| manifest.what.clone()).collect();
    for event in &scenario.events {
        if let Action::Apply(manifests) = &event.action {
            objects.extend(manifests.iter().map(|manifest| manifest.what.clone()));
        }
    }
    let cluster = file.cluster.clone().or_else(|| cluster_of(&objects)).unwrap_or_else(|| CLUSTER.to_owned());
    let faults: BTreeSet<Fault> = file.faults.iter().map(|span| Fault::from(span.value.fault)).collect();
    let stale = faults.contains(&Fault::from(FaultName::AwsStale));
    let defaults = Options::default();
    let mut settings = file.settings.clone();
    // There is no other replica, and keeping the Lease is much of what a quiet controller does.
    settings.entry("disable-leader-election".to_owned()).or_insert_with(|| "true".to_owned());
    Ground {
        account: Options {
            cluster: cluster.clone(),
            region: file.region.clone().or_else(|| region_of(&objects)).unwrap_or(defaults.region),
            kubernetes_version: "1.35".to_owned(),
            zones: 3,
            boot_delay: Duration::from_secs(8),
            invisible_for: Duration::from_secs(if stale { 8 } else { 0 }),
            ..Options::default()
        },
        cluster,
        start: file.start,
        machines: kubelet::Options {
            // A machine of EKS is registered in about half a minute. Heartbeats are most of what there is to compute.
            boot: Duration::from_secs(25),
            ready: Duration::from_secs(10),
            heartbeat: Duration::from_secs(40),
            poll: Duration::from_secs(10),
            ..kubelet::Options::default()
        },
        look: look(scenario),
        objects: Vec::new(),
        settings,
    }
}

/// The cluster that node classes look for.
fn cluster_of(objects: &[Value]) -> Option<String> {
    objects.iter().filter(|one| one["kind"] == "EC2NodeClass").find_map(|class| {
        let mut terms = object::list(class, "/spec/subnetSelectorTerms").iter();
        terms.find_map(|term| term["tags"][tag::DISCOVERY].as_str()).map(str::to_owned)
    })
}
