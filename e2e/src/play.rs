//! Plays scenario files (docs/scenarios.md) on real parts in real time, and judges them with the code of `karpenter test`.
//!
//! Each file gets a world of its own: a cluster, an account with the EKS cluster that its manifests are for, machines as
//! fast as those of the simulation, and the controller with the file's settings. The account sells the types of the
//! account in memory, at its prices and with its images ([`market`]), so that the same decisions are to be expected.
//!
//! The manifests are applied before the controller starts, as in the simulation: all pods that there are meet its first
//! look, however slowly they were made. The time of the scenario begins when the controller has been started.
//!
//! Statements of a file that real parts cannot carry out are found before anything starts ([`counterpart`]); such a file is not
//! played. A scenario fails, besides, when a rule of every world is broken (see [`World::verdict`]) or the controller ends by
//! itself.

mod counterpart;
mod fault_injector;
mod market;
mod recording;
mod shortage;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use karpenter_controllers::settings::{FLAGS, OWN};
use karpenter_sim::scenario::follow::follow;
use karpenter_sim::scenario::judge::{Failure, judge};
use karpenter_sim::scenario::pace;
use karpenter_sim::scenario::read::Scenario;
use karpenter_sim::scenario::report::{Case, Outcome, Played};

use crate::machines::Pace;
use crate::scenario as suites;
use crate::world::{Options, Site, World};
use market::Market;
use recording::Watches;
use stage::RealParts;

/// Between two looks at the world.
const LOOK: Duration = Duration::from_secs(3);
/// The setting for waiting for the Lease.
const ELECTION: &str = "disable-leader-election";
/// The setting of which the chart has words of its own.
const GATES: &str = "feature-gates";

/// Plays a scenario on `parts`, whose place and pace are those of the scenario; they are asked for when it is played. One
/// that takes longer than `longest` is not. `how` names the parts.
pub async fn play(
    scenario: &Scenario,
    parts: impl FnOnce() -> Result<Options>,
    longest: Duration,
    how: &str,
) -> Case {
    let began = Instant::now();
    let reasons = counterpart::lacking(scenario, longest);
    let played = async { on_real_parts(scenario, parts()?).await };
    let outcome = if reasons.is_empty() {
        played.await.unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")))
    } else {
        Outcome::NotPlayed(reasons)
    };
    let (path, name) = (scenario.path.clone(), scenario.file.name.clone());
    Case { path, name, how: how.to_owned(), took: began.elapsed(), outcome }
}

/// Starts a world, plays the scenario in it, and ends it.
async fn on_real_parts(scenario: &Scenario, options: Options) -> Result<Outcome> {
    let site = Site { cluster: scenario.cluster(), region: scenario.region() };
    let pod_start = karpenter_kube_sim::kubelet::Options::default().pod_start;
    let pace = Pace {
        pending: pace::PENDING,
        boot: pace::BOOT,
        ready: pace::READY,
        spread: pace::SPREAD,
        pod_start,
    };
    let mut world = World::start(Options { pace, site, ..options }).await?;
    let outcome = in_world(scenario, &mut world).await;
    let failed = match &outcome {
        Ok(Outcome::Played(played)) => !played.failures.is_empty(),
        Ok(_) => false,
        Err(_) => true,
    };
    if failed {
        world.dump().await;
    }
    let ended = suites::end(world).await.context("end the world of the scenario");
    // The first failure may be the reason why its world does not end well.
    if failed { outcome } else { ended.and(outcome) }
}

async fn in_world(scenario: &Scenario, world: &mut World) -> Result<Outcome> {
    let market = match world.control() {
        Ok(control) => Some(Market::open(control, &world.environment, scenario.instance_types()).await?),
        Err(_) => None,
    };
    if market.is_none() {
        let reasons = counterpart::lacking_control(scenario);
        if !reasons.is_empty() {
            return Ok(Outcome::NotPlayed(reasons));
        }
    }
    settle_settings(scenario, world);
    world.prepare().await?;
    let watches = Watches::begin(&world.client).await?;
    stage::apply(world, &scenario.manifests).await?;
    world.start_controller().await?;
    let began = watches.start();
    let mut stage = RealParts::new(world, market, watches).await?;
    let mut failures: Vec<Failure> = follow(scenario, began, LOOK, &mut stage).await.into_iter().collect();
    let recording = stage.finish();
    let rules = [world.check_controller().await.err(), world.verdict().await.err()];
    failures.extend(rules.into_iter().flatten().map(|error| Failure {
        line: None,
        subject: "what holds in every world".to_owned(),
        expected: "never to be broken".to_owned(),
        actual: format!("{error:#}"),
        because: None,
    }));
    // An action that could not happen makes the rest mean nothing.
    if failures.is_empty() {
        failures = judge(&scenario.expectations, &recording);
    }
    Ok(Outcome::Played(Played { recording, failures, obstacles: Vec::new(), hash: None }))
}

/// Gives the controller the settings of the file. It elects no leader unless the file sets it, as in the simulation.
fn settle_settings(scenario: &Scenario, world: &mut World) {
    let settings = &scenario.file.settings;
    if settings.get(ELECTION).is_none_or(|disabled| disabled == "true") {
        world.without_election();
    }
    for flag in FLAGS.iter().chain(OWN) {
        match (flag.name, settings.get(flag.name)) {
            (ELECTION, _) | (_, None) => {}
            (GATES, Some(gates)) => world.with_feature_gates(gates),
            (_, Some(value)) => world.with_setting(flag.env, value),
        }
    }
}
