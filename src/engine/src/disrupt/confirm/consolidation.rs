//! The second look at consolidation: the nodes still qualify, their pods still fit, what would be bought is still
//! cheaper and still worth it. The reference looks at neither prices nor scores again.

use std::collections::BTreeSet;

use karpenter_model::Command;
use karpenter_model::report::ReasonCode;

use super::{Look, Rejection, RejectionKind};
use crate::disrupt::candidate::Candidate;
use crate::disrupt::consolidation::{self, Proposal, Refusal};
use crate::place::what_if::{Destinations, Simulated};

impl Look<'_, '_> {
    /// The command as it would be proposed now, for no other instance types than before.
    pub(super) fn at_consolidation(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        for candidate in &self.still {
            if let Err(refusal) = consolidation::check(candidate, self.assumed_cluster.snapshot) {
                let nodes = vec![candidate.node.id.clone()];
                let detail = refusal.reason.to_string();
                return Err(Rejection { kind: RejectionKind::Churn, nodes, detail });
            }
        }
        self.all_within_budget()?;
        let mut simulated = self.simulate(Destinations::Quiet)?;
        self.only_what_it_would_buy(&mut simulated)?;
        let snapshot = self.assumed_cluster.snapshot;
        let proposal = consolidation::judge(self.command.method, &self.still, simulated, snapshot)
            .map_err(|refusal| self.refused(&refusal))?;
        self.everything_is_still_cheap(&proposal)?;
        let candidates: Vec<&Candidate<'_>> = self.still.iter().collect();
        if let Some(weighed) =
            self.assumed_cluster.totals.judge(&candidates, proposal.replacement_price).rejection()
        {
            return Err(self.rejected(RejectionKind::Score, weighed.text()));
        }
        Ok(self.as_now(proposal.replacements, proposal.nominations))
    }

    /// Reduces the launches of the fresh simulation to the instance types that the command would buy, each of which must be
    /// there.
    fn only_what_it_would_buy(&self, simulated: &mut Simulated) -> Result<(), Rejection> {
        self.pair_replacements(&mut simulated.launches)?;
        for (quoted, launch) in simulated.launches.iter_mut().zip(&self.command.replacements) {
            let wanted: BTreeSet<_> = launch.instance_types.iter().collect();
            let offered =
                quoted.launch.instance_types.iter().cloned().zip(std::mem::take(&mut quoted.quotes));
            let (names, quotes): (Vec<_>, Vec<_>) = offered.filter(|(name, _)| wanted.contains(name)).unzip();
            (quoted.launch.instance_types, quoted.quotes) = (names.into(), quotes);
        }
        Ok(())
    }

    /// Checks that no instance type of the command has become too expensive.
    fn everything_is_still_cheap(&self, proposal: &Proposal<'_>) -> Result<(), Rejection> {
        for (fresh, launch) in proposal.replacements.iter().zip(&self.command.replacements) {
            let cheap: BTreeSet<_> = fresh.instance_types.iter().collect();
            if let Some(expensive) = launch.instance_types.iter().find(|name| !cheap.contains(name)) {
                let detail = format!("instance type {expensive} is not cheap enough any more");
                return Err(self.rejected(RejectionKind::Price, detail));
            }
        }
        Ok(())
    }

    fn refused(&self, refusal: &Refusal) -> Rejection {
        let kind = match refusal.reason.code {
            ReasonCode::CannotReschedule | ReasonCode::TooManyReplacements => RejectionKind::Scheduling,
            // All else that consolidation refuses by is about what the replacement may be bought as, and for
            // how much.
            _ => RejectionKind::Price,
        };
        self.rejected(kind, &refusal.reason)
    }
}
