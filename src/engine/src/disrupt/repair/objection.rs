//! Reasons why a node that should be repaired stays, whatever its budget.

use std::collections::BTreeSet;

use karpenter_model::names::annotation;
use karpenter_model::repair::{BREAKER_PERCENT, Repair};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Node, PoolName, Reason};

use crate::disrupt::candidate::choice::Choice;
use crate::disrupt::candidate::{Blocker, Candidate};
use crate::disrupt::note::{Note, NoteKind};

/// Reason why it stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The annotation of the node or its claim forbids it.
    DoNotRepair,
    /// Its pods cannot leave now, and nothing would ever end the drain.
    Endless(Blocker),
    /// Too many nodes of the pool are broken.
    Breaker(PoolName),
}

/// The repair of `candidate` that `choice` asks for, unless something keeps the node; `tripped` are the pools whose breaker is
/// open.
pub(crate) fn wanted(
    candidate: &Candidate<'_>,
    choice: &Choice<'_>,
    tripped: &BTreeSet<PoolName>,
) -> Result<Repair, Objection> {
    if must_not_be_repaired(candidate.node) {
        return Err(Objection::DoNotRepair);
    }
    let repair = choice.repair(candidate.claim);
    // Such a drain could last without an end: the node would be neither repaired nor in service.
    if repair.drain.is_none()
        && let Some(blocker) = candidate.pods()
    {
        return Err(Objection::Endless(blocker.clone()));
    }
    if tripped.contains(&candidate.pool.name) {
        return Err(Objection::Breaker(candidate.pool.name.clone()));
    }
    Ok(repair)
}

/// Returns whether the node carries the exact text, on either object.
fn must_not_be_repaired(node: &Node) -> bool {
    let claim = node.claim.iter().map(|claim| &claim.annotations);
    let mut all = claim.chain([&node.annotations]);
    all.any(|annotations| annotations.get(annotation::DO_NOT_REPAIR).is_some_and(|text| text == "true"))
}

impl Objection {
    /// Returns the objection as a reason with operands.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::DoNotRepair => Reason::bare(ReasonCode::DoNotRepair),
            Self::Endless(blocker) => Reason::new(ReasonCode::RepairUnbounded, blocker.reason()),
            Self::Breaker(pool) => Reason::new(
                ReasonCode::RepairBreaker,
                format_args!("more than {BREAKER_PERCENT}% of pool {pool}"),
            ),
        }
    }

    /// The events about `candidate`; texts of the reference.
    pub(crate) fn notes(&self, candidate: &Candidate<'_>) -> Vec<Note> {
        let id = &candidate.node.id;
        let blocked =
            |operand: &str, text: String| vec![Note::blocked(id, self.reason().code, operand, text)];
        match self {
            Self::DoNotRepair => blocked(
                "",
                format!("repair is blocked through the {:?} annotation", annotation::DO_NOT_REPAIR),
            ),
            Self::Endless(blocker) => blocked(
                &blocker.reason().detail,
                "repair requires a termination grace period to bypass blocking pods".to_owned(),
            ),
            Self::Breaker(pool) => {
                let text = format!(
                    "more than {BREAKER_PERCENT}% of nodes in nodepool {:?} are unhealthy",
                    pool.as_str()
                );
                let kind = NoteKind::NodeRepairBlocked;
                vec![Note::machine(id, kind, text.clone()), Note::pool(pool, kind, text)]
            }
        }
    }
}
