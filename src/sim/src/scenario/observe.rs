//! Shows the world of the simulation to the [`Recorder`]: the store of the API server and the instances of the account, as
//! the checkers read them.

use std::sync::Arc;

use karpenter_kube_sim::apiserver::TableName;
use karpenter_kube_sim::apiserver::store::ChangeKind;
use karpenter_model::Clock as _;
use tokio::time::Instant;

use super::record::{Recorder, Recording};
use crate::world::{World, price};

/// Groups and plural names of what is followed.
const TABLES: [(&str, &str); 3] = [("", "pods"), ("", "events"), ("karpenter.sh", "nodeclaims")];

/// Follows a world.
pub(crate) struct Observer {
    world: Arc<World>,
    began: Instant,
    cursor: u64,
    recorder: Recorder,
}

impl Observer {
    /// Begins now.
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world, began: Instant::now(), cursor: 0, recorder: Recorder::default() }
    }

    /// The scenario takes these instances back.
    pub(crate) fn taken(&mut self, ids: impl IntoIterator<Item = String>) {
        self.recorder.taken(ids);
    }

    /// Reads what was written since the last time, and takes a picture.
    pub(crate) fn look(&mut self) {
        let (at, now) = (self.began.elapsed(), self.world.clock.now());
        let cursor = self.cursor;
        let (changes, revision) = self.world.server.read(|store| {
            let mut changes = Vec::new();
            for (group, plural) in TABLES {
                let of_table = store.changes_since(&TableName::new(group, plural), cursor);
                changes.extend(of_table.unwrap_or_default().into_iter().map(|change| (plural, change)));
            }
            (changes, store.revision())
        });
        self.cursor = revision;
        for (plural, change) in changes {
            let gone = change.kind == ChangeKind::Deleted;
            match plural {
                "pods" => self.recorder.pod(now, &change.object, gone),
                "events" => self.recorder.event(at, &change.object),
                _ => self.recorder.claim(at, &change.object, gone),
            }
        }
        let (nodes, pods) = self.world.truth.nodes_and_pods();
        let account = &self.world.account;
        let instances = account.instances();
        let priced = instances.iter().map(|instance| (instance.state, price(account, instance)));
        self.recorder.picture(at, nodes.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref), priced);
    }

    /// The end.
    pub(crate) fn finish(mut self) -> Recording {
        self.look();
        self.recorder.finish(self.began.elapsed(), self.world.clock.now())
    }
}
