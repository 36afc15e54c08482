//! Whatever is deleted first, everything goes, and in the right order.
//!
//! A tiny world of one claim, one Node, one machine and one pod is driven by the real step functions of both
//! objects. Every order of deleting {Node, claim, machine}, every subset that deletes anything, and every choice
//! of which of the two reconcilers runs first are tried.

use karpenter_model::PodKey;

use super::*;
use crate::claim::finalize;
use crate::fixture::{at, claim, holding, node, ready};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deleted {
    Node,
    Claim,
    Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    Running,
    /// Gone in this many seconds.
    Ending(u32),
    Gone,
}

struct World {
    claim: Option<Claim>,
    node: Option<NodeObject>,
    machine: Machine,
    pod: Option<Pod>,
    now: i64,
}

impl World {
    fn new() -> Self {
        let pod = Pod::pending(PodKey::new("ns", "web"), "uid", at(0));
        let claim = holding(claim(), &[ConditionType::Launched, ConditionType::Registered]);
        Self { claim: Some(claim), node: Some(node()), machine: Machine::Running, pod: Some(pod), now: 100 }
    }

    fn delete(&mut self, what: Deleted) {
        let now = at(self.now);
        match what {
            Deleted::Node => self.node.iter_mut().for_each(|node| {
                node.deletion.get_or_insert(now);
            }),

            Deleted::Claim => self.claim.iter_mut().for_each(|claim| {
                claim.deletion.get_or_insert(now);
            }),

            Deleted::Machine => {
                self.machine = Machine::Gone;
                self.pod = None;
                self.node = self.node.take().map(|node| ready(node, false));
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        self.machine = match self.machine {
            Machine::Ending(0) | Machine::Gone => Machine::Gone,
            Machine::Ending(left) => Machine::Ending(left - 1),
            Machine::Running => Machine::Running,
        };
    }

    fn terminate(&mut self) -> Answer {
        assert!(self.pod.is_none(), "the machine was ended under a running pod");
        match self.machine {
            Machine::Gone => return Answer::Gone,
            Machine::Running => self.machine = Machine::Ending(3),
            Machine::Ending(_) => {}
        }
        Answer::Started
    }

    fn reconcile_claim(&mut self) {
        let Some(claim) = self.claim.clone() else { return };
        let nodes: Vec<&NodeObject> = self.node.iter().collect();
        let mut step = finalize::step(&claim, &nodes);
        if matches!(step.effects.last(), Some(Effect::Terminate(_))) {
            let answer = self.terminate();
            step = step.then(finalize::terminated(&claim, &answer, at(self.now)));
        }
        self.apply(step);
    }

    fn reconcile_node(&mut self) {
        let Some(node) = self.node.clone() else { return };
        let claim = self.claim.clone();
        let pods: Vec<Pod> = self.pod.iter().cloned().collect();
        let facts = Facts {
            node: &node,
            claim: claim.as_ref(),
            class_labels: &["karpenter.k8s.aws/ec2nodeclass".into()],
            pods: &pods.iter().collect::<Vec<_>>(),
            presence: if self.machine == Machine::Gone { Presence::Gone } else { Presence::Exists },
            attachments: &[],
            now: at(self.now),
        };
        let mut step = step(facts).expect("no deadline");
        if matches!(step.effects.last(), Some(Effect::Terminate(_))) {
            let answer = self.terminate();
            step = step.then(terminated(&node, &answer, at(self.now)));
        }
        self.apply(step);
    }

    fn apply(&mut self, step: Step) {
        for effect in step.effects {
            match effect {
                Effect::DeleteClaim(_) => self.delete(Deleted::Claim),
                Effect::DeleteNode(_) => self.delete(Deleted::Node),
                Effect::Evict(_) => self.pod = None,
                Effect::RemoveFinalizer => {
                    assert_eq!(self.machine, Machine::Gone, "the claim went before its machine");
                    assert_eq!(self.node, None, "the claim went before its node");
                    self.claim = None;
                }
                Effect::RemoveNodeFinalizer(_) => {
                    assert_eq!(self.machine, Machine::Gone, "the node went before its machine");
                    self.node = None;
                }
                Effect::PatchNode(patch) => self.node.iter_mut().for_each(|node| {
                    node.labels.extend(patch.labels.clone());
                    node.taints.extend(patch.add_taints.clone());
                }),
                Effect::Terminate(_) | Effect::Event(_) | Effect::Milestone(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        let Some(claim) = &mut self.claim else { return };
        for change in step.conditions {
            let verdict = change.to.expect("nothing is removed");
            let since = claim.conditions.get(&change.kind).filter(|old| old.status == verdict.status);
            let last_transition = since.map_or(at(self.now), |old| old.last_transition);
            let condition = karpenter_model::Condition {
                status: verdict.status,
                reason: verdict.reason,
                message: verdict.message,
                last_transition,
                observed_generation: 1,
            };
            claim.conditions.insert(change.kind, condition);
        }
    }
}

/// Every sequence without repetition over the three deletions that contains at least one of the objects.
fn sequences() -> Vec<Vec<Deleted>> {
    let all = [Deleted::Node, Deleted::Claim, Deleted::Machine];
    let mut sequences: Vec<Vec<Deleted>> = all.iter().map(|one| vec![*one]).collect();
    for _ in 0..2 {
        let longer: Vec<Vec<Deleted>> = sequences
            .iter()
            .flat_map(|sequence| {
                let more = all.iter().filter(|one| !sequence.contains(one));
                more.map(|one| [sequence.as_slice(), &[*one]].concat()).collect::<Vec<_>>()
            })
            .collect();
        sequences.extend(longer);
    }
    sequences.sort_by_key(|sequence| format!("{sequence:?}"));
    sequences.dedup();
    sequences.retain(|sequence| sequence.iter().any(|one| *one != Deleted::Machine));
    sequences
}

#[test]
fn everything_goes_in_every_order() {
    let sequences = sequences();
    assert_eq!(sequences.len(), 14);
    for sequence in &sequences {
        for gap in [0, 1, 4, 9] {
            for node_first in [true, false] {
                let mut world = World::new();
                for what in sequence {
                    world.delete(*what);
                    run(&mut world, node_first, gap);
                }
                run(&mut world, node_first, 60);
                let left = (&world.claim, &world.node, &world.machine);
                assert_eq!(
                    left,
                    (&None, &None, &Machine::Gone),
                    "{sequence:?}, gap {gap}, node first {node_first}"
                );
            }
        }
    }
}

fn run(world: &mut World, node_first: bool, seconds: u32) {
    for _ in 0..seconds {
        if node_first {
            world.reconcile_node();
            world.reconcile_claim();
        } else {
            world.reconcile_claim();
            world.reconcile_node();
        }
        world.tick();
    }
}
