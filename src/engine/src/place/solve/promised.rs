//! Promises of earlier passes: a pod goes where it was promised a place, as long as every rule allows it.
//!
//! A plan that fills its machines closely is lost if the next pass fills the same machines in another order: the pods
//! that do not fit a second time are bought machines for. So, before anything else, pods with a promise are tried on
//! that node alone, by the code that tries every other node. Those it does not take are placed like pods without a
//! promise, which come after all that have one: a pod that arrives later does not take the room of one that waits.
//!
//! A promise may have been made with rules read with less caution (`topology::concession`), because no new node could be in
//! some domain. Where a node is leaving that domain, the scheduler counts it until that node is gone, which may be when the pod
//! runs elsewhere: a disruption budget waits for that. So, once a new node is possible there, such a pod is offered every
//! other place before its promise is kept on those terms.

use std::collections::BTreeMap;

use super::Solver;
use crate::bits::Bits;
use crate::index::PodIx;
use crate::place::topology::Turn;

impl Solver<'_> {
    /// Sends the pods of `queue` where they were promised a place, and returns those that are left. Virtual pods are
    /// among these: they come after all pods that exist.
    pub(super) fn keep_promises(&mut self, mut queue: Vec<PodIx>) -> Vec<PodIx> {
        if self.compiled.promised.is_empty() {
            return queue;
        }
        let is_promised = |index: &PodIx| {
            self.compiled.promised.contains_key(index) && !self.compiled.pod(*index).is_virtual()
        };
        // Plans that were made in turn can only be kept in turn.
        let mut turns: BTreeMap<Turn, Vec<PodIx>> = BTreeMap::new();
        for index in queue.iter().copied().filter(is_promised) {
            turns.entry(self.turn(index)).or_default().push(index);
        }
        let mut kept = Bits::none(self.compiled.queue.len());
        let mut left: Vec<PodIx> = Vec::new();
        for turn in turns.into_values() {
            left.extend(turn);
            self.keep_while_it_helps(&mut left, &mut kept);
        }
        self.place_with_caution(&mut left, &mut kept);
        self.conceding(&mut left, |solver, left| solver.keep_while_it_helps(left, &mut kept));
        queue.retain(|index| !kept.contains(*index));
        queue
    }

    /// Moves from `left` to `kept` all pods that are taken where they were promised a place. A rule about other pods may
    /// keep a pod out until others have come to where they belong; those of a later turn may keep it out for good.
    fn keep_while_it_helps(&mut self, left: &mut Vec<PodIx>, kept: &mut Bits<PodIx>) {
        loop {
            let before = self.filling.placed;
            left.retain(|index| {
                let is_kept = self.keep_promise(*index);
                if is_kept {
                    kept.insert(*index);
                }
                !is_kept
            });
            if self.filling.placed == before {
                return;
            }
        }
    }

    /// Moves from `left` to `kept` the pods that get another place by rules that the scheduler insists on.
    fn place_with_caution(&mut self, left: &mut Vec<PodIx>, kept: &mut Bits<PodIx>) {
        let topology = &self.filling.topology;
        let is_insisted_on =
            |index: &PodIx| self.last_profile(*index).is_some_and(|profile| topology.is_insisted_on(profile));
        let concerned: Vec<PodIx> = left.iter().copied().filter(is_insisted_on).collect();
        let mut waiting = concerned.clone();
        self.place_while_it_helps(&mut waiting);
        for index in concerned {
            kept.insert(index);
        }
        for index in waiting {
            kept.remove(index);
        }
        left.retain(|index| !kept.contains(*index));
    }

    /// Sends the pod at `index` where it was promised a place, at the strictest level at which that takes it; whether
    /// it is there.
    pub(super) fn keep_promise(&mut self, index: PodIx) -> bool {
        let Some(node) = self.compiled.promised.get(&index).copied() else { return false };
        if self.used_by_another(index).is_some() {
            return false;
        }
        for step in 0.. {
            let Some(level) = self.compiled.levels(index).get(step).copied() else { break };
            let bound = self.filling.topology.bound(self.compiled.levels.profile(level));
            if self.join_node(index, Some(node), level, bound) {
                self.filling.has_placed(index, &self.compiled);
                return true;
            }
        }
        false
    }
}
