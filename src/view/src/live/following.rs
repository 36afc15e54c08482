//! The watches: Nodes, claims and pods into the world, and what is wrong with each.
//!
//! Claims are decoded one by one, because a controller of another release may have written one that this release cannot
//! decode: as an error it would end the watch, and hide all other claims.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_kube_harness::watch::{self, Key, Readable, Seen, Troubles};
use karpenter_model::{Clock, PodKey};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::probe::Probe;
use crate::facts::Shown;
use crate::trouble::{CLAIMS, Followed, NODES, PODS, Trouble};
use crate::world::World;

/// The kinds that are followed.
const FOLLOWED: [Followed; 3] = [NODES, CLAIMS, PODS];

/// A cluster that is followed.
pub(super) struct Cluster {
    world: Mutex<World>,
    troubles: Troubles,
    /// Resources that were listed completely at least once.
    listed: Mutex<BTreeSet<&'static str>>,
    probe: Probe,
    news: Notify,
}

impl Cluster {
    /// Follows the cluster behind `client` for as long as `tasks` are there.
    pub(super) fn follow(
        client: &Client,
        shown: Shown,
        clock: &Arc<dyn Clock>,
        tasks: &mut JoinSet<()>,
    ) -> Arc<Self> {
        let cluster = Arc::new(Self {
            world: Mutex::new(World::new(shown)),
            troubles: Troubles::default(),
            listed: Mutex::default(),
            probe: Probe::new(Arc::clone(clock)),
            news: Notify::new(),
        });
        cluster.spawn::<Node>(NODES, client, tasks);
        cluster.spawn::<Readable<NodeClaim>>(CLAIMS, client, tasks);
        cluster.spawn::<Pod>(PODS, client, tasks);
        let (probing, client) = (Arc::clone(&cluster), client.clone());
        tasks.spawn(async move { probing.probe.run(&client, || probing.news.notify_one()).await });
        cluster
    }

    fn spawn<K: Kept>(self: &Arc<Self>, what: Followed, client: &Client, tasks: &mut JoinSet<()>) {
        let (cluster, api) = (Arc::clone(self), Api::<K>::all(client.clone()));
        tasks.spawn(async move {
            let troubles = cluster.troubles.clone();
            let listener = |seen: Seen<K>| {
                let mut world = cluster.world();
                match seen {
                    Seen::Listing => {}
                    Seen::Listed(object) | Seen::Applied(object) => object.put(&mut world),
                    Seen::Deleted(object) => object.remove(&mut world),
                    Seen::Complete(keys) => {
                        K::keep(&mut world, &keys);
                        cluster.listed.lock().insert(what.resource);
                    }
                }
                drop(world);
                cluster.news.notify_one();
            };
            watch::follow(what.resource, api, &troubles, CancellationToken::new(), listener).await;
        });
    }

    /// The world as it is.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Resolves after something has changed.
    pub(super) async fn changed(&self) {
        self.news.notified().await;
    }

    /// Returns the trouble if the API server does not answer.
    pub(super) fn away(&self) -> Option<Trouble> {
        self.probe.away()
    }

    /// Returns the troubles, the most important first.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let away = self.away();
        let mut troubles: Vec<Trouble> = away.clone().into_iter().collect();
        for what in FOLLOWED {
            let Some(trouble) = self.trouble(what) else { continue };
            // A watch that breaks begins again by itself; that matters as long as there is nothing to show, and is no
            // news when the server is away.
            let matters = away.is_none() && !self.listed.lock().contains(what.resource);
            if trouble.lasts() || matters {
                troubles.push(trouble);
            }
        }
        troubles.extend(Trouble::of_undecoded(self.world().undecoded_claims()));
        troubles
    }

    fn trouble(&self, what: Followed) -> Option<Trouble> {
        self.troubles.last(what.resource).map(|trouble| what.trouble_of_watch(&trouble))
    }

    /// Returns whether each kind was listed, or cannot be.
    pub(super) fn is_complete(&self) -> bool {
        FOLLOWED.into_iter().all(|what| {
            self.listed.lock().contains(what.resource)
                || self.trouble(what).is_some_and(|trouble| trouble.lasts())
        })
    }
}

/// A kind that the world keeps.
trait Kept: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    fn put(&self, world: &mut World);
    fn remove(&self, world: &mut World);
    fn keep(world: &mut World, listed: &BTreeSet<Key>);
}

impl Kept for Node {
    fn put(&self, world: &mut World) {
        world.put_node(self);
    }

    fn remove(&self, world: &mut World) {
        world.remove_node(&self.name_any());
    }

    fn keep(world: &mut World, listed: &BTreeSet<Key>) {
        world.keep_nodes(listed);
    }
}

impl Kept for Readable<NodeClaim> {
    fn put(&self, world: &mut World) {
        match self {
            Self::Whole(claim) => world.put_claim(claim),
            Self::Undecoded(object) => world.put_undecoded_claim(object),
        }
    }

    fn remove(&self, world: &mut World) {
        world.remove_claim(&self.name_any());
    }

    fn keep(world: &mut World, listed: &BTreeSet<Key>) {
        world.keep_claims(listed);
    }
}

impl Kept for Pod {
    fn put(&self, world: &mut World) {
        world.put_pod(self);
    }

    fn remove(&self, world: &mut World) {
        world.remove_pod(&PodKey::new(&self.namespace().unwrap_or_default(), &self.name_any()));
    }

    fn keep(world: &mut World, listed: &BTreeSet<Key>) {
        world.keep_pods(listed);
    }
}
