//! The second look (spec disruption 3.14): whether a command may still start, judged by what is true now.

mod assumed_cluster;
mod consolidation;
mod pairing;

use karpenter_model::repair::Repair;
use karpenter_model::{Command, Launch, Method, NodeId, Nomination, Pool, Snapshot};

use crate::disrupt::candidate::choice::choice;
use crate::disrupt::candidate::{Blocker, Candidate};
use crate::disrupt::command::command;
use crate::disrupt::rejection::{Rejection, RejectionKind};
use crate::disrupt::repair::breaker::tripped;
use crate::disrupt::repair::wanted;
use crate::disrupt::{Standing, empty};
use crate::place::what_if::{Destinations, Patience, Quoted, Simulated};
use assumed_cluster::AssumedCluster;

/// Each of `commands` as it may start now, or why not, in their order: each is judged as if those before it that may
/// start, and those that stand and were proposed before it, had happened. The cluster is compiled once for all of
/// them. Emptiness keeps the nodes that still qualify; every other command stands or falls as a whole. What a command
/// says about nodes, pods and prices is computed again; what it may buy does not change, except that drift and repair may buy
/// whatever would do now.
///
/// Commands that are in `standing` themselves come in the same order there; others are newer than all that stand.
pub fn confirm(
    snapshot: &Snapshot,
    commands: &[Command],
    standing: &Standing<'_>,
) -> Vec<Result<Command, Rejection>> {
    let mut assumed_cluster = AssumedCluster::new(snapshot, commands, standing);
    commands
        .iter()
        .map(|command| {
            assumed_cluster.settle(command, |assumed_cluster| Look::new(assumed_cluster, command).judge())
        })
        .collect()
}

/// View of the cluster for a second look.
struct Look<'g, 'a> {
    assumed_cluster: &'g mut AssumedCluster<'a>,
    command: &'a Command,
    /// Nodes of the command that may still go, in its order.
    still: Vec<Candidate<'a>>,
    /// Nodes that do not qualify any more, and why.
    gone: Vec<(NodeId, Blocker)>,
}

impl<'g, 'a> Look<'g, 'a> {
    fn new(assumed_cluster: &'g mut AssumedCluster<'a>, command: &'a Command) -> Self {
        let (mut still, mut gone) = (Vec::new(), Vec::new());
        for id in command.nodes() {
            let candidate = match command.method {
                Method::Repair => assumed_cluster.broken(id),
                Method::Emptiness
                | Method::StaticDrift
                | Method::Drift
                | Method::MultiNode
                | Method::ManyToMany
                | Method::SingleNode => assumed_cluster.candidate(id),
            };
            match candidate {
                Ok(candidate) => match candidate.blocker(command.method) {
                    None => still.push(candidate),
                    Some(blocker) => gone.push((id.clone(), blocker.clone())),
                },
                Err(blocker) => gone.push((id.clone(), blocker)),
            }
        }
        Self { assumed_cluster, command, still, gone }
    }

    fn judge(self) -> Result<Command, Rejection> {
        match self.command.method {
            Method::Repair => self.at_repair(),
            Method::Emptiness => self.at_empty(),
            Method::StaticDrift => self.at_static_drift(),
            Method::Drift => self.at_drift(),
            Method::MultiNode | Method::SingleNode | Method::ManyToMany => self.at_consolidation(),
        }
    }

    fn rejected(&self, kind: RejectionKind, detail: impl std::fmt::Display) -> Rejection {
        Rejection { kind, nodes: self.command.nodes().cloned().collect(), detail: detail.to_string() }
    }

    /// Nodes that no longer qualify make the whole command invalid; because of a nomination they count as taken. So do nodes to
    /// which another command of the round has just sent pods: they would leave with those of the node, and the audit would
    /// refuse both.
    fn all_qualify(&self) -> Result<(), Rejection> {
        if let Some(promised) =
            // The pods were promised this node within the same round, so the snapshot does not show it as
            // nominated.
            self.still.iter().find(|candidate| self.assumed_cluster.is_promised(candidate.node))
        {
            let (nodes, detail) = (vec![promised.node.id.clone()], Blocker::Nominated.to_string());
            return Err(Rejection { kind: RejectionKind::Budget, nodes, detail });
        }
        let Some((_, first)) = self.gone.first() else { return Ok(()) };
        let nominated = self.gone.iter().all(|(_, blocker)| *blocker == Blocker::Nominated);
        let kind = if nominated { RejectionKind::Budget } else { RejectionKind::Churn };
        let nodes = self.gone.iter().map(|(id, _)| id.clone()).collect();
        Err(Rejection { kind, nodes, detail: first.to_string() })
    }

    /// Takes every node out of its budget; those of its pods must have room for it, too, unless the drain is bound to end.
    fn all_within_budget(&mut self) -> Result<(), Rejection> {
        let bound = self.command.repair.as_ref().is_some_and(|repair| repair.drain.is_some());
        for candidate in &self.still {
            let taken = self.assumed_cluster.budgets.take(candidate, self.command.reason);
            let refused = taken.map_err(|exhausted| exhausted.reason()).and_then(|()| {
                if bound {
                    return Ok(());
                }
                self.assumed_cluster.evictions.check(candidate.node).map_err(|blocker| blocker.reason())
            });
            if let Err(reason) = refused {
                let nodes = vec![candidate.node.id.clone()];
                return Err(Rejection { kind: RejectionKind::Budget, nodes, detail: reason.to_string() });
            }
        }
        Ok(())
    }

    fn at_empty(mut self) -> Result<Command, Rejection> {
        self.still.retain(|candidate| empty::ready(candidate, self.assumed_cluster.snapshot).is_ok());
        // Nothing is simulated here, so a place that another command has just promised is not seen otherwise.
        let promised =
            self.still.extract_if(.., |candidate| self.assumed_cluster.is_promised(candidate.node));
        self.gone.extend(promised.map(|candidate| (candidate.node.id.clone(), Blocker::Nominated)));
        if self.still.is_empty() {
            let nominated = self.gone.iter().any(|(_, blocker)| *blocker == Blocker::Nominated);
            let kind = if nominated { RejectionKind::Budget } else { RejectionKind::Churn };
            return Err(self.rejected(kind, "no node of the command is empty and free to go any more"));
        }
        let (budgets, evictions, reason) =
            (&mut self.assumed_cluster.budgets, &self.assumed_cluster.evictions, self.command.reason);
        self.still.retain(|candidate| {
            evictions.check(candidate.node).is_ok() && budgets.take(candidate, reason).is_ok()
        });
        if self.still.is_empty() {
            return Err(self.rejected(RejectionKind::Budget, "disruption budgets are used up"));
        }
        Ok(self.as_now(Vec::new(), Vec::new()))
    }

    fn at_static_drift(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        self.all_drifted(|pool| pool.replicas.is_some())?;
        self.pool_is_ready()?;
        self.all_within_budget()?;
        Ok(self.unchanged())
    }

    /// The pool of a static node that goes first can launch what takes its place.
    fn pool_is_ready(&self) -> Result<(), Rejection> {
        let unready = self.still.iter().any(|candidate| !candidate.pool.ready || candidate.pool.deleting);
        if !(self.command.terminate_first && unready) {
            return Ok(());
        }
        Err(self.rejected(RejectionKind::Churn, "the pool is not ready to launch in place of the node"))
    }

    /// The command with its nodes as they are now.
    fn unchanged(&self) -> Command {
        let candidates = self.still.iter().map(Candidate::disrupted).collect();
        Command { candidates, ..self.command.clone() }
    }

    fn at_repair(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        let repair = self.still_broken()?;
        self.all_within_budget()?;
        let is_static = self.still.iter().any(|candidate| candidate.pool.replicas.is_some());
        let command = if is_static || self.command.is_reboot() {
            self.pool_is_ready()?;
            self.unchanged()
        } else if self.command.terminate_first {
            self.at_terminate_first()?
        } else {
            self.replaced()?
        };
        Ok(Command { repair, ..command })
    }

    /// Returns the repair that the node of the command needs now.
    fn still_broken(&self) -> Result<Option<Repair>, Rejection> {
        let snapshot = self.assumed_cluster.snapshot;
        let Some(candidate) = self.still.first() else { return Ok(None) };
        let choice = choice(candidate.node, &snapshot.repair, snapshot.now);
        let choice =
            choice.ok_or_else(|| self.rejected(RejectionKind::Churn, "node is not unhealthy any more"))?;
        let mut repair = wanted(candidate, &choice, &tripped(snapshot))
            .map_err(|objection| self.rejected(RejectionKind::Churn, objection.reason()))?;
        // A node that reboots do not repair is replaced, whatever its policy asks for.
        repair.action = self.command.repair.as_ref().map_or(repair.action, |decided| decided.action);
        Ok(Some(repair))
    }

    fn at_drift(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        self.all_drifted(|pool| pool.replicas.is_none())?;
        self.all_within_budget()?;
        if self.command.terminate_first {
            return self.at_terminate_first();
        }
        self.replaced()
    }

    /// The command with whatever takes its nodes' place now.
    fn replaced(&mut self) -> Result<Command, Rejection> {
        let mut simulated = self.simulate(Destinations::All)?;
        // Fewer will do where the proposal took for granted that a node goes which still waits for its second look: it
        // stays now, for the pods it is to take.
        if simulated.launches.len() >= self.command.replacements.len() {
            self.pair_replacements(&mut simulated.launches)?;
        }
        let replacements = simulated.launches.into_iter().map(|quoted| quoted.launch).collect();
        Ok(self.as_now(replacements, simulated.nominations))
    }

    /// Nothing can be staged still, and what is launched once the nodes are gone takes all pods.
    fn at_terminate_first(&mut self) -> Result<Command, Rejection> {
        if self.simulate(Destinations::All).is_ok() {
            return Err(
                self.rejected(RejectionKind::Churn, "a replacement can be launched before the node goes")
            );
        }
        let own: Vec<_> = self.still.iter().map(|candidate| candidate.node).collect();
        let freed = self.still.first().and_then(|candidate| self.assumed_cluster.freed(candidate));
        let Some(freed) = freed else {
            return Err(
                self.rejected(RejectionKind::Churn, "the reservation of the node is not full any more")
            );
        };
        let simulated = self.assumed_cluster.what_if_on(&freed).without(&own, Patience::Full);
        if !simulated.unplaced.is_empty() {
            let detail = format!("not all pods would schedule, {}", simulated.why_unplaced());
            return Err(self.rejected(RejectionKind::Scheduling, detail));
        }
        Ok(Command { terminate_first: true, ..self.as_now(Vec::new(), simulated.nominations) })
    }

    /// The command with its nodes as they are now, and `replacements` at what they cost now for the pods there are
    /// now: pods may have come or gone and prices may have changed.
    fn as_now(&self, replacements: Vec<Launch>, nominations: Vec<Nomination>) -> Command {
        let fresh = command(
            self.command.method,
            &self.still,
            replacements,
            nominations,
            self.assumed_cluster.snapshot,
        );
        // Its quiet time began when it was proposed.
        Command { not_before: self.command.not_before, ..fresh }
    }

    fn all_drifted(&self, of_kind: impl Fn(&Pool) -> bool) -> Result<(), Rejection> {
        let other = self.still.iter().find(|candidate| !candidate.is_drifted() || !of_kind(candidate.pool));
        let Some(other) = other else { return Ok(()) };
        let nodes = vec![other.node.id.clone()];
        Err(Rejection { kind: RejectionKind::Churn, nodes, detail: "node is not drifted any more".into() })
    }

    /// Simulates where the pods of the command would go now; every pod must have a place.
    fn simulate(&mut self, destinations: Destinations) -> Result<Simulated, Rejection> {
        let own: Vec<_> = self.still.iter().map(|candidate| candidate.node).collect();
        let simulated = self.assumed_cluster.what_if(destinations).without(&own, Patience::Full);
        if simulated.unplaced.is_empty() {
            return Ok(simulated);
        }
        let detail = format!("not all pods would schedule, {}", simulated.why_unplaced());
        Err(self.rejected(RejectionKind::Scheduling, detail))
    }

    /// Checks that `launches` are as many as those of the command, and that each may be of every instance type of its
    /// counterpart there; puts them in the order of the command.
    fn pair_replacements(&self, launches: &mut Vec<Quoted>) -> Result<(), Rejection> {
        let wanted: Vec<&Launch> = self.command.replacements.iter().collect();
        if wanted.len() != launches.len() {
            let detail = format!("{} new nodes would be needed, not {}", launches.len(), wanted.len());
            return Err(self.rejected(RejectionKind::Scheduling, detail));
        }
        let fresh: Vec<&Launch> = launches.iter().map(|quoted| &quoted.launch).collect();
        let order = pairing::order(&wanted, &fresh).map_err(|name| {
            let detail = format!("instance type {name} would not do any more");
            self.rejected(RejectionKind::Scheduling, detail)
        })?;
        let mut left: Vec<Option<Quoted>> = std::mem::take(launches).into_iter().map(Some).collect();
        launches.extend(order.into_iter().filter_map(|position| left[position].take()));
        Ok(())
    }
}
