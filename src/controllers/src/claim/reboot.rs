//! `nodeclaim.reboot`: reboots the machines of claims that repair has chosen for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::node::reboot::{self, Answer, Facts};
use karpenter_model::{Claim, ClaimName, ClaimUid, ConditionType, NodeObject, Pod};
use parking_lot::Mutex;

use crate::cloud;
use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodeclaim.reboot";

/// The reconciler.
pub(crate) struct Reboot {
    evictions: Evictions,
    /// Reboots that this process has asked for and that no claim shows as issued yet.
    asked: Mutex<BTreeMap<ClaimUid, Asked>>,
}

/// A call that is being made.
#[derive(Clone, Copy)]
struct Asked {
    /// Instant of the first try.
    since: Timestamp,
    /// The provider has accepted it: a write that failed afterwards is no reason to ask again.
    accepted: bool,
}

impl Reboot {
    pub(crate) fn new(evictions: Evictions) -> Self {
        Self { evictions, asked: Mutex::default() }
    }

    /// Asks the provider, unless it has accepted already; with the instant of the first try.
    async fn ask(&self, context: &Context, claim: &Claim) -> (Answer, Timestamp) {
        let first = Asked { since: context.now(), accepted: false };
        let asked = *self.asked.lock().entry(claim.uid.clone()).or_insert(first);
        let Some(id) = claim.provider_id.as_ref().filter(|_| !asked.accepted) else {
            return (Answer::Accepted, asked.since);
        };
        let answer = match cloud::call(context, NAME, "Reboot", context.provider.reboot(id)).await {
            Ok(()) => {
                tracing::info!("provider-id" = %id, "asked the cloud to reboot the instance");
                self.asked.lock().insert(claim.uid.clone(), Asked { accepted: true, ..asked });
                Answer::Accepted
            }
            Err(error) if error.not_found() => Answer::Refused(error.to_string()),
            Err(error) => {
                tracing::warn!(%error, "cannot reboot instance, trying again");
                Answer::Failed(error.to_string())
            }
        };
        (answer, asked.since)
    }
}

impl Reconciler for Reboot {
    type Key = ClaimName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(10, 1000))
    }

    async fn pass(&self, context: &Context, name: &ClaimName) -> Result<Done, Error> {
        let Some(known) = context.view.claim(name).filter(|known| {
            known.model.is_true(ConditionType::Rebooting) && context.manages(&known.model.node_class)
        }) else {
            return Ok(Done::idle());
        };
        let claim = &known.model;
        let nodes = claim.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.nodes_of(id));
        let node: Option<Arc<NodeObject>> =
            if let [node] = &nodes[..] { Some(Arc::clone(node)) } else { None };
        let pods = node.as_ref().map_or_else(Vec::new, |node| context.view.pods_on(&node.name));
        let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
        let facts = Facts { node: node.as_deref(), pods: &pods, now: context.now() };
        let step = if node.as_ref().is_some_and(|node| reboot::asks_provider(claim, node)) {
            let (answer, since) = self.ask(context, claim).await;
            reboot::answered(claim, facts, &answer, since)
        } else {
            // An entry that outlived its reboot would count the next one as asked for.
            self.asked.lock().remove(&claim.uid);
            reboot::step(claim, facts)
        };
        let mut pass = match node.clone() {
            Some(node) => Pass::over_node(context, NAME, &self.evictions, node, Some(&known)),
            None => Pass::over_claim(context, NAME, &self.evictions, &known),
        };
        pass.carry_out(step).await?;
        pass.finish().await
    }
}
