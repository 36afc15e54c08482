//! Conditions that must hold at every moment, or must have held at some: read from a watch, which reports every state an object
//! was in, however short, and however slow the machine is that looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::Pin;

use anyhow::{Context, Result, bail, ensure};
use futures::stream::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{ConditionStatus, NodeClaim};
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::test_namespace::TestNamespace;
use crate::wait::PATIENCE;
use crate::world::World;

const DISRUPTED: &str = "karpenter.sh/disrupted";

/// The objects of a watch by uid: a name may come back, a uid does not.
type Seen<K> = BTreeMap<String, K>;

/// Everything a watch selects, state by state.
struct States<K> {
    changes: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    seen: Seen<K>,
    /// Objects of a list that has begun; takes the place of `seen` at its end.
    listed: Option<Seen<K>>,
}

impl<K> States<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Begins to watch; returns with the first list.
    async fn begin(api: Api<K>, config: Config) -> Result<Self> {
        let changes = watcher(api, config).default_backoff().boxed();
        let mut states = Self { changes, seen: Seen::new(), listed: None };
        tokio::time::timeout(PATIENCE, states.next()).await.context("wait for the watch to begin")??;
        Ok(states)
    }

    /// The next state of everything.
    async fn next(&mut self) -> Result<&Seen<K>> {
        loop {
            // A watch that breaks begins again by itself, with a list.
            let Ok(change) = self.changes.next().await.context("the watch has ended")? else { continue };
            let uid = |object: &K| object.uid().unwrap_or_default();
            match change {
                Event::Init => self.listed = Some(Seen::new()),
                Event::InitApply(object) => {
                    self.listed.get_or_insert_default().insert(uid(&object), object);
                    continue;
                }
                Event::InitDone => self.seen = self.listed.take().unwrap_or_default(),
                Event::Apply(object) => {
                    self.seen.insert(uid(&object), object);
                }
                Event::Delete(object) => {
                    self.seen.remove(&uid(&object));
                }
            }
            if self.listed.is_none() {
                return Ok(&self.seen);
            }
        }
    }
}

/// Runs `behaviour`; fails as soon as what is selected is in a state that `rule` refuses.
pub(super) async fn throughout<K, T>(
    api: Api<K>,
    config: Config,
    rule: impl Fn(&Seen<K>) -> Result<()>,
    behaviour: impl Future<Output = Result<T>>,
) -> Result<T>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut states = States::begin(api, config).await?;
    rule(&states.seen)?;
    let looks = async {
        loop {
            rule(states.next().await?)?;
        }
    };
    tokio::select! {
        outcome = behaviour => outcome,
        outcome = looks => outcome,
    }
}

/// Runs `behaviour`; fails as soon as more than `allowed` nodes of the namespace are being removed at once. One
/// that is drained and whose machine is being terminated is out (spec disruption 3.4): EC2 takes its time to
/// end it.
pub(super) async fn at_most_leaving<T>(
    test: &TestNamespace<'_>,
    allowed: usize,
    behaviour: impl Future<Output = Result<T>>,
) -> Result<T> {
    let claims: Api<NodeClaim> = Api::all(test.world.client.clone());
    let rule = |claims: &Seen<NodeClaim>| {
        let leaving: BTreeSet<String> =
            claims.values().filter(|claim| is_leaving(claim)).map(ResourceExt::name_any).collect();
        ensure!(leaving.len() <= allowed, "{leaving:?} leave at once, the budget is {allowed}");
        Ok(())
    };
    throughout(claims, Config::default().labels(&test.selector()), rule, behaviour).await
}

/// The rest of the life of one node.
pub(super) struct Farewell {
    states: States<Node>,
    uid: String,
    name: String,
}

impl Farewell {
    /// Begins to look at a node, before anything happens to it.
    pub(super) async fn begin(world: &World, node: &Node) -> Result<Self> {
        let (uid, name) = (node.uid().unwrap_or_default(), node.name_any());
        let nodes: Api<Node> = Api::all(world.client.clone());
        let states = States::begin(nodes, Config::default().fields(&format!("metadata.name={name}"))).await?;
        Ok(Self { states, uid, name })
    }

    /// Waits until the node is gone; whether new pods were kept off it before.
    pub(super) async fn was_tainted(mut self) -> Result<bool> {
        let watched = async {
            let mut tainted = false;
            while let Some(node) = self.states.seen.get(&self.uid) {
                tainted |= is_tainted(node);
                self.states.next().await?;
            }
            Ok(tainted)
        };
        match tokio::time::timeout(PATIENCE, watched).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("waited {}s for node `{}` to go", PATIENCE.as_secs(), self.name),
        }
    }
}

fn is_leaving(claim: &NodeClaim) -> bool {
    let is = |kind: &str| {
        let conditions = claim.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|one| one.kind == kind && one.status == ConditionStatus::True)
    };
    (claim.metadata.deletion_timestamp.is_some() || is("DisruptionReason")) && !is("InstanceTerminating")
}

/// Returns whether new pods are kept off the node because it is to go.
fn is_tainted(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == DISRUPTED)
}
