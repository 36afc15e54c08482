//! Several nodes replaced by several: opt-in, because it moves many pods at once (the reference never does it).
//!
//! Nodes next to each other in order of savings are taken together, in groups of every size from each of the first
//! of them on. A group goes when what it needs costs clearly less, by an amount and by a share that are settings,
//! whatever offerings the launches end up with.

use karpenter_model::report::ReasonCode;
use karpenter_model::settings::ManyToMany;
use karpenter_model::{Node, Price, Snapshot};

use super::cheaper::{Narrowing, less};
use super::judge::{Proposal, all_pods_have_a_place, leaving};
use super::multi::{Found, Search};
use super::refusal::Refusal;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::least;
use crate::place::what_if::{Patience, Simulated};

/// Sizes of groups that are tried from each node on, small ones first: they disturb least.
const SIZES: [usize; 6] = [2, 3, 4, 6, 8, 12];
/// Most new nodes for each removed node.
const MAX_SPLIT: usize = 2;
/// Most groups that are tried in a pass.
const MAX_GROUPS: usize = 64;

/// The group of `candidates` that saves most.
pub(crate) fn best<'a>(search: &mut Search<'_, 'a>, candidates: &[Candidate<'a>]) -> Option<Found<'a>> {
    let of_size = |start: usize| move |size: usize| candidates.get(start..start + size);
    let groups = (0..candidates.len()).flat_map(|start| SIZES.into_iter().filter_map(of_size(start)));
    let mut best: Option<Found<'a>> = None;
    for group in groups.take(MAX_GROUPS) {
        let nodes: Vec<&Node> = group.iter().map(|candidate| candidate.node).collect();
        let patience = Patience::Until { launches: MAX_SPLIT * group.len() };
        let Some(simulated) = search.simulations.simulate(&nodes, patience) else { break };
        let Ok(proposal) = judge(group, simulated, search.snapshot) else { continue };
        let Some(found) = search.approved(proposal) else { continue };
        let savings = |found: &Found<'_>| found.proposal.savings();
        if best.as_ref().is_none_or(|known| savings(&found) > savings(known)) {
            best = Some(found);
        }
    }
    best
}

/// Judges whether `candidates` may be removed in exchange for all the nodes their pods would need.
pub(crate) fn judge<'a>(
    candidates: &[Candidate<'a>],
    simulated: Simulated,
    snapshot: &Snapshot,
) -> Result<Proposal<'a>, Refusal> {
    all_pods_have_a_place(&simulated)?;
    let Simulated { launches, nominations, used_nodes, .. } = simulated;
    let leaving = leaving(candidates);
    let affordable = affordable(leaving.price, &snapshot.settings.disruption.many_to_many);
    let spot_to_spot = snapshot.settings.gates.spot_to_spot_consolidation;
    let mut narrowed: Vec<Narrowing<'_>> =
        launches.into_iter().map(|quoted| Narrowing::new(quoted, snapshot)).collect();
    for one in &mut narrowed {
        one.comparable(candidates)?;
        one.spot_for_spot(leaving, spot_to_spot)?;
        // No launch may cost more than all of them; what it may be bought as is settled before worst cases are added.
        one.below_without_fallback(affordable)?;
    }
    let worst: Price = narrowed.iter().map(Narrowing::least_worst).sum();
    let spare = affordable.saturating_sub(worst).nanos();
    if spare <= 0 {
        let detail = format!("replacements cost {worst}, more than {affordable} is not worth it");
        return Err(Refusal::silent(ReasonCode::NotCheaper, detail));
    }
    // The rest is divided equally, so that each launch keeps some choice.
    let each = spare / i64::try_from(narrowed.len()).unwrap_or(i64::MAX).max(1);
    for one in &mut narrowed {
        one.below(one.least_worst().saturating_add(Price::from_nanos(each.max(1))))?;
    }
    let replacements: Vec<_> = narrowed.into_iter().map(Narrowing::finish).collect();
    Ok(Proposal {
        candidates: candidates.to_vec(),
        replacement_price: least(&replacements),
        replacements,
        nominations,
        used_nodes,
    })
}

/// The most replacements may cost: below `price` by the amount and by the share of the settings.
fn affordable(price: Price, settings: &ManyToMany) -> Price {
    less(price, settings.min_saving_percent).min(price.saturating_sub(settings.min_saving))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_amount_and_the_share_must_be_saved() {
        let settings = |min_saving, min_saving_percent| ManyToMany {
            enabled: true,
            min_saving: Price::from_nanos(min_saving),
            min_saving_percent,
        };
        let table = [(1_000, 0, 0, 1_000), (1_000, 100, 5, 900), (1_000, 10, 20, 800), (1_000, 0, 100, 0)];
        for (price, amount, percent, most) in table {
            assert_eq!(affordable(Price::from_nanos(price), &settings(amount, percent)).nanos(), most);
        }
    }
}
