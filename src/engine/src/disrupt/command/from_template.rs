//! Commands for one node of a pool with a fixed number of nodes. What takes its place comes straight from the template, as far
//! as the node limit goes; nothing is simulated, because the pool keeps its number of nodes.

use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Launch, Method, Node, Pool, Price, Reason};

use super::{Stays, command};
use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::note::Note;
use crate::disrupt::pass::{Pass, Room};

/// The command of `method` for `candidate`, whose pool has `room` for what takes its place; where it has none, and
/// `terminate_first` allows that, the candidate goes before. Budgets are the concern of the caller.
pub(crate) fn from_template<'a>(
    pass: &mut Pass<'a>,
    room: &Room,
    candidate: &Candidate<'a>,
    method: Method,
    terminate_first: bool,
) -> Result<Command, Stays> {
    let (pool, snapshot) = (candidate.pool, pass.snapshot);
    let because = |code| Stays::Because(Reason::new(code, &pool.name));
    // A static pool sheds its surplus first, which may be this very node (spec disruption 3.7).
    if room.has_surplus {
        return Err(because(ReasonCode::ScaleDownFirst));
    }
    let at_limit = room.left == Some(0);
    if at_limit && !terminate_first {
        return Err(because(ReasonCode::NoHeadroom));
    }
    if at_limit {
        can_be_refilled(pass, candidate, method)?;
    }
    pass.may_command()
        .and_then(|()| brake::from_template(pool, pass.memory, snapshot))
        .map_err(Stays::Held)?;
    let launch = || Launch::from_template(pool, &snapshot.settings, &snapshot.registry);
    let replacements = if at_limit { Vec::new() } else { vec![launch()] };
    let command = command(method, std::slice::from_ref(candidate), replacements, Vec::new(), snapshot);
    // The price of a launch from the template is not known yet, so no savings are stated.
    Ok(Command { savings: Price::ZERO, terminate_first: at_limit, ..command })
}

/// Checks that what keeps the number of nodes will launch in place of `candidate`. Nodes that are still missing count as
/// disrupted, also once their instances are being ended, which budgets no longer count.
fn can_be_refilled(pass: &mut Pass<'_>, candidate: &Candidate<'_>, method: Method) -> Result<(), Stays> {
    let pool = candidate.pool;
    if !pool.ready || pool.deleting {
        let text = "static NodePool is at its node limit and is not ready to provision a replacement";
        pass.note(Note::blocked(&candidate.node.id, ReasonCode::NoHeadroom, pool.name.as_str(), text));
        return Err(Stays::Because(Reason::new(ReasonCode::NoHeadroom, &pool.name)));
    }
    let missing = missing(candidate, pass);
    if pass.budgets.allowed(&pool.name, method.reason()) <= missing {
        let detail = format!("{} waits for {missing} nodes that are to take the place of others", pool.name);
        return Err(Stays::Because(Reason::new(ReasonCode::Budget, detail)));
    }
    Ok(())
}

/// Returns how many of the nodes that the pool of `candidate` wants are missing or being removed, itself aside: by commands of
/// this pass too.
fn missing(candidate: &Candidate<'_>, pass: &Pass<'_>) -> u32 {
    let pool: &Pool = candidate.pool;
    let stays = |node: &&std::sync::Arc<Node>| {
        let own = node.claim.as_ref().and_then(|claim| claim.pool.as_ref()) == Some(&pool.name);
        let up = node.initialized() || node.id == candidate.node.id;
        own && up && !node.is_leaving() && !pass.is_taken(&node.id)
    };
    let there = pass.snapshot.nodes.iter().filter(stays).count();
    let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
    u32::try_from(wanted.saturating_sub(there)).unwrap_or(u32::MAX)
}
