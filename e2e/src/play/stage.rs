//! The world of a scenario on real parts: does what a timeline says as people, other clients and EC2 would, and looks at what
//! there is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_aws_api::ec2::{Instance, InstanceQuery, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Clients, Filter};
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_sim::scenario::follow::{Met, Stage};
use karpenter_sim::scenario::format::{FaultName, Machines, Object, Scale};
use karpenter_sim::scenario::machines::meant;
use karpenter_sim::scenario::read::{Action, Manifest};
use karpenter_sim::scenario::record::Recording;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::discovery::{ApiGroup, Discovery, Scope};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::fault_injector::FaultInjector;
use super::market::Market;
use super::recording::Watches;
use super::shortage::Shortage;
use crate::account::control::Notice;
use crate::world::World;
use crate::{manifests, wait};

/// Time that EC2 gives a spot instance.
const NOTICE: Duration = Duration::from_mins(2);
/// Time between two looks for new instances that are to end while they boot, which takes half a minute.
const NEWS: Duration = Duration::from_secs(1);

/// Cluster, account, machines and controller of one scenario.
pub(super) struct RealParts<'a> {
    world: &'a World,
    market: Option<Market>,
    shortage: Option<Shortage>,
    weather: Option<FaultInjector>,
    watches: Watches,
    /// Number of faults that keep machines from joining now; they join again when the last of them ends.
    never_joins: Arc<AtomicU32>,
    /// Tasks that happen later, or go on for a while.
    later: JoinSet<Result<()>>,
}

impl<'a> RealParts<'a> {
    /// A stage on which nothing has happened yet; without a market prices are 0, and what needs one cannot be done.
    pub(super) async fn new(world: &'a World, market: Option<Market>, watches: Watches) -> Result<Self> {
        let control = world.control().ok().cloned();
        let weather = match control.clone() {
            Some(control) => Some(FaultInjector::new(control, world.caller().await?)),
            None => None,
        };
        let shortage = control.map(Shortage::new);
        let never_joins = Arc::default();
        Ok(Self { world, market, shortage, weather, watches, never_joins, later: JoinSet::new() })
    }

    /// The end.
    pub(super) fn finish(self) -> Recording {
        self.watches.finish()
    }

    async fn live(&self) -> Result<Vec<Instance>> {
        wait::answered("the instances of the account", || alive(&self.world.aws)).await
    }

    /// Sends a notice about each of the spot instances that are meant; they end `then` after it, if they do.
    async fn notify(&self, which: &Machines, notice: Notice, then: Option<Duration>) -> Result<Met> {
        let meant = meant(&which.on_spot(), self.live().await?);
        for instance in &meant {
            if then.is_some() {
                self.watches.taken([instance.id.to_string()]);
            }
            let (control, region) = (self.world.control()?, &self.world.environment.region);
            control.notify(notice, region, instance.id.as_str(), then).await?;
        }
        Ok(Met::machines(meant.len()))
    }

    async fn terminate(&self, which: &Machines) -> Result<Met> {
        let ids: Vec<InstanceId> =
            meant(which, self.live().await?).into_iter().map(|instance| instance.id).collect();
        self.watches.taken(ids.iter().map(ToString::to_string));
        self.world.aws.ec2.terminate_instances(&ids).await.context("terminate instances")?;
        Ok(Met::machines(ids.len()))
    }

    /// Ends the next `count` instances as soon as they are seen.
    async fn doom(&mut self, count: u32) -> Result<()> {
        let aws = self.world.aws.clone();
        let mut known: BTreeSet<InstanceId> = self.live().await?.into_iter().map(|one| one.id).collect();
        self.later.spawn(async move {
            let mut left = count;
            while left > 0 {
                sleep(NEWS).await;
                for instance in wait::answered("the instances of the account", || alive(&aws)).await? {
                    if left > 0 && known.insert(instance.id.clone()) {
                        aws.ec2
                            .terminate_instances(&[instance.id])
                            .await
                            .context("end a machine that boots")?;
                        left -= 1;
                    }
                }
            }
            Ok(())
        });
        Ok(())
    }

    fn never_join(&mut self, lasts: Duration) {
        let agent = self.world.agent.clone();
        let never_joins = Arc::clone(&self.never_joins);
        never_joins.fetch_add(1, Ordering::Relaxed);
        agent.behave_all(Behaviour::NeverJoins);
        self.later.spawn(async move {
            sleep(lasts).await;
            if never_joins.fetch_sub(1, Ordering::Relaxed) == 1 {
                agent.behave_all(Behaviour::Healthy);
            }
            Ok(())
        });
    }

    async fn restart(&self) -> Result<()> {
        self.world.check_controller().await?;
        self.world.kill_controller().await?;
        self.world.start_controller().await
    }
}

impl Stage for RealParts<'_> {
    async fn look(&mut self) -> Result<()> {
        self.world.check_controller().await?;
        while let Some(done) = self.later.try_join_next() {
            done.context("something that was to happen later panicked")??;
        }
        let instances = self.live().await?;
        let priced = instances.iter().map(|instance| {
            let price = self.market.as_ref().map(|market| market.price(instance)).unwrap_or_default();
            (instance.state, price)
        });
        self.watches.picture(priced.collect());
        Ok(())
    }

    async fn act(&mut self, action: &Action) -> Result<Met> {
        tracing::info!(?action, "happens");
        let market = || anyhow!("this account has no control requests; choose `moto` or `localstack`");
        match action {
            Action::Scale(scale) => scale_to(self.world, scale).await?,
            Action::Apply(manifests) => apply(self.world, manifests).await?,
            Action::Delete(object) => delete(self.world, object).await?,
            Action::Interrupt(which) => {
                return self.notify(which, Notice::SpotInterruption, Some(NOTICE)).await;
            }
            Action::Rebalance(which) => return self.notify(which, Notice::Rebalance, None).await,
            Action::Terminate(which) => return self.terminate(which).await,
            Action::Silence(which) => {
                let meant = meant(which, self.live().await?);
                for instance in &meant {
                    self.world.agent.behave(instance.id.as_str(), Behaviour::Silent);
                }
                return Ok(Met::machines(meant.len()));
            }
            Action::Sicken(sick) => {
                let meant = meant(&sick.machines, self.live().await?);
                for instance in &meant {
                    self.world.agent.ail(instance.id.as_str(), &sick.condition, &sick.reason);
                }
                return Ok(Met::machines(meant.len()));
            }
            Action::RemoveFinalizers(_) => bail!("finalizers stay; leave `removeFinalizers` out"),
            Action::Stop(_) => bail!("instances are not stopped; leave `stop` out"),
            Action::Differ(_) => bail!("machines cannot differ; leave `differ` out"),
            Action::LoseCapacity(loss) => {
                let shortage = self.shortage.clone().ok_or_else(market)?;
                let number = shortage.begin(loss).await?;
                if let Some(lasts) = loss.r#for {
                    self.later.spawn(shortage.end_after(lasts.0, number));
                }
            }
            Action::ChangePrice(change) => self.market.as_ref().ok_or_else(market)?.change(change).await?,
            Action::ReleaseImages(release) => {
                self.market.as_mut().ok_or_else(market)?.release(&release.version).await?;
            }
            Action::DoomBoots(count) => self.doom(*count).await?,
            Action::NeverJoin(lasts) => self.never_join(lasts.r#for.0),
            Action::Restart => self.restart().await?,
            Action::Disconnect(_) => bail!("the controller cannot be cut off; leave `disconnect` out"),
        }
        Ok(Met::Something)
    }

    async fn allow(&mut self, fault: FaultName, possible: bool) -> Result<()> {
        tracing::info!(?fault, possible, "changes");
        match self.weather.as_mut() {
            Some(weather) => weather.allow(fault, possible).await,
            None => Err(anyhow!("this account draws no faults; choose `moto` or `localstack`")),
        }
    }
}

/// Instances that are not terminated.
async fn alive(aws: &Clients) -> Result<Vec<Instance>> {
    let states = InstanceState::ALIVE.map(InstanceState::as_str);
    let query = InstanceQuery { ids: Vec::new(), filters: vec![Filter::new("instance-state-name", states)] };
    Ok(aws.ec2.describe_instances(&query).await?)
}

async fn scale_to(world: &World, scale: &Scale) -> Result<()> {
    let Scale { deployment, namespace, replicas } = scale;
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), namespace);
    let change = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let what = format!("cannot scale Deployment `{namespace}/{deployment}`; name one of the manifests");
    let scaled = wait::answered(&what, || async {
        Ok(api.patch_scale(deployment, &PatchParams::default(), &change).await?)
    });
    scaled.await.map(drop).map_err(manifests::refusal).context(what)
}

/// Applies objects in their order, as `kubectl apply --server-side` does.
pub(super) async fn apply(world: &World, manifests: &[Manifest]) -> Result<()> {
    for Manifest { line, what } in manifests {
        let applied = manifests::apply_json(&world.client, what.clone()).await;
        applied.with_context(|| format!("cannot use what line {line} brings; correct the manifest"))?;
    }
    Ok(())
}

async fn delete(world: &World, object: &Object) -> Result<()> {
    let Object { kind, name, namespace } = object;
    let found =
        Discovery::new(world.client.clone()).run().await.context("ask which kinds the cluster has")?;
    let mut kinds = found.groups().flat_map(ApiGroup::recommended_resources);
    let (resource, about) = kinds
        .find(|(resource, _)| resource.kind == *kind)
        .with_context(|| format!("the API server has no kind `{kind}`; write it as in manifests"))?;
    let api: Api<DynamicObject> = match about.scope {
        Scope::Cluster => Api::all_with(world.client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(world.client.clone(), namespace, &resource),
    };
    let what = format!("cannot delete {kind} `{name}`; name an object that exists");
    let deleted =
        wait::answered(&what, || async { Ok(api.delete(name, &DeleteParams::background()).await?) });
    deleted.await.map(drop).map_err(manifests::refusal).context(what)
}
