//! One claim, one machine, one Node, and a caller that carries steps out the way a controller does.
//!
//! Effects are done one at a time; what changes the claim is collected and written at the end of the pass, metadata
//! first, then status. Every single write can be the last one before a crash: the rest of the pass is then lost.

use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_lifecycle::finalize::Answer;
use karpenter_lifecycle::step::{Change, Effect, Step};
use karpenter_lifecycle::termination::{self, EXCLUDE_FROM_LOAD_BALANCERS, Facts, Presence};
use karpenter_lifecycle::{entry, finalize, garbage, initialization, launch, liveness, registration};
use karpenter_model::{
    Annotations, Claim, Condition, ConditionType, Labels, NodeCondition, NodeObject, Pod, PodKey, Resources,
    Taint, label,
};

const CLASS_LABEL: &str = "karpenter.k8s.aws/ec2nodeclass";
const PROVIDER_ID: &str = "cloud:///i-1";
/// Seconds from launch to the Node, and from there to Ready.
const BOOT: i64 = 5;

/// The pass ends here: the process died.
#[derive(Debug)]
pub(crate) struct Crash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    None,
    Running { since: i64 },
    Ending { left: u32 },
    Gone,
}

pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) claim: Option<Claim>,
    pub(crate) node: Option<NodeObject>,
    pub(crate) machine: Machine,
    pub(crate) pod: Option<Pod>,
    pub(crate) launches: u32,
    /// Writes so far.
    pub(crate) writes: usize,
    /// After which writes the process dies.
    crashes: Vec<usize>,
}

/// The claim as one pass changes it.
struct Draft {
    before: Claim,
    claim: Claim,
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

impl World {
    pub(crate) fn new(crashes: &[usize]) -> Self {
        Self {
            now: 0,
            claim: Some(claim()),
            node: None,
            machine: Machine::None,
            pod: None,
            launches: 0,
            writes: 0,
            crashes: crashes.to_vec(),
        }
    }

    /// Lets both reconcilers run once per second.
    pub(crate) fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            // A crash ends the pass; the next second starts over from what was written.
            let _ = self.reconcile_claim();
            let _ = self.reconcile_node();
            self.collect_garbage();
            self.tick();
        }
    }

    pub(crate) fn delete_claim(&mut self) {
        let now = at(self.now);
        if let Some(claim) = &mut self.claim {
            claim.deletion.get_or_insert(now);
        }
        // The API server keeps nothing that nobody holds.
        self.claim = self.claim.take().filter(|claim| !claim.finalizers.is_empty());
    }

    pub(crate) fn delete_node(&mut self) {
        let now = at(self.now);
        if let Some(node) = &mut self.node {
            node.deletion.get_or_insert(now);
        }
        self.node = self.node.take().filter(|node| !node.finalizers.is_empty());
    }

    /// Ends a machine whose claim went before its id could be written.
    fn collect_garbage(&mut self) {
        let Machine::Running { since } = self.machine else { return };
        let machine = garbage::Machine {
            provider_id: PROVIDER_ID.into(),
            claim: Some("web-1".into()),
            launched_at: at(since),
            ending: false,
        };
        let claims: Vec<&Claim> = self.claim.iter().collect();
        let machines = [machine];
        let facts = garbage::Facts {
            claims: &claims,
            nodes: &[],
            machines: &machines,
            listed_at: at(self.now),
            zones_away: &BTreeSet::new(),
        };
        let garbage = garbage::collect(facts);
        assert!(garbage.claims.is_empty(), "the machine is there");
        if !garbage.machines.is_empty() {
            assert!(self.claim.is_none(), "the machine of a claim was collected");
            self.pod = None;
            self.terminate();
            self.delete_node();
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        match self.machine {
            Machine::Running { since } if self.now == since + BOOT => {
                let mut node = NodeObject::bare("node-1", at(self.now));
                node.provider_id = Some(PROVIDER_ID.into());
                node.taints = vec![Taint::unregistered()];
                self.node = Some(node);
            }
            Machine::Running { since } if self.now == since + 2 * BOOT => {
                let ready = NodeCondition {
                    status: karpenter_model::ConditionStatus::True,
                    last_transition: at(self.now),
                };
                if let Some(node) = &mut self.node {
                    node.conditions.insert("Ready".to_owned(), ready);
                }
            }
            Machine::Ending { left: 0 } => self.machine = Machine::Gone,
            // The cloud's own controller deletes Nodes of machines that are gone.
            Machine::Gone => self.delete_node(),
            Machine::Ending { left } => self.machine = Machine::Ending { left: left - 1 },
            Machine::None | Machine::Running { .. } => {}
        }
    }

    fn wrote(&mut self) -> Result<(), Crash> {
        self.writes += 1;
        if self.crashes.contains(&self.writes) { Err(Crash) } else { Ok(()) }
    }

    fn reconcile_claim(&mut self) -> Result<(), Crash> {
        let Some(claim) = self.claim.clone() else { return Ok(()) };
        let mut draft = Draft { before: claim.clone(), claim };
        match entry::way(&draft.claim, |_| true) {
            entry::Way::Ignored => {}
            entry::Way::Prepare(step) => self.carry_out(&mut draft, step)?,
            entry::Way::Finalize => {
                let nodes: Vec<NodeObject> = self.node.iter().cloned().collect();
                let step = finalize::step(&draft.claim, &nodes.iter().collect::<Vec<_>>(), at(self.now));
                self.carry_out(&mut draft, step)?;
            }
            entry::Way::Live => self.stages(&mut draft)?,
        }
        self.write(draft)
    }

    fn stages(&mut self, draft: &mut Draft) -> Result<(), Crash> {
        let step = launch::step(&draft.claim);
        self.carry_out(draft, step)?;
        let node = self.node.clone().filter(|_| draft.claim.provider_id.is_some());
        let step = registration::step(&draft.claim, &node.iter().collect::<Vec<_>>(), &[]);
        self.carry_out(draft, step)?;
        let node = self.node.clone();
        let nodes: Vec<&NodeObject> = node.iter().collect();
        let step = initialization::step(&draft.claim, initialization::Facts { nodes: &nodes, slices: None });
        self.carry_out(draft, step)?;
        let step = liveness::step(&draft.claim, at(self.now));
        self.carry_out(draft, step)
    }

    fn reconcile_node(&mut self) -> Result<(), Crash> {
        let Some(node) = self.node.clone() else { return Ok(()) };
        let claim = self.claim.clone();
        let presence = if self.machine == Machine::Gone { Presence::Gone } else { Presence::Exists };
        let pods: Vec<Pod> = self.pod.iter().cloned().collect();
        let facts = Facts {
            node: &node,
            claim: claim.as_ref(),
            class_labels: &[CLASS_LABEL.into()],
            pods: &pods.iter().collect::<Vec<_>>(),
            presence,
            attachments: &[],
            now: at(self.now),
        };
        let step = termination::step(facts).expect("no deadline is set");
        let before = claim.unwrap_or_else(self::claim);
        let mut draft = Draft { claim: before.clone(), before };
        self.carry_out(&mut draft, step)?;
        self.write(draft)
    }

    fn carry_out(&mut self, draft: &mut Draft, step: Step) -> Result<(), Crash> {
        for effect in step.effects {
            self.effect(draft, effect)?;
        }
        for change in step.conditions {
            draft.change(change, at(self.now));
        }
        Ok(())
    }

    fn effect(&mut self, draft: &mut Draft, effect: Effect) -> Result<(), Crash> {
        match effect {
            Effect::Launch => {
                let answer = launch::answered(&draft.claim, self.launch());
                self.wrote()?;
                return self.carry_out(draft, answer);
            }
            Effect::Terminate(_) => {
                assert!(self.pod.is_none(), "the machine was ended under a running pod");
                let answer = self.terminate();
                self.wrote()?;
                let of_node = self.node.clone().filter(|node| node.deletion.is_some());
                let step = match of_node {
                    Some(node) => termination::terminated(&node, &answer, at(self.now)),
                    None => finalize::terminated(&draft.claim, &answer, at(self.now)),
                };
                return self.carry_out(draft, step);
            }
            Effect::RecordLaunch(launched) => {
                draft.claim.provider_id = Some(launched.provider_id.clone());
                draft.claim.labels = launched.labels;
                return Ok(());
            }
            Effect::RecordNode(name) => {
                draft.claim.node_name = Some(name);
                return Ok(());
            }
            Effect::Event(_) | Effect::Milestone(_) | Effect::RegistrationHealth(_) => return Ok(()),
            Effect::AddFinalizer => {
                draft.claim.finalizers.push(label::TERMINATION_FINALIZER.to_owned());
                self.claim.iter_mut().for_each(|claim| claim.finalizers.clone_from(&draft.claim.finalizers));
            }
            Effect::RemoveFinalizer => {
                let known = draft.claim.provider_id.is_some();
                let gone = matches!(self.machine, Machine::Gone | Machine::None);
                assert!(gone || !known, "a known machine was left behind");
                self.claim = None;
            }
            Effect::RemoveNodeFinalizer(_) => {
                assert_eq!(self.machine, Machine::Gone, "the node went before its machine");
                self.node = None;
            }
            Effect::PatchNode(patch) => self.patch_node(&patch),
            Effect::DeleteNode(_) => self.delete_node(),
            Effect::DeleteClaim(_) => self.delete_claim(),
            Effect::Evict(_) => self.pod = None,
            other => unreachable!("nobody asked for {other:?}"),
        }
        self.wrote()
    }

    fn patch_node(&mut self, patch: &karpenter_lifecycle::step::NodePatch) {
        let Some(node) = &mut self.node else { return };
        if patch.remove_taints.contains(&Taint::unregistered()) {
            self.pod = Some(Pod::pending(PodKey::new("ns", "web"), "uid", at(self.now)));
        }
        node.labels.extend(patch.labels.clone());
        node.taints.retain(|taint| !patch.remove_taints.iter().any(|gone| gone.matches(taint)));
        node.taints.extend(patch.add_taints.clone());
        node.owners.extend(patch.add_owner.iter().map(|(_, uid)| uid.clone()));
        if patch.add_finalizer {
            node.finalizers.push(label::TERMINATION_FINALIZER.to_owned());
        }
        assert!(
            node.deletion.is_none() || node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS),
            "a node being terminated leaves its load balancers"
        );
    }

    /// Idempotent, as the port demands.
    fn launch(&mut self) -> launch::Answer {
        if self.machine == Machine::None {
            self.machine = Machine::Running { since: self.now };
            self.launches += 1;
        }
        launch::Answer::Launched(Box::new(launch::Machine {
            provider_id: PROVIDER_ID.into(),
            image_id: None,
            labels: Labels::from([(CLASS_LABEL.into(), "default".into())]),
            annotations: Annotations::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
        }))
    }

    fn terminate(&mut self) -> Answer {
        match self.machine {
            Machine::None | Machine::Gone => return Answer::Gone,
            Machine::Running { .. } => self.machine = Machine::Ending { left: 3 },
            Machine::Ending { .. } => {}
        }
        Answer::Started
    }

    /// Two patches, each with only what changed; nothing if the claim is gone by now.
    fn write(&mut self, draft: Draft) -> Result<(), Crash> {
        let Draft { before, claim } = draft;
        if (&before.labels, &before.annotations) != (&claim.labels, &claim.annotations) {
            if let Some(stored) = &mut self.claim {
                stored.labels.clone_from(&claim.labels);
                stored.annotations.clone_from(&claim.annotations);
            }
            self.wrote()?;
        }
        let status =
            |claim: &Claim| (claim.provider_id.clone(), claim.node_name.clone(), claim.conditions.clone());
        if status(&before) != status(&claim) {
            if let Some(stored) = &mut self.claim {
                (stored.provider_id, stored.node_name, stored.conditions) = status(&claim);
            }
            self.wrote()?;
        }
        Ok(())
    }
}

impl Draft {
    fn change(&mut self, change: Change, now: Timestamp) {
        let Some(verdict) = change.to else {
            self.claim.conditions.remove(&change.kind);
            return;
        };
        let same = self.claim.conditions.get(&change.kind).filter(|old| old.status == verdict.status);
        let condition = Condition {
            last_transition: same.map_or(now, |old| old.last_transition),
            status: verdict.status,
            reason: verdict.reason,
            message: verdict.message,
            observed_generation: 1,
        };
        self.claim.conditions.insert(change.kind, condition);
    }
}

/// A claim as it is created: nothing but a wish.
fn claim() -> Claim {
    Claim::bare("web-1", at(0))
}

impl World {
    pub(crate) fn is_initialized(&self) -> bool {
        let label = |node: &NodeObject| node.has_true_label(label::INITIALIZED);
        self.claim.as_ref().is_some_and(|claim| claim.is_true(ConditionType::Initialized))
            && self.node.as_ref().is_some_and(label)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claim.is_none() && self.node.is_none() && matches!(self.machine, Machine::Gone | Machine::None)
    }
}
