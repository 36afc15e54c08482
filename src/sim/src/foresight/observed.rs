//! First actions of the controller: the claims it creates, the nodes it disrupts, the pods it reports as impossible to place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_kube_sim::apiserver::object::{self, text};
use karpenter_kube_sim::apiserver::store::{ListQuery, Store};
use karpenter_model::names::taint;
use karpenter_plan::Forecast;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::world::World;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Time for the controller to begin: a pass that decides about nodes every ten seconds, and what it needs to know before.
const BEGIN: Duration = Duration::from_secs(26);

/// Observations of one world.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Claims in the order they were created, with when.
    pub(super) claims: Vec<(Duration, Arc<Value>)>,
    /// Nodes that were tainted to go, or whose claim was deleted, with when.
    pub(super) leaving: BTreeMap<String, Duration>,
    /// Reasons why pods stay pending, by the name of the pod.
    pub(super) refused: BTreeMap<String, BTreeSet<String>>,
    /// Pods without a node at the end, by name.
    pub(super) pending: BTreeSet<String>,
    /// Duration of the observation.
    pub(super) took: Duration,
}

/// Time until the controller has begun everything the forecast has.
pub(super) fn until_begun(forecast: &Forecast) -> Duration {
    let last = forecast.removals.iter().map(|removal| removal.not_before).max();
    let waits = last.map(|last| forecast.at.duration_until(last));
    BEGIN + waits.and_then(|waits| Duration::try_from(waits).ok()).unwrap_or_default()
}

/// Watches a world.
pub(super) struct Observer {
    world: Arc<World>,
    /// Claims there were before, by uid.
    before: BTreeSet<String>,
    /// Nodes that were going before.
    going: BTreeSet<String>,
    revision: u64,
}

impl Observer {
    /// Starts to observe. Objects that are there already are not the controller's doing.
    pub(super) fn new(world: &Arc<World>) -> Self {
        let mut observer =
            Self { world: Arc::clone(world), before: BTreeSet::new(), going: BTreeSet::new(), revision: 0 };
        observer.before =
            observer.list("NodeClaim").iter().map(|claim| object::uid(claim).to_owned()).collect();
        observer.going = observer.leaving();
        observer.revision = world.server.read(Store::revision);
        observer
    }

    /// Looks on for so long.
    pub(super) async fn watch(&mut self, time: Duration) -> Observed {
        let began = Instant::now();
        let mut observed = Observed::default();
        let mut seen = self.before.clone();
        while began.elapsed() < time {
            sleep(LOOK).await;
            for claim in self.list("NodeClaim") {
                if seen.insert(object::uid(&claim).to_owned()) {
                    observed.claims.push((began.elapsed(), claim));
                }
            }
            for node in self.leaving() {
                if !self.going.contains(&node) {
                    observed.leaving.entry(node).or_insert_with(|| began.elapsed());
                }
            }
        }
        observed.took = began.elapsed();
        for pod in self.list("Pod") {
            if text(&pod, "/spec/nodeName").is_empty() && !object::is_deleting(&pod) {
                observed.pending.insert(object::name(&pod).to_owned());
            }
        }
        // Events about a pod that were written before and still hold are not written again.
        let said = self.list("Event").into_iter().filter(|event| {
            let pod = text(event, "/involvedObject/name");
            object::revision(event) > self.revision || observed.pending.contains(pod)
        });
        let refusals = said.filter(|event| text(event, "/message").starts_with("Failed to schedule pod, "));
        for event in refusals {
            let pod = text(&event, "/involvedObject/name").to_owned();
            observed.refused.entry(pod).or_default().insert(text(&event, "/message").to_owned());
        }
        observed
    }

    /// Names of nodes that are going: tainted, or of a claim that is being deleted.
    fn leaving(&self) -> BTreeSet<String> {
        let tainted = |node: &Value| {
            object::list(node, "/spec/taints").iter().any(|one| one["key"] == taint::DISRUPTED)
        };
        let nodes = self.list("Node");
        let nodes = nodes.iter().filter(|node| tainted(node)).map(|node| object::name(node).to_owned());
        let claims = self.list("NodeClaim");
        let claims = claims.iter().filter(|claim| object::is_deleting(claim));
        nodes.chain(claims.map(|claim| text(claim, "/status/nodeName").to_owned())).collect()
    }

    fn list(&self, kind: &str) -> Vec<Arc<Value>> {
        self.world.server.read(|store| {
            let resource = store.registry().iter().find(|one| one.kind == kind);
            let page = resource.and_then(|resource| store.list(resource, &ListQuery::default()).ok());
            page.map(|page| page.items).unwrap_or_default()
        })
    }
}
