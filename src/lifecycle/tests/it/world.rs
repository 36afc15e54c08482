//! Claims, their machines and Nodes, and a caller that carries steps out the way a controller does.
//!
//! A pass is a future that waits once for each of its calls. Meanwhile time passes, the passes of other claims go on,
//! another client writes or deletes, or the process dies, which drops every pass where it stands. Of one
//! claim or Node there is one pass at a time. What changes a claim is collected and written at the end of its
//! pass: metadata first, then the status, which is locked to the version it was computed from because
//! conditions are a list.

mod account;

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_lifecycle::claim::{entry, finalize, garbage, initialization, launch, liveness, registration};
use karpenter_lifecycle::node::termination::{self, Facts, Presence};
use karpenter_lifecycle::step::{Change, Effect, Launched, NodePatch, Step};
use karpenter_model::names::{finalizer, label};
use karpenter_model::{Claim, Condition, ConditionType, NodeCondition, NodeObject, Pod, PodKey, Taint};

pub(crate) use account::Machine;

const CLASS_LABEL: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Seconds from launch to the Node, and from there to Ready.
const BOOT: i64 = 5;

/// Initial state of a world, and the events in it.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) claims: usize,
    /// Seconds until the cloud starts the machine it was asked for, even if the caller is gone by then.
    pub(crate) start: i64,
    /// Seconds from there to its answer.
    pub(crate) answer: i64,
    /// Calls, counted from one, during which the process dies.
    pub(crate) deaths: BTreeSet<usize>,
    /// The call during which all claims are deleted.
    pub(crate) deletion: Option<usize>,
    /// Calls during which another client writes to every claim.
    pub(crate) disturbances: BTreeSet<usize>,
    /// Machines without claim are collected.
    pub(crate) collects: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            claims: 1,
            start: 0,
            answer: 0,
            deaths: BTreeSet::new(),
            deletion: None,
            disturbances: BTreeSet::new(),
            collects: true,
        }
    }
}

/// The pass ends here: another client wrote first.
#[derive(Debug)]
struct Conflict;

type Pass<'w> = Pin<Box<dyn Future<Output = Result<(), Conflict>> + 'w>>;

/// Subject of a pass: the claim or the Node of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Claim(usize),
    Node(usize),
}

/// Everything but the process.
pub(crate) struct World {
    setup: Setup,
    state: RefCell<State>,
}

struct State {
    now: i64,
    /// Calls so far.
    calls: usize,
    dead: bool,
    lives: Vec<Life>,
}

/// One claim and what belongs to it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) claim: Option<Claim>,
    /// Grows with every write to the claim.
    version: u64,
    pub(crate) node: Option<NodeObject>,
    pub(crate) machine: Machine,
    pub(crate) pod: Option<Pod>,
    pub(crate) launches: u32,
}

/// A claim as one pass read it and as it changes it.
struct Draft {
    version: u64,
    before: Claim,
    claim: Claim,
}

/// The passes of one process after the other.
pub(crate) struct Process<'w> {
    world: &'w World,
    passes: BTreeMap<Subject, Pass<'w>>,
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

fn name(number: usize) -> String {
    format!("web-{number}")
}

fn provider_id(number: usize) -> String {
    format!("cloud:///i-{number}")
}

impl<'w> Process<'w> {
    pub(crate) fn of(world: &'w World) -> Self {
        Self { world, passes: BTreeMap::new() }
    }

    /// Lets every reconciler run at least once per second.
    pub(crate) fn run(&mut self, seconds: u32) {
        let (world, context) = (self.world, &mut Context::from_waker(Waker::noop()));
        for _ in 0..seconds {
            for subject in world.subjects() {
                self.passes.entry(subject).or_insert_with(|| world.pass(subject));
            }
            loop {
                let before = world.calls();
                self.passes.retain(|_, pass| world.is_dead() || pass.as_mut().poll(context).is_pending());
                if world.is_dead() || world.calls() == before {
                    break;
                }
            }
            if std::mem::take(&mut world.state().dead) {
                self.passes.clear();
            }
            world.collect_garbage();
            world.tick();
        }
    }
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let life = |number| Life {
            claim: Some(Claim::bare(&name(number), at(0))),
            version: 1,
            node: None,
            machine: Machine::None,
            pod: None,
            launches: 0,
        };
        let lives = (0..setup.claims).map(life).collect();
        Self { setup, state: RefCell::new(State { now: 0, calls: 0, dead: false, lives }) }
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.state.borrow().calls
    }

    /// Everything about each claim.
    pub(crate) fn lives(&self) -> Ref<'_, [Life]> {
        Ref::map(self.state.borrow(), |state| &state.lives[..])
    }

    pub(crate) fn delete_claims(&self) {
        let now = at(self.now());
        for life in &mut self.state().lives {
            life.delete_claim(now);
        }
    }

    pub(crate) fn delete_nodes(&self) {
        let now = at(self.now());
        for life in &mut self.state().lives {
            life.delete_node(now);
        }
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.lives().iter().all(Life::is_initialized)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lives().iter().all(Life::is_empty)
    }

    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    fn life(&self, number: usize) -> RefMut<'_, Life> {
        RefMut::map(self.state(), |state| &mut state.lives[number])
    }

    fn now(&self) -> i64 {
        self.state.borrow().now
    }

    fn is_dead(&self) -> bool {
        self.state.borrow().dead
    }

    fn subjects(&self) -> Vec<Subject> {
        let numbers = 0..self.setup.claims;
        numbers.flat_map(|number| [Subject::Claim(number), Subject::Node(number)]).collect()
    }

    fn pass(&self, subject: Subject) -> Pass<'_> {
        match subject {
            Subject::Claim(number) => Box::pin(self.reconcile_claim(number)),
            Subject::Node(number) => Box::pin(self.reconcile_node(number)),
        }
    }

    /// A call was made and is answered: meanwhile others act, and the process may die.
    async fn answered(&self) {
        let number = {
            let state = &mut *self.state();
            state.calls += 1;
            state.dead |= self.setup.deaths.contains(&state.calls);
            if self.setup.disturbances.contains(&state.calls) {
                state.lives.iter_mut().for_each(|life| life.version += 1);
            }
            state.calls
        };
        if self.setup.deletion == Some(number) {
            self.delete_claims();
        }
        wait().await;
    }

    /// Ends machines whose claim went before its id could be written.
    fn collect_garbage(&self) {
        if !self.setup.collects {
            return;
        }
        let now = at(self.now());
        let mut lives = RefMut::map(self.state(), |state| &mut state.lives);
        let machines: Vec<_> =
            lives.iter().enumerate().filter_map(|(number, life)| life.listed(number)).collect();
        let claims: Vec<&Claim> = lives.iter().filter_map(|life| life.claim.as_ref()).collect();
        let facts = garbage::Facts {
            claims: &claims,
            nodes: &[],
            machines: &machines,
            listed_at: now,
            zones_away: &BTreeSet::new(),
            tried: &garbage::Tried::default(),
        };
        let garbage = garbage::collect(facts);
        assert!(garbage.claims.is_empty(), "the machines are there");
        assert!(!garbage.doubts_claims || claims.is_empty(), "there are claims");
        let gone: Vec<_> = garbage.machines.into_iter().map(|machine| machine.provider_id).collect();
        for (number, life) in lives.iter_mut().enumerate() {
            if gone.contains(&provider_id(number).as_str().into()) {
                assert!(life.claim.is_none(), "the machine of a claim was collected");
                life.pod = None;
                life.terminate();
                life.delete_node(now);
            }
        }
    }

    fn tick(&self) {
        let state = &mut *self.state();
        state.now += 1;
        for (number, life) in state.lives.iter_mut().enumerate() {
            life.tick(number, state.now);
        }
    }

    async fn reconcile_claim(&self, number: usize) -> Result<(), Conflict> {
        let Some(mut draft) = self.draft(number) else { return Ok(()) };
        match entry::way(&draft.claim, |_| true).expect("every class is owned") {
            entry::Entry::Prepare(step) => self.carry_out(number, &mut draft, step).await?,
            entry::Entry::Finalize => {
                let nodes = self.nodes_of(number, &draft.claim);
                let step = finalize::step(&draft.claim, &nodes.iter().collect::<Vec<_>>());
                self.carry_out(number, &mut draft, step).await?;
            }
            entry::Entry::Live => self.stages(number, &mut draft).await?,
        }
        self.write(number, draft).await
    }

    async fn stages(&self, number: usize, draft: &mut Draft) -> Result<(), Conflict> {
        let step = launch::step(&draft.claim);
        self.carry_out(number, draft, step).await?;
        let nodes = self.nodes_of(number, &draft.claim);
        let step = registration::step(&draft.claim, &nodes.iter().collect::<Vec<_>>(), &[]);
        self.carry_out(number, draft, step).await?;
        let nodes = self.nodes_of(number, &draft.claim);
        let nodes: Vec<&NodeObject> = nodes.iter().collect();
        let step = initialization::step(&draft.claim, initialization::Facts { nodes: &nodes, slices: None });
        self.carry_out(number, draft, step).await?;
        let facts = liveness::Facts {
            registration: Duration::from_mins(15),
            initialization: None,
            nodes: &nodes,
            lost: nodes.is_empty() && draft.claim.is_true(ConditionType::Registered),
            demand: &liveness::Demand::default(),
        };
        let step = liveness::step(&draft.claim, facts, at(self.now()));
        self.carry_out(number, draft, step).await
    }

    async fn reconcile_node(&self, number: usize) -> Result<(), Conflict> {
        let Some(node) = self.life(number).node.clone() else { return Ok(()) };
        let draft = self.draft(number);
        let gone = self.life(number).machine == Machine::Gone;
        let pods: Vec<Pod> = self.life(number).pod.iter().cloned().collect();
        let facts = Facts {
            node: &node,
            claim: draft.as_ref().map(|draft| &draft.claim),
            class_labels: &[CLASS_LABEL.into()],
            pods: &pods.iter().collect::<Vec<_>>(),
            presence: if gone { Presence::Gone } else { Presence::Exists },
            attachments: &[],
            now: at(self.now()),
        };
        let step = termination::step(facts).expect("no deadline is set");
        let of_nobody = || Draft::of(Claim::bare(&name(number), at(0)), 0);
        let mut draft = draft.unwrap_or_else(of_nobody);
        self.carry_out(number, &mut draft, step).await?;
        self.write(number, draft).await
    }

    fn draft(&self, number: usize) -> Option<Draft> {
        let life = self.life(number);
        life.claim.clone().map(|claim| Draft::of(claim, life.version))
    }

    /// The Node with the provider id of the claim.
    fn nodes_of(&self, number: usize, claim: &Claim) -> Vec<NodeObject> {
        self.life(number).node.iter().filter(|_| claim.provider_id.is_some()).cloned().collect()
    }

    async fn carry_out(&self, number: usize, draft: &mut Draft, step: Step) -> Result<(), Conflict> {
        for effect in step.effects {
            self.effect(number, draft, effect).await?;
        }
        for change in step.conditions {
            draft.change(change, at(self.now()));
        }
        Ok(())
    }

    async fn effect(&self, number: usize, draft: &mut Draft, effect: Effect) -> Result<(), Conflict> {
        let now = at(self.now());
        match effect {
            Effect::Launch => {
                let machine = self.launch(number).await;
                let next = launch::answered(&draft.claim, launch::Answer::Launched(Box::new(machine)), []);
                return Box::pin(self.carry_out(number, draft, next)).await;
            }
            Effect::LookUp => {
                let found = self.life(number).found(number);
                self.answered().await;
                let next = finalize::looked_up(&draft.claim, &found, now);
                return Box::pin(self.carry_out(number, draft, next)).await;
            }
            Effect::Terminate(_) => {
                assert!(self.life(number).pod.is_none(), "the machine was ended under a running pod");
                let answer = self.life(number).terminate();
                self.answered().await;
                let of_node = self.life(number).node.clone().filter(|node| node.deletion.is_some());
                let next = match of_node {
                    Some(node) => termination::terminated(&node, &answer, now),
                    None => finalize::terminated(&draft.claim, &answer, now),
                };
                return Box::pin(self.carry_out(number, draft, next)).await;
            }
            Effect::RecordLaunch(launched) => {
                draft.claim.provider_id = Some(launched.provider_id.clone());
                draft.claim.labels = launched.labels;
                return Ok(());
            }
            Effect::RecordMachine(id) => {
                draft.claim.provider_id = Some(id);
                return Ok(());
            }
            Effect::RecordNode(name) => {
                draft.claim.node_name = Some(name);
                return Ok(());
            }
            Effect::Event(_) | Effect::Milestone(_) | Effect::RegistrationHealth(_) => return Ok(()),
            // A hint to the scheduler: its calls may fail and nothing depends on them.
            Effect::Nominate(_) => {}
            Effect::AddFinalizer => {
                draft.version = self.locked(number, draft.version, |claim| {
                    claim.finalizers.push(finalizer::TERMINATION.to_owned());
                })?;
            }
            Effect::RemoveFinalizer => {
                self.locked(number, draft.version, |claim| claim.finalizers.clear())?;
                let mut life = self.life(number);
                life.claim.take_if(|claim| claim.deletion.is_some());
            }
            Effect::RemoveNodeFinalizer(_) => {
                let mut life = self.life(number);
                assert_eq!(life.machine, Machine::Gone, "the node went before its machine");
                life.node = None;
            }
            Effect::PatchNode(patch) => self.life(number).patch_node(&patch, now),
            Effect::DeleteNode(_) => self.life(number).delete_node(now),
            Effect::DeleteClaim(_) => self.life(number).delete_claim(now),
            Effect::Evict(_) => self.life(number).pod = None,
            other => unreachable!("no step asks for {other:?}"),
        }
        self.answered().await;
        Ok(())
    }

    /// Idempotent, as the port demands.
    async fn launch(&self, number: usize) -> Launched {
        let asked = self.now();
        self.life(number).ask_for_machine(asked + self.setup.start, asked);
        while self.now() < asked + self.setup.start + self.setup.answer {
            wait().await;
        }
        self.answered().await;
        account::described(number)
    }

    /// Two patches, each with only what changed; nothing if the claim is gone by now.
    async fn write(&self, number: usize, draft: Draft) -> Result<(), Conflict> {
        let Draft { version, before, claim } = draft;
        let mut present = version;
        if (&before.labels, &before.annotations) != (&claim.labels, &claim.annotations) {
            if let Some(stands) = self.life(number).merge_metadata(&before, &claim) {
                present = stands;
            }
            self.answered().await;
        }
        if status(&before) == status(&claim) {
            return Ok(());
        }
        if before.conditions == claim.conditions {
            present = self.life(number).version;
        }
        let written = self.locked(number, present, |stored| {
            (stored.provider_id, stored.node_name, stored.conditions) = status(&claim);
        });
        self.answered().await;
        written.map(drop)
    }

    /// Changes a claim that is still at `version`; one that is gone needs nothing. Its next version.
    fn locked(&self, number: usize, version: u64, change: impl FnOnce(&mut Claim)) -> Result<u64, Conflict> {
        let life = &mut *self.life(number);
        let Some(claim) = &mut life.claim else { return Ok(version) };
        if life.version != version {
            return Err(Conflict);
        }
        change(claim);
        life.version += 1;
        Ok(life.version)
    }
}

type Status = (
    Option<karpenter_model::ProviderId>,
    Option<karpenter_model::NodeName>,
    BTreeMap<ConditionType, Condition>,
);

fn status(claim: &Claim) -> Status {
    (claim.provider_id.clone(), claim.node_name.clone(), claim.conditions.clone())
}

/// Lets the others go on.
async fn wait() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Draft {
    fn of(claim: Claim, version: u64) -> Self {
        Self { version, before: claim.clone(), claim }
    }

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

impl Life {
    fn delete_claim(&mut self, now: Timestamp) {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.deletion.is_none()) {
            claim.deletion = Some(now);
            self.version += 1;
        }
        // The API server removes a deleted object without finalizers.
        self.claim.take_if(|claim| claim.deletion.is_some() && claim.finalizers.is_empty());
    }

    fn delete_node(&mut self, now: Timestamp) {
        if let Some(node) = &mut self.node {
            node.deletion.get_or_insert(now);
        }
        self.node.take_if(|node| node.deletion.is_some() && node.finalizers.is_empty());
    }

    /// Merges labels and annotations, locked to nothing. The new version, if the status is what it was.
    fn merge_metadata(&mut self, before: &Claim, claim: &Claim) -> Option<u64> {
        let stored = self.claim.as_mut()?;
        stored.labels.extend(claim.labels.clone());
        stored.annotations.extend(claim.annotations.clone());
        self.version += 1;
        (status(stored) == status(before)).then_some(self.version)
    }

    fn patch_node(&mut self, patch: &NodePatch, now: Timestamp) {
        let Some(node) = &mut self.node else { return };
        if patch.remove_taints.contains(&Taint::unregistered()) {
            self.pod = Some(Pod::pending(PodKey::new("ns", "web"), "uid", now));
        }
        node.labels.extend(patch.labels.clone());
        node.taints.retain(|taint| !patch.remove_taints.iter().any(|gone| gone.matches(taint)));
        node.taints.extend(patch.add_taints.clone());
        node.owners.extend(patch.add_owner.iter().map(|(_, uid)| uid.clone()));
        if patch.add_finalizer {
            node.finalizers.push(finalizer::TERMINATION.to_owned());
        }
        assert!(
            node.deletion.is_none() || node.labels.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS),
            "a node being terminated leaves its load balancers"
        );
    }

    fn tick(&mut self, number: usize, now: i64) {
        self.start_if_due(now);
        match self.machine {
            Machine::Running { since } if now == since + BOOT => {
                let mut node = NodeObject::bare(&format!("node-{number}"), at(now));
                node.provider_id = Some(provider_id(number).as_str().into());
                node.taints = vec![Taint::unregistered()];
                self.node = Some(node);
            }
            Machine::Running { since } if now == since + 2 * BOOT => {
                let ready = NodeCondition {
                    status: karpenter_model::ConditionStatus::True,
                    reason: String::new(),
                    last_transition: at(now),
                };
                if let Some(node) = &mut self.node {
                    Arc::make_mut(&mut node.conditions).insert("Ready".to_owned(), ready);
                }
            }
            Machine::Ending { left: 0 } => self.machine = Machine::Gone,
            // The cloud's own controller deletes Nodes of machines that are gone.
            Machine::Gone => self.delete_node(at(now)),
            Machine::Ending { left } => self.machine = Machine::Ending { left: left - 1 },
            Machine::None | Machine::Asked { .. } | Machine::Running { .. } => {}
        }
    }

    fn is_initialized(&self) -> bool {
        let label = |node: &NodeObject| node.has_true_label(label::INITIALIZED);
        self.claim.as_ref().is_some_and(|claim| claim.is_true(ConditionType::Initialized))
            && self.node.as_ref().is_some_and(label)
    }

    fn is_empty(&self) -> bool {
        self.claim.is_none() && self.node.is_none() && matches!(self.machine, Machine::Gone | Machine::None)
    }
}
