//! Carries out what a step function asked for. Nothing here decides: effects are done in order, the first that
//! fails ends the step, and what changed on the claim is written at the end of the pass.

pub mod conditions;
pub(crate) mod draft;
pub(crate) mod health;
pub(crate) mod node_write;
pub(crate) mod request;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_cloud::{Retry, Termination};
use karpenter_kube_harness::queue::Done;
use karpenter_kube_harness::watch::Seen;
use karpenter_kube_harness::write;
use karpenter_lifecycle::claim::{finalize, launch};
use karpenter_lifecycle::node::termination;
use karpenter_lifecycle::step::{DeletionCause, Effect, Milestone, NodePatch, Step, Wake};
use karpenter_model::names::finalizer;
use karpenter_model::{Claim, NodeName, NodeObject, ProviderId};

use crate::cloud;
use crate::pass::draft::Draft;
use crate::pods::evict::{self, Evictions};
use crate::pods::nominate;
use crate::publish::step::{publish_event, record_milestone};
use crate::view::KnownClaim;
use crate::{Context, Error};

/// One pass over one object: its surroundings, the working copy of the claim, and the milestones to publish.
pub(crate) struct Pass<'a> {
    context: &'a Context,
    controller: &'static str,
    evictions: &'a Evictions,
    /// The Node the pass is about, for passes over Nodes.
    node: Option<Arc<NodeObject>>,
    draft: Option<Draft>,
    milestones: Vec<Milestone>,
    wake: Wake,
    applied: bool,
    /// The claim's deletion was asked for in this pass.
    deleted: bool,
    /// The claim is gone for good; there is nothing to write to.
    gone: bool,
}

impl<'a> Pass<'a> {
    /// A pass over a claim.
    pub(crate) fn over_claim(
        context: &'a Context,
        controller: &'static str,
        evictions: &'a Evictions,
        claim: &KnownClaim,
    ) -> Self {
        let draft = Some(Draft::of(claim, context.now()));
        Self::new(context, controller, evictions, None, draft)
    }

    /// A pass over a Node and the claim it belongs to, if there is exactly one.
    pub(crate) fn over_node(
        context: &'a Context,
        controller: &'static str,
        evictions: &'a Evictions,
        node: Arc<NodeObject>,
        claim: Option<&KnownClaim>,
    ) -> Self {
        let draft = claim.map(|claim| Draft::of(claim, context.now()));
        Self::new(context, controller, evictions, Some(node), draft)
    }

    fn new(
        context: &'a Context,
        controller: &'static str,
        evictions: &'a Evictions,
        node: Option<Arc<NodeObject>>,
        draft: Option<Draft>,
    ) -> Self {
        Self {
            context,
            controller,
            evictions,
            node,
            draft,
            milestones: Vec::new(),
            wake: Wake::OnEvent,
            applied: false,
            deleted: false,
            gone: false,
        }
    }

    /// Adds the conditions every claim must have.
    pub(crate) fn open_conditions(&mut self) {
        if let Some(draft) = &mut self.draft {
            draft.open_conditions();
        }
    }

    /// The claim with all changes so far.
    pub(crate) fn claim(&self) -> Option<Arc<Claim>> {
        self.draft.as_ref().map(|draft| draft.claim(self.context.view.registry()))
    }

    /// True once the claim is gone for good.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Carries out `step`; condition changes wait for [`Pass::finish`].
    pub(crate) async fn carry_out(&mut self, step: Step) -> Result<(), Error> {
        let Step { effects, conditions, wake } = step;
        self.wake = self.wake.sooner(wake);
        for effect in effects {
            self.effect(effect).await?;
        }
        if let Some(draft) = &mut self.draft {
            for change in &conditions {
                draft.change(change);
            }
        }
        Ok(())
    }

    async fn effect(&mut self, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::AddFinalizer => self.add_finalizer().await,
            Effect::RemoveFinalizer => self.remove_finalizer().await,
            Effect::Launch => self.launch().await,
            Effect::Terminate(id) => self.terminate(&id).await,
            Effect::LookUp => self.look_up().await,
            Effect::DeleteClaim(cause) => self.delete_claim(cause).await,
            Effect::Nominate(node) => {
                if let Some(draft) = &self.draft {
                    nominate::pods_of(self.context, draft.name(), &node).await;
                }
                Ok(())
            }
            Effect::PatchNode(patch) => self.patch_node(&patch).await,
            Effect::DeleteNode(name) => self.delete_node(&name).await,
            Effect::RemoveNodeFinalizer(name) => self.remove_node_finalizer(&name).await,
            Effect::DeletePod(pod, grace) => {
                self.applied = true;
                evict::delete_pod(self.context, &pod, Duration::from_secs(grace.into())).await
            }
            // Queued and not awaited: an eviction that a budget refuses is repeated for as long as the drain
            // lasts.
            Effect::Evict(pod) => {
                if let Some(node) = &self.node {
                    self.evictions.add(self.context, &pod, &node.name);
                }
                Ok(())
            }
            Effect::RegistrationHealth(outcome) => {
                if let Some(claim) = self.claim() {
                    // Only information: a status that cannot be written must not keep the claim from
                    // registering.
                    health::note(self.context, &claim, &outcome).await;
                }
                Ok(())
            }
            Effect::Event(event) => {
                publish_event(self.context, &event);
                Ok(())
            }
            Effect::Milestone(milestone) => {
                self.milestones.push(milestone);
                Ok(())
            }
            Effect::RecordLaunch(launched) => self.draw(|draft| draft.record_launch(&launched)),
            Effect::RecordMachine(id) => self.draw(|draft| draft.record_machine(&id)),
            Effect::RecordNode(name) => self.draw(|draft| draft.record_node(&name)),
            Effect::LabelClaim(key, value) => self.draw(|draft| draft.label(&key, &value)),
            Effect::AnnotateClaim(annotations) => self.draw(|draft| draft.annotate(&annotations)),
            Effect::ForgetAnnotations(keys) => self.draw(|draft| draft.forget_annotations(&keys)),
            Effect::RecordPodEvent(at) => self.draw(|draft| draft.record_pod_event(at)),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "one signature for all effects")]
    fn draw(&mut self, change: impl FnOnce(&mut Draft)) -> Result<(), Error> {
        if let Some(draft) = &mut self.draft {
            change(draft);
        }
        Ok(())
    }

    async fn add_finalizer(&mut self) -> Result<(), Error> {
        let Some(draft) = &self.draft else { return Ok(()) };
        let Some(patch) = write::with_finalizer(draft.object(), finalizer::TERMINATION) else {
            return Ok(());
        };
        let name = draft.name().to_owned();
        match write::merge(&self.context.all::<NodeClaim>(), &name, &patch).await? {
            Some(claim) => {
                self.applied = true;
                self.draft = Some(Draft::new(self.context.view.put_claim(claim), self.context.now()));
            }
            None => self.gone = true,
        }
        Ok(())
    }

    async fn remove_finalizer(&mut self) -> Result<(), Error> {
        let Some(draft) = &self.draft else { return Ok(()) };
        let Some(patch) = write::without_finalizer(draft.object(), finalizer::TERMINATION) else {
            return Ok(());
        };
        let name = draft.name().to_owned();
        let left = write::merge(&self.context.all::<NodeClaim>(), &name, &patch).await?;
        self.applied = true;
        self.gone = true;
        match left {
            // The finalizer of another controller keeps the object; ours is done with it.
            Some(claim) if claim.metadata.finalizers.as_ref().is_some_and(|left| !left.is_empty()) => {
                self.context.view.put_claim(claim);
            }
            Some(claim) => {
                self.context.view.take(Seen::Deleted(claim));
            }
            // The watch shows the rest.
            None => {}
        }
        Ok(())
    }

    async fn launch(&mut self) -> Result<(), Error> {
        let Some(draft) = &self.draft else { return Ok(()) };
        let answer = request::ask(self.context, self.controller, draft.object()).await;
        let Some(claim) = self.claim() else { return Ok(()) };
        // Before the claim is deleted, and its promises with it.
        let promised = self.context.view.with_cluster(|cluster| cluster.promised(&claim.name));
        let next = launch::answered(&claim, answer, promised.iter().map(AsRef::as_ref));
        // Boxed, because the answer to an effect is a step with effects: a future cannot contain itself.
        Box::pin(self.carry_out(next)).await
    }

    async fn terminate(&mut self, id: &ProviderId) -> Result<(), Error> {
        let context = self.context;
        let answer =
            match cloud::call(context, self.controller, "Delete", context.provider.terminate(id)).await {
                Ok(Termination::Started) => finalize::Answer::Started,
                Ok(Termination::AlreadyGone) => finalize::Answer::Gone,
                Err(error) if error.not_found() => finalize::Answer::Gone,
                Err(error) => {
                    tracing::warn!(%error, "cannot terminate instance, trying again");
                    match error.kind.retry() {
                        // A missing right or a protected instance ends only when a person acts, so it is
                        // published on the object.
                        Retry::Slowly => finalize::Answer::Refused(error.to_string()),
                        Retry::Backoff | Retry::Never => finalize::Answer::Failed(error.to_string()),
                    }
                }
            };
        self.applied = true;
        let now = context.now();
        let next = match (&self.node, self.claim()) {
            (Some(node), _) => termination::terminated(node, &answer, now),
            (None, Some(claim)) => finalize::terminated(&claim, &answer, now),
            (None, None) => Step::idle(),
        };
        Box::pin(self.carry_out(next)).await
    }

    async fn look_up(&mut self) -> Result<(), Error> {
        let (context, Some(claim)) = (self.context, self.claim()) else { return Ok(()) };
        let asked = context.provider.machine_of(&claim.name);
        let found = match cloud::call(context, self.controller, "Get", asked).await {
            Ok(Some(id)) => {
                tracing::info!("provider-id" = %id, "found the instance of a deleted nodeclaim that knew none");
                finalize::Found::Machine(id)
            }
            Ok(None) => finalize::Found::Nothing,
            Err(error) => {
                tracing::warn!(%error, "cannot find out whether there is an instance, trying again");
                finalize::Found::Failed(error.to_string())
            }
        };
        let next = finalize::looked_up(&claim, &found, context.now());
        Box::pin(self.carry_out(next)).await
    }

    async fn delete_claim(&mut self, cause: DeletionCause) -> Result<(), Error> {
        self.annotate_first().await?;
        // Once in a pass: several stages may ask for it, and a deletion is counted.
        let Some(draft) = self.draft.as_ref().filter(|_| !self.deleted) else { return Ok(()) };
        let object = draft.object();
        let deleted =
            write::delete(&self.context.all::<NodeClaim>(), draft.name(), object.metadata.uid.clone())
                .await?;
        self.deleted = true;
        if deleted {
            self.applied = true;
            crate::publish::disrupted(self.context, object, cause.label(), None);
        }
        Ok(())
    }

    /// Writes annotations that a step set for the claim before its deletion, such as the deadline of the drain that
    /// the deletion starts.
    async fn annotate_first(&mut self) -> Result<(), Error> {
        // The draft begins again from what is written here, so a change of its status would be lost.
        let Some(draft) = self.draft.as_ref().filter(|draft| !self.deleted && !draft.changes_status()) else {
            return Ok(());
        };
        let Some(patch) = draft.metadata_patch() else { return Ok(()) };
        let written = write::merge(&self.context.all::<NodeClaim>(), draft.name(), &patch).await?;
        if let Some(claim) = written {
            self.applied = true;
            self.draft = Some(Draft::new(self.context.view.put_claim(claim), self.context.now()));
        }
        Ok(())
    }

    async fn patch_node(&mut self, patch: &NodePatch) -> Result<(), Error> {
        let Some(known) = self.context.view.node(&patch.node) else { return Ok(()) };
        let Some(body) = node_write::body(&known.object, patch) else { return Ok(()) };
        if let Some(node) = write::merge(&self.context.all::<Node>(), patch.node.as_str(), &body).await? {
            self.applied = true;
            self.context.view.put_node(node);
        }
        Ok(())
    }

    async fn delete_node(&mut self, name: &NodeName) -> Result<(), Error> {
        let uid = self.context.view.node(name).and_then(|node| node.object.metadata.uid.clone());
        self.applied |= write::delete(&self.context.all::<Node>(), name.as_str(), uid).await?;
        Ok(())
    }

    async fn remove_node_finalizer(&mut self, name: &NodeName) -> Result<(), Error> {
        let Some(known) = self.context.view.node(name) else { return Ok(()) };
        let Some(patch) = write::without_finalizer(&*known.object, finalizer::TERMINATION) else {
            return Ok(());
        };
        self.applied = true;
        match write::merge(&self.context.all::<Node>(), name.as_str(), &patch).await? {
            Some(node) if node.metadata.finalizers.as_ref().is_some_and(|left| !left.is_empty()) => {
                self.context.view.put_node(node);
            }
            Some(node) => {
                self.context.view.take(Seen::Deleted(node));
            }
            // The watch shows the rest.
            None => {}
        }
        Ok(())
    }

    /// Writes what changed on the claim, then publishes what happened, and returns when to look again.
    pub(crate) async fn finish(mut self) -> Result<Done, Error> {
        // First: a pass whose write fails is repeated, and must not publish its milestones twice.
        let written = self.write_claim().await?;
        for milestone in &self.milestones {
            record_milestone(self.context, self.claim().as_deref(), self.node.as_deref(), milestone);
        }
        let done = if self.applied || written { Done::applied() } else { Done::idle() };
        Ok(match self.wake {
            Wake::OnEvent => done,
            Wake::After(delay) => done.after(delay),
            Wake::Backoff => done.backoff(),
        })
    }

    async fn write_claim(&mut self) -> Result<bool, Error> {
        let Some(draft) = self.draft.as_ref().filter(|_| !self.gone) else { return Ok(false) };
        let (claims, mut present) = (self.context.all::<NodeClaim>(), Arc::clone(draft.base()));
        let mut written = false;
        if let Some(patch) = draft.metadata_patch() {
            let Some(claim) = write::merge(&claims, draft.name(), &patch).await? else { return Ok(false) };
            if claim.metadata.uid != draft.base().metadata.uid {
                // Another claim under the same name, made meanwhile: nothing of this pass is about it.
                return Ok(false);
            }
            // Conditions are replaced as a list, so they may only go where what they were made from still stands.
            if claim.status == draft.base().status {
                present = Arc::new(claim.clone());
            }
            self.context.view.put_claim(claim);
            written = true;
        }
        if let Some(patch) = draft.status_patch(&present) {
            let Some(claim) = write::merge_status(&claims, draft.name(), &patch).await? else {
                return Ok(false);
            };
            self.context.view.put_claim(claim);
            written = true;
        }
        Ok(written)
    }
}
