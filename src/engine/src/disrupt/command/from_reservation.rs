//! Removal of a node of a full reservation before what takes its place, which needs the instance that the node has.

use karpenter_model::{Command, Method};

use super::{Stays, command, slot};
use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::pass::Pass;
use crate::place::what_if::{Destinations, Patience};

/// The command of `method` that removes `candidate` first, if its reservation is full and all its pods would have a place once
/// its instance is free; asked after a simulation in which they had none. Budgets are the concern of the caller.
pub(crate) fn from_reservation<'a>(
    pass: &mut Pass<'a>,
    share: u32,
    candidate: &Candidate<'a>,
    method: Method,
) -> Result<Option<Command>, Stays> {
    let Some(freed) = slot::freed(pass.snapshot, candidate, |id| pass.is_taken(id)) else { return Ok(None) };
    // One node needs two simulations here. Where only the first was left, the next pass begins with it.
    if pass.stats(method).simulations >= share {
        return Err(Stays::NotReached);
    }
    pass.spend(method, 1);
    let simulated = pass
        .what_if_on(&freed, &[candidate.node], Destinations::All)
        .without(&[candidate.node], Patience::Full);
    if !simulated.unplaced.is_empty() {
        return Ok(None);
    }
    let launches = simulated.launches.iter().map(|quoted| &quoted.launch);
    brake::health_gates(launches, pass.memory, pass.snapshot).map_err(Stays::Held)?;
    let own = std::slice::from_ref(candidate);
    let command = command(method, own, Vec::new(), simulated.nominations, pass.snapshot);
    Ok(Some(Command { terminate_first: true, ..command }))
}
