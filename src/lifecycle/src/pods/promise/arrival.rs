//! The machine that came for a claim, held against what the claim announced.

use std::fmt::Write;

use karpenter_model::{
    Claim, ClaimName, ConditionType, InstanceTypeName, Node, PoolName, Resources, Taint, resources,
};

/// Progress of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The claim exists, and no instance is known to.
    Created,
    /// The instance exists.
    Launched,
    /// Its Node has joined.
    Registered,
    /// The Node has everything that initialization waits for.
    Initialized,
}

/// The machine of a claim when a pass last saw it.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// The machine, as people name it.
    pub(super) name: String,
    pub(super) stage: Stage,
    pub(super) pool: Option<PoolName>,
    pub(super) instance_type: Option<InstanceTypeName>,
    /// Taints its claim did not announce.
    pub(super) taints: Vec<Taint>,
    /// Resources it has less of and labels it lacks, compared with its claim, as texts.
    pub(super) lacks: Vec<String>,
    /// This controller has decided to remove it, because it is empty for instance.
    pub(super) removed_by_us: bool,
    /// Pool or node class have changed since it was launched.
    pub(super) drifted: bool,
}

impl Arrival {
    pub(super) fn of(claim: &Claim, node: &Node) -> Self {
        let stage = stage(claim);
        // Before the Node has joined there is nothing to compare.
        let came = stage >= Stage::Registered;
        Self {
            name: display(&claim.name, node),
            stage,
            pool: claim.pool.clone(),
            instance_type: claim.instance_type(),
            taints: if came { unannounced(claim, node) } else { Vec::new() },
            lacks: if came { lacks(claim, node, stage) } else { Vec::new() },
            removed_by_us: node.marked_for_deletion || claim.is_true(ConditionType::DisruptionReason),
            drifted: claim.is_true(ConditionType::Drifted),
        }
    }

    /// Returns whether the machine differs from the announcement of its claim.
    pub(super) fn differs(&self) -> bool {
        !self.taints.is_empty() || !self.lacks.is_empty()
    }

    /// The machine, and what it has that was not announced.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} came up and was not used; ", self.name);
        let taints = self.taints.iter().map(|taint| format!("taint `{taint}`"));
        let found: Vec<String> = taints.chain(self.lacks.iter().cloned()).collect();
        // Writing to a String cannot fail.
        let _ = match found.as_slice() {
            [] => write!(text, "although it is what was announced: the events of the scheduler say why"),
            found => write!(text, "it has {}, which was not announced", found.join(", ")),
        };
        text
    }
}

/// Taints of a node that its claim does not announce, without the one that this controller puts on what it removes.
pub(super) fn unannounced(claim: &Claim, node: &Node) -> Vec<Taint> {
    let mut taints = node.effective_taints();
    taints.retain(|taint| !claim.taints.contains(taint) && !taint.matches(&Taint::disrupted()));
    taints
}

fn stage(claim: &Claim) -> Stage {
    if claim.is_true(ConditionType::Initialized) {
        Stage::Initialized
    } else if claim.is_true(ConditionType::Registered) {
        Stage::Registered
    } else if claim.provider_id.is_some() {
        Stage::Launched
    } else {
        Stage::Created
    }
}

fn display(claim: &ClaimName, node: &Node) -> String {
    match &node.name {
        Some(name) => format!("node `{name}`"),
        None => format!("the node of nodeclaim `{claim}`"),
    }
}

/// Device plugins advertise their resources some time after the node joins, so those count from the initialization on; and where
/// the claim asks for them, because many clusters run no plugin for what a type could have (`vpc.amazonaws.com/pod-eni`).
fn lacks(claim: &Claim, node: &Node, stage: Stage) -> Vec<String> {
    let at_once = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE, resources::PODS];
    let room = claim.allocatable.iter().filter_map(|(resource, wanted)| {
        let asked = || stage >= Stage::Initialized && claim.requests.get(resource.as_str()).is_some();
        let known = at_once.contains(&resource.as_str()) || asked();
        let found = node.allocatable.amount(resource.as_str());
        (known && found < *wanted).then(|| format!("{resource} {found} instead of {wanted}"))
    });
    let labels = claim.labels.iter().filter_map(|(key, wanted)| match node.labels.get(key) {
        Some(found) if found == wanted => None,
        Some(found) => Some(format!("label `{key}={found}` instead of `{key}={wanted}`")),
        None => Some(format!("no label `{key}={wanted}`")),
    });
    room.chain(labels).collect()
}

/// Room that is left on a machine beside its pods and those that are promised the rest.
pub(super) fn free(node: &Node, promised: &Resources) -> Resources {
    node.effective_allocatable().subtract(&node.requested()).subtract(promised)
}

/// Amounts as people read them.
pub(super) fn amounts(resources: &Resources) -> String {
    let amounts = resources.iter().map(|(name, amount)| format!("{name} {amount}"));
    amounts.collect::<Vec<_>>().join(", ")
}
