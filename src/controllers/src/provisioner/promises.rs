//! Keeps the record of what pods were promised, and takes pods out of plans that nodes turn out not to serve.
//!
//! The record survives a change of leader: claims carry the workloads they were launched for, and each pool what has been
//! counted about its nodes. A person who removes that annotation of the pool ends the holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_cluster::Contradiction;
use karpenter_kube_harness::write;
use karpenter_lifecycle::pods::promise::{self, Ended, Ending, Held, Saved, Workload, World};
use karpenter_lifecycle::step::{About, PodRef};
use karpenter_model::names::annotation;
use karpenter_model::report::ReasonCode;
use karpenter_model::{ClaimName, Node, Plan, Pod, PodOutcome, PoolName, PoolRefusal, Reason, Snapshot};
use karpenter_telemetry::events::{Event, reason};
use karpenter_telemetry::observe::Chain;
use kube::ResourceExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::Context;
use crate::view::PodSeen;

/// The scheduler is binding pods as long as no more time is between two of them.
pub(super) const BINDING: Duration = Duration::from_secs(1);

/// The record of the provisioner; shared with the watch of pods.
#[derive(Clone, Default)]
pub(crate) struct Promises(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    record: promise::Promises,
    /// Time at which a pod was bound last.
    bound: Option<Instant>,
    /// The annotation that each pool was given.
    written: BTreeMap<PoolName, String>,
    /// Pools whose last write failed: they may have any annotation.
    unsure: BTreeSet<PoolName>,
}

impl Promises {
    /// Records an event of a watch about a pod, at `now`.
    pub(crate) fn note(&self, seen: &PodSeen, now: Timestamp) {
        if let PodSeen::Updated { old, new } = seen
            && old.node_name.is_none()
            && new.node_name.is_some()
        {
            let mut state = self.0.lock();
            state.record.bound(new, now);
            state.bound = Some(Instant::now());
        }
    }

    /// Returns whether no pod has been bound for `span`.
    pub(super) fn are_quiet_for(&self, span: Duration) -> bool {
        self.0.lock().bound.is_none_or(|bound| bound.elapsed() >= span)
    }

    /// Returns whether the scheduler is binding pods, and may yet bind all that wait where they were promised a place. Their
    /// nodes stay protected then.
    pub(super) fn are_being_kept(&self, context: &Context, snapshot: &Snapshot) -> bool {
        let waiting = &snapshot.pending;
        let are_kept = !self.are_quiet_for(BINDING)
            && self.0.lock().record.may_all_be_kept(waiting, &world(context, snapshot), snapshot.now);
        if are_kept {
            let now = context.now();
            let promised: Vec<_> = waiting
                .iter()
                .filter_map(|pod| Some((pod, snapshot.promises.get(&pod.key)?, self.patience(pod, now))))
                .collect();
            context.view.with_cluster(|cluster| {
                for (pod, place, patience) in promised {
                    cluster.nominate_for(&pod.key, patience, place, now);
                }
            });
        }
        are_kept
    }

    /// Returns the longest time for which a pod may wait next to an initialized node it was promised.
    pub(super) fn patience(&self, pod: &Pod, now: Timestamp) -> Duration {
        self.0.lock().record.patience(pod, now)
    }

    /// Takes the pods out of `snapshot` that are not to be planned for, publishes why, and returns what to report of
    /// them.
    pub(super) fn hold(&self, context: &Context, snapshot: &mut Snapshot) -> Vec<(Arc<Pod>, PodOutcome)> {
        let ended = {
            let mut state = self.0.lock();
            let world = world(context, snapshot);
            state.restore(context, snapshot, &world);
            state.look_at_pools(context);
            let departed = context.view.with_cluster(karpenter_cluster::Cluster::take_departed);
            state.record.judge(snapshot, &world, &departed)
        };
        publish_ended(context, &ended);
        publish_devices(context);
        let mut held = self.0.lock().record.held(&snapshot.pending, snapshot.now);
        let (mut outcomes, mut published) = (Vec::new(), BTreeSet::new());
        snapshot.pending.retain(|pod| {
            let Some(held) = held.remove(&pod.key) else { return true };
            // Once for each workload: thousands of pods may be held because of hundreds of nodes.
            if published.insert(Workload::of(pod)) {
                publish_on_nodes(context, pod, &held);
            }
            outcomes.push((Arc::clone(pod), outcome(context, pod, &held)));
            false
        });
        outcomes
    }

    /// Holds `plan` against the record before it is carried out. Returns the launches, by their place in the plan, that
    /// must not be.
    pub(super) async fn plan(&self, context: &Context, snapshot: &Snapshot, plan: &Plan) -> BTreeSet<usize> {
        let judgement = {
            let mut state = self.0.lock();
            let world = world(context, snapshot);
            let judgement = state.record.plan(plan, snapshot, &world);
            let waiting = snapshot.pending.iter().filter(|pod| !pod.is_virtual());
            let pending: BTreeMap<_, &Pod> = waiting.map(|pod| (&pod.key, &**pod)).collect();
            for nomination in &plan.nominations {
                if let Some(pod) = pending.get(&nomination.pod)
                    && let Some(claim) = world.claim_at(&nomination.target)
                {
                    state.record.make(&claim, pod, snapshot.now);
                }
            }
            judgement
        };
        publish_ended(context, &judgement.ended);
        // Before anything is launched: what is counted must not be lost with this process.
        self.save(context).await;
        judgement.refused
    }

    /// Records the pods a claim was created for.
    pub(super) fn launched<'a>(
        &self,
        claim: &ClaimName,
        pods: impl IntoIterator<Item = &'a Pod>,
        snapshot: &Snapshot,
    ) {
        let mut state = self.0.lock();
        for pod in pods.into_iter().filter(|pod| pod.node_name.is_none()) {
            state.record.make(claim, pod, snapshot.now);
        }
    }

    /// Writes what has been counted to the pools whose annotation says something else.
    async fn save(&self, context: &Context) {
        let unsaved = self.0.lock().unsaved();
        for (pool, text) in unsaved {
            let change = json!({"metadata": {"annotations": {annotation::UNSERVED_WORKLOADS: text}}});
            match write::merge(&context.all::<NodePool>(), pool.as_str(), &change).await {
                // A pool that is seen without the annotation from here on has lost it.
                Ok(written) => drop(written.map(|pool| context.view.put_pool(pool))),
                Err(error) => {
                    // The next pass writes it; until then a change of leader would forget it, or restore what has ended.
                    let mut state = self.0.lock();
                    state.written.remove(&pool);
                    state.unsure.insert(pool.clone());
                    drop(state);
                    tracing::warn!(nodepool = %pool, error = %Chain(&error), "cannot save the workloads that nodes did not serve");
                }
            }
        }
    }
}

impl State {
    /// Takes over what another leader has left.
    fn restore(&mut self, context: &Context, snapshot: &Snapshot, world: &World<'_>) {
        let mut saved = BTreeMap::new();
        for pool in context.view.pools() {
            let Some(text) = pool.object.annotations().get(annotation::UNSERVED_WORKLOADS) else { continue };
            match serde_json::from_str::<BTreeMap<Workload, Saved>>(text) {
                Ok(records) => drop(saved.insert(pool.model.name.clone(), records)),
                Err(error) => {
                    tracing::warn!(
                        nodepool = %pool.model.name, %error,
                        "ignored annotation `{}`: it is not what a controller wrote", annotation::UNSERVED_WORKLOADS
                    );
                }
            }
        }
        self.record.restore(saved, launched_for, snapshot, world);
    }

    /// Ends the holds of pools that have lost what was written to them.
    fn look_at_pools(&mut self, context: &Context) {
        let Self { record, written, .. } = self;
        written.retain(|name, _| {
            let Some(pool) = context.view.pool(name) else { return false };
            let kept = pool.object.annotations().contains_key(annotation::UNSERVED_WORKLOADS);
            if !kept {
                // A person has taken the annotation away.
                record.forget(name);
            }
            kept
        });
    }

    /// The pools whose annotation is to change, with the new text; `None` removes it.
    fn unsaved(&mut self) -> Vec<(PoolName, Option<String>)> {
        let saved: BTreeMap<PoolName, String> = self
            .record
            .saved()
            .into_iter()
            .filter_map(|(pool, records)| Some((pool, serde_json::to_string(&records).ok()?)))
            .collect();
        let written = self.written.keys().cloned().chain(std::mem::take(&mut self.unsure));
        let mut changes: Vec<_> =
            written.filter(|pool| !saved.contains_key(pool)).map(|pool| (pool, None)).collect();
        self.written.retain(|pool, _| saved.contains_key(pool));
        for (pool, text) in saved {
            if self.written.get(&pool) != Some(&text) {
                self.written.insert(pool.clone(), text.clone());
                changes.push((pool, Some(text)));
            }
        }
        changes
    }
}

/// The text of [`annotation::LAUNCHED_FOR`] of a claim that is launched for these pods.
pub(super) fn launched_for_text<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let workloads: BTreeSet<Workload> = pods.into_iter().map(Workload::of).collect();
    workloads.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn launched_for(node: &Node) -> Vec<Workload> {
    let claim = node.claim.as_ref();
    let text = claim.and_then(|claim| claim.annotations.get(annotation::LAUNCHED_FOR));
    text.map(|text| text.split(',').filter(|key| !key.is_empty()).map(Workload::from).collect())
        .unwrap_or_default()
}

fn world<'a>(context: &Context, snapshot: &'a Snapshot) -> World<'a> {
    World::of(snapshot, |class| context.view.class(class).map(|class| class.generation))
}

/// Logs and counts promises that have ended.
fn publish_ended(context: &Context, ended: &[Ended]) {
    for Ended { pod, claim, how } in ended {
        match how {
            Ending::Kept => tracing::debug!(%pod, nodeclaim = %claim, "pod has the node it was promised"),
            Ending::Withdrawn(reason) => {
                tracing::debug!(%pod, nodeclaim = %claim, reason, "withdrew what a pod was promised");
            }
            Ending::Broken(why) => {
                context.metrics.scheduler.unused_promises_total.inc([]);
                tracing::info!(%pod, nodeclaim = %claim, why, "a node was no use to the pod it was launched for");
                let message = format!("No use to pod `{pod}`, which it was launched for: {why}");
                publish(context, &About::Claim(claim.clone()), &message, "broken");
            }
        }
    }
}

/// Publishes which nodes came with other devices than their types were to bring along.
fn publish_devices(context: &Context) {
    let contradictions = context.view.with_cluster(|cluster| cluster.device_contradictions());
    for Contradiction { claim, driver, difference } in contradictions {
        let Some(object) = context.object(&About::Claim(claim)) else { continue };
        let message = format!(
            "Driver {driver} has published {difference}; nodes of this type are expected to have the same from now on"
        );
        let event = Event::new(object, reason::DEVICES_NOT_AS_DESCRIBED, message);
        context.recorder.publish(event.distinguished_by(driver.to_string()));
    }
}

/// Publishes the event, if its object is still known.
fn publish(context: &Context, about: &About, message: &str, topic: &str) {
    if let Some(object) = context.object(about) {
        let event = Event::new(object, reason::PROMISED_NODE_NOT_USED, message);
        context.recorder.publish(event.distinguished_by(topic.to_owned()));
    }
}

/// Publishes that pods like `pod` are held: on the claims whose nodes did not serve, and on the pool.
fn publish_on_nodes(context: &Context, pod: &Pod, held: &Held) {
    let Some(until) = held.until else { return };
    let message = format!("Not launching for pods like `{}` now: {}", pod.key, detail(held));
    let claims = held.claims.iter().cloned().map(About::Claim);
    for about in claims.chain(held.pool.clone().map(About::Pool)) {
        publish(context, &about, &message, &until.to_string());
    }
}

/// Reports the outcome of a pod that is held; as an event on the pod, too.
fn outcome(context: &Context, pod: &Pod, held: &Held) -> PodOutcome {
    let detail = detail(held);
    if let Some(until) = held.until {
        let message = format!("Not launching for this pod now: {detail}");
        publish(context, &About::Pod(PodRef::of(pod)), &message, &until.to_string());
    }
    let reason = Reason::new(ReasonCode::PromisedNodeNotUsed, detail);
    PodOutcome::Unschedulable(vec![PoolRefusal { pool: held.pool.clone(), reason }])
}

/// Returns why pods are held, and until when.
fn detail(held: &Held) -> String {
    match held.until {
        Some(until) => format!("{}; next try at {until:.0}", held.why),
        None => format!("{}; the nodes that are coming decide about more", held.why),
    }
}
