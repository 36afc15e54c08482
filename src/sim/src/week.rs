//! A week of a large cluster: daily waves of pods, spot interruptions and one roll of images, with the controller
//! unmodified, every rule checked and what it costs held against a lower bound.
//!
//! Nothing goes wrong here but what goes wrong in any week; random histories are for the rest. Heartbeats of nodes are ten
//! minutes apart, because they decide nothing in a week without silent machines and would be most of what there is to
//! compute.

mod bound;
mod report;
mod shape;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_aws_api::ec2::{Instance, InstanceState, Lifecycle};
use karpenter_aws_sim::Options;
use karpenter_kube_sim::kubelet;
use karpenter_model::Price;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::bound::Bounds;
pub use self::shape::Shape;
use crate::check::Violation;
use crate::history::History;
use crate::process;
use crate::run::alone;
use crate::seed::Seed;
use crate::trace::Trace;
use crate::world::{CLUSTER, START, World, WorldOptions};

/// Time between two measurements of the costs.
const LOOK: Duration = Duration::from_mins(1);

/// A week, or a part of one, as it went.
#[derive(Clone, Debug)]
pub struct Week {
    /// Hash of everything that happened.
    pub hash: String,
    /// Rules that were broken.
    pub violations: Vec<Violation>,
    /// The cluster at the end of every hour.
    pub hours: Vec<Hour>,
    /// Instances ever launched.
    pub launched: usize,
    /// Spot instances that were taken back.
    pub interrupted: usize,
}

/// One hour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hour {
    /// Pods that were wanted at its end.
    pub pods: u64,
    /// Instances pending or running at its end.
    pub machines: usize,
    /// Machines among them whose image is not the newest.
    pub outdated: usize,
    /// Cost of the instances in this hour.
    pub cost: Price,
    /// Least cost of the pods that were wanted in this hour.
    pub bound: Price,
}

impl Week {
    /// Returns the cost of the whole, and its lower bound.
    pub fn total(&self) -> (Price, Price) {
        (self.hours.iter().map(|hour| hour.cost).sum(), self.hours.iter().map(|hour| hour.bound).sum())
    }
}

/// Plays the week. With `print`, the trace is written to standard output line by line.
pub fn week(shape: &Shape, print: bool) -> Result<Week> {
    let shape = shape.clone();
    alone(shape.seed, move || async move { played(&shape, Trace::new(print)).await })
}

async fn played(shape: &Shape, trace: Trace) -> Result<Week> {
    let history = Arc::new(History::quiet(shape.seed, shape.lasts()));
    let world = Arc::new(World::on(&history, world_options(shape)?, trace.clone()).await?);
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.clone()));
    let mut player = Player {
        world: &world,
        shape,
        random: Seed(shape.seed).stream("interruptions"),
        wanted: Vec::new(),
        interrupted: 0,
        last: (Arc::default(), 0),
    };
    let hours = tokio::select! {
        biased;
        // Anything that happens after a rule was broken may follow from that.
        () = world.truth.broken() => Vec::new(),
        hours = player.play() => hours?,
    };
    stop.cancel();
    world.truth.look();
    let mut bounds = Bounds::of(&world).await?;
    let hours = hours.into_iter().zip(&player.wanted).map(|(hour, wanted)| {
        let bound = wanted.iter().map(|replicas| Ok(bounds.least_price(replicas)?.nanos()));
        let bound: i64 = bound.sum::<Result<i64>>()?;
        let steps = i64::try_from(wanted.len().max(1)).unwrap_or(i64::MAX);
        Ok(Hour { bound: Price::from_nanos(bound / steps), ..hour })
    });
    Ok(Week {
        hours: hours.collect::<Result<Vec<Hour>>>()?,
        hash: trace.hash(),
        violations: world.truth.violations(),
        launched: world.account.instances().len(),
        interrupted: player.interrupted,
    })
}

/// Plays the hours one after the other.
struct Player<'a> {
    world: &'a Arc<World>,
    shape: &'a Shape,
    random: Rng,
    /// Replicas of each workload, for each step of each hour.
    wanted: Vec<Vec<Vec<u32>>>,
    interrupted: usize,
    /// The machines of the last look, and what they cost.
    last: (Arc<Vec<Arc<Instance>>>, i64),
}

impl Player<'_> {
    async fn play(&mut self) -> Result<Vec<Hour>> {
        let began = Instant::now();
        let mut hours = Vec::new();
        for hour in 0..self.shape.hours {
            if Some(hour) == self.shape.images_at {
                self.world.account.release_images("v20260104");
                self.world.truth.images_released();
            }
            self.wanted.push(Vec::new());
            let mut nanos = 0;
            for minute in 0..60 {
                if minute % shape::STEP == 0 {
                    self.scale(hour * 60 + minute).await?;
                }
                sleep_until(began + LOOK * (hour * 60 + minute + 1)).await;
                nanos += self.cost();
            }
            self.interrupt()?;
            hours.push(self.hour(nanos / 60));
        }
        Ok(hours)
    }

    /// Scales each deployment to the number of pods wanted from this minute on.
    async fn scale(&mut self, minute: u32) -> Result<()> {
        let deployments: Api<Deployment> = Api::default_namespaced(self.world.server.client());
        let wanted = self.shape.replicas(minute);
        for (number, replicas) in wanted.iter().enumerate() {
            let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            deployments.patch(&shape::name(number), &PatchParams::default(), &change).await?;
        }
        if let Some(steps) = self.wanted.last_mut() {
            steps.push(wanted);
        }
        Ok(())
    }

    /// EC2 takes some of the spot machines back, one in a hundred every hour.
    fn interrupt(&mut self) -> Result<()> {
        let mut spot = self.paid();
        spot.retain(|instance| instance.lifecycle == Some(Lifecycle::Spot));
        for instance in spot {
            if self.random.u32(..100) == 0 {
                self.world.truth.struck(&instance.id);
                self.world.account.interrupt_spot(&instance.id)?;
                self.interrupted += 1;
            }
        }
        Ok(())
    }

    fn hour(&self, nanos: i64) -> Hour {
        let paid = self.paid();
        let newest = paid.iter().map(|instance| &instance.image).max();
        Hour {
            pods: self.wanted.iter().flatten().last().into_iter().flatten().map(|n| u64::from(*n)).sum(),
            machines: paid.len(),
            outdated: paid.iter().filter(|instance| Some(&instance.image) != newest).count(),
            cost: Price::from_nanos(nanos),
            bound: Price::default(),
        }
    }

    fn cost(&mut self) -> i64 {
        let live = self.world.account.live();
        if !Arc::ptr_eq(&live, &self.last.0) {
            let price = |one: &Arc<Instance>| crate::world::price(&self.world.account, one).nanos();
            self.last = (live, self.paid().iter().map(price).sum());
        }
        self.last.1
    }

    /// Instances that cost money.
    fn paid(&self) -> Vec<Arc<Instance>> {
        let live = self.world.account.live();
        let paid =
            |one: &&Arc<Instance>| matches!(one.state, InstanceState::Pending | InstanceState::Running);
        live.iter().filter(paid).cloned().collect()
    }
}

fn world_options(shape: &Shape) -> Result<WorldOptions> {
    Ok(WorldOptions {
        cluster: CLUSTER.to_owned(),
        start: START.parse()?,
        account: Options {
            cluster: CLUSTER.to_owned(),
            kubernetes_version: "1.35".to_owned(),
            zones: 3,
            boot_delay: Duration::from_secs(8),
            ..Options::default()
        },
        machines: kubelet::Options {
            boot: Duration::from_secs(25),
            ready: Duration::from_secs(10),
            spread: 50,
            heartbeat: Duration::from_mins(10),
            poll: Duration::from_secs(30),
            ..kubelet::Options::default()
        },
        look: Duration::from_secs(15),
        objects: shape.objects(),
        settings: [("disable-leader-election".to_owned(), "true".to_owned())].into(),
    })
}
