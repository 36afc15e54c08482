//! `nodeclaim.lifecycle`: launches, registers, initializes, gives up and finalizes NodeClaims.
//!
//! Every pass starts from what is true now and runs all stages in order; a stage that fails does not keep the
//! later ones from running, so a claim whose launch keeps failing is still given up in time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_cloud::RegistrationHook;
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_kube_harness::write;
use karpenter_lifecycle::claim::entry::{self, Entry};
use karpenter_lifecycle::claim::liveness::Demand;
use karpenter_lifecycle::claim::registration::{self, Hook, HookState};
use karpenter_lifecycle::claim::{finalize, hydration, initialization, launch, liveness};
use karpenter_lifecycle::step::Step;
use karpenter_model::{Claim, ClaimName, ConditionType, NodeObject, ProviderId};
use karpenter_telemetry::observe::step;

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodeclaim.lifecycle";

/// The reconciler.
pub(crate) struct Lifecycle {
    pub(crate) evictions: Evictions,
}

impl Reconciler for Lifecycle {
    type Key = ClaimName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(1000, 5000))
    }

    async fn pass(&self, context: &Context, name: &ClaimName) -> Result<Done, Error> {
        let Some(known) = context.view.claim(name) else { return Ok(Done::idle()) };
        let Some(way) = entry::way(&known.model, |class| context.manages(class)) else {
            return Ok(Done::idle());
        };
        let mut pass = Pass::over_claim(context, NAME, &self.evictions, &known);
        let mut errors = Vec::new();
        match way {
            Entry::Finalize => {
                let claim = pass.claim().unwrap_or_else(|| Arc::clone(&known.model));
                let nodes = nodes_of(context, &claim);
                step("finalize", pass.carry_out(finalize::step(&claim, &borrowed(&nodes)))).await?;
            }
            // The stored finalizer comes back as an event.
            Entry::Prepare(wanted) => step("finalizer", pass.carry_out(wanted)).await?,
            Entry::Live => {
                pass.open_conditions();
                errors = stages(context, &mut pass).await;
            }
        }
        match pass.finish().await {
            Ok(done) => Error::combined(errors).map(|()| done),
            Err(error) => Error::combined(errors.into_iter().chain([error]).collect()).map(|()| Done::idle()),
        }
    }
}

/// All stages of a claim that is not being deleted, in order; what failed comes back.
async fn stages(context: &Context, pass: &mut Pass<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    for stage in STAGES {
        if pass.is_gone() {
            break;
        }
        let Some(claim) = pass.claim() else { break };
        let nodes = nodes_of(context, &claim);
        let nodes = borrowed(&nodes);
        let hooks = if stage.asks_hooks { hooks(context, &claim, &nodes).await } else { Vec::new() };
        let lost = if stage.asks_node { has_lost_node(context, &claim, &nodes).await } else { Ok(false) };
        // A read that failed proves nothing, so the Node does not count as lost.
        let lost = lost.unwrap_or_else(|error| {
            errors.push(error);
            false
        });
        let wanted = (stage.step)(Facts { context, claim: &claim, nodes: &nodes, hooks: &hooks, lost });
        if let Err(error) = step(stage.name, pass.carry_out(wanted)).await {
            errors.push(error);
        }
        // The machine may have joined already, if an earlier process launched it. The claim names it before
        // the node takes pods, so that a notice about the machine finds its claim; the write brings the next pass.
        if claim.provider_id.is_none() && pass.claim().is_some_and(|claim| claim.provider_id.is_some()) {
            break;
        }
    }
    errors
}

/// One stage in the life of a claim.
struct Stage {
    name: &'static str,
    /// True if the stage needs the results of the provider's hooks.
    asks_hooks: bool,
    /// True if the stage needs to check for the Node of a registered claim.
    asks_node: bool,
    step: fn(Facts<'_>) -> Step,
}

/// Inputs of a stage.
#[derive(Clone, Copy)]
struct Facts<'a> {
    context: &'a Context,
    claim: &'a Claim,
    nodes: &'a [&'a NodeObject],
    hooks: &'a [Hook],
    lost: bool,
}

const STAGES: [Stage; 5] = [
    Stage {
        name: "hydration",
        asks_hooks: false,
        asks_node: false,
        step: |facts| hydration::claim(facts.claim),
    },
    Stage { name: "launch", asks_hooks: false, asks_node: false, step: |facts| launch::step(facts.claim) },
    Stage {
        name: "registration",
        asks_hooks: true,
        asks_node: false,
        step: |facts| registration::step(facts.claim, facts.nodes, facts.hooks),
    },
    Stage {
        name: "initialization",
        asks_hooks: false,
        asks_node: false,
        step: |facts| {
            let names: Vec<_> = facts.nodes.iter().map(|node| &node.name).collect();
            let slices = facts.context.view.slices_of(&names);
            let facts_of_node = initialization::Facts { nodes: facts.nodes, slices: slices.as_deref() };
            initialization::step(facts.claim, facts_of_node)
        },
    },
    Stage {
        name: "liveness",
        asks_hooks: false,
        asks_node: true,
        step: |facts| {
            let (decisions, now) = (&facts.context.settings.decisions, facts.context.now());
            let overdue = liveness::is_overdue(facts.claim, decisions.registration_timeout, now);
            // A snapshot takes time in proportion to the cluster, and few Nodes are overdue.
            let snapshot = if overdue { facts.context.snapshot() } else { None };
            let demand = snapshot.map(|snapshot| Demand::of(facts.claim, &snapshot)).unwrap_or_default();
            let facts_of_end = liveness::Facts {
                registration: decisions.registration_timeout,
                initialization: decisions.initialization_timeout,
                nodes: facts.nodes,
                lost: facts.lost,
                demand: &demand,
            };
            liveness::step(facts.claim, facts_of_end, now)
        },
    },
];

/// Returns whether the Node of a registered claim is gone, by a consistent read: no watch that is behind ends a machine.
async fn has_lost_node(context: &Context, claim: &Claim, nodes: &[&NodeObject]) -> Result<bool, Error> {
    let joined = claim.is_true(ConditionType::Registered);
    // Until all kinds have been listed an absent Node may only be unlisted.
    if !joined || !nodes.is_empty() || !context.view.unlisted().is_empty() {
        return Ok(false);
    }
    let Some(name) = &claim.node_name else { return Ok(true) };
    let node: Option<Node> = write::read(&context.all(), name.as_str()).await?;
    // Another machine may have got its name.
    let id = node.and_then(|node| node.spec?.provider_id);
    Ok(id.as_deref() != claim.provider_id.as_ref().map(ProviderId::as_str))
}

/// Answers of the hooks of the provider, if the claim is at the point where they matter.
async fn hooks(context: &Context, claim: &Claim, nodes: &[&NodeObject]) -> Vec<Hook> {
    if !registration::asks_hooks(claim, nodes) {
        return Vec::new();
    }
    let answers = context.provider.registration_hooks(claim).await;
    let hook = |answer: RegistrationHook| {
        let state = match answer.state {
            karpenter_cloud::HookState::Ready => HookState::Ready,
            karpenter_cloud::HookState::Pending(after) => HookState::Pending(after),
            karpenter_cloud::HookState::Failed(error) => {
                tracing::warn!(nodeclaim = %claim.name, hook = answer.name, %error, "registration hook failed");
                HookState::Failed
            }
        };
        Hook { name: answer.name.to_owned(), state, labels: answer.labels }
    };
    answers.into_iter().map(hook).collect()
}

fn nodes_of(context: &Context, claim: &Claim) -> Vec<Arc<NodeObject>> {
    claim.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.nodes_of(id))
}

fn borrowed(nodes: &[Arc<NodeObject>]) -> Vec<&NodeObject> {
    nodes.iter().map(AsRef::as_ref).collect()
}
