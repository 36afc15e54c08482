//! Meaning of a seed: a world, what happens to it and when, and which faults are possible.
//!
//! A history is data. Shrinking leaves parts of it out ([`crate::shrink`]); what is left happens as before, because
//! every part was drawn before the run began and every fault has a stream of its own.

mod draw;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::defect::Defect;

/// Faults that are possible while a history is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Requests to the API server and their answers take up to two seconds each.
    KubeLatency,
    /// The API server answers 409, 429, 500 or 503 instead of doing what was asked.
    KubeErrors,
    /// The API server does what was asked; the connection ends before the answer.
    KubeLostAnswers,
    /// The API server does what was asked and answers after more than a minute.
    KubeHangs,
    /// Watches end, in the middle of an event or after it.
    WatchCuts,
    /// Events of a watch arrive up to ten seconds late.
    WatchLate,
    /// Events of a watch arrive twice.
    WatchRepeats,
    /// The API server forgets its history: watches that resume get 410.
    WatchExpiries,
    /// Bookmarks do not arrive.
    WatchSilence,
    /// Calls of AWS take up to five seconds.
    AwsLatency,
    /// AWS throttles or answers with errors of its own.
    AwsErrors,
    /// AWS does what was asked; the connection ends before the answer.
    AwsLostAnswers,
    /// `DescribeInstances` answers with what was true a while ago, and does not know new instances.
    AwsStale,
    /// Offerings have no capacity for a while.
    AwsCapacity,
    /// Instances end instead of booting.
    AwsDoomedBoots,
    /// Machines that never join, or fall silent.
    Kubelets,
    /// The process dies, at any piece of I/O, and is started again.
    Crashes,
    /// The process is cut off for longer than its lease lasts.
    Holds,
    /// `DescribeImages` finds none for a while.
    AwsNoImages,
    /// `DescribeCapacityReservations` counts wrongly, or finds none for a while.
    AwsReservations,
    /// `DescribeSubnets` finds no subnet of a zone for a while.
    AwsSubnets,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::KubeLatency,
        Self::KubeErrors,
        Self::KubeLostAnswers,
        Self::KubeHangs,
        Self::WatchCuts,
        Self::WatchLate,
        Self::WatchRepeats,
        Self::WatchExpiries,
        Self::WatchSilence,
        Self::AwsLatency,
        Self::AwsErrors,
        Self::AwsLostAnswers,
        Self::AwsStale,
        Self::AwsCapacity,
        Self::AwsDoomedBoots,
        Self::Kubelets,
        Self::Crashes,
        Self::Holds,
        // The last: faults are drawn in this order.
        Self::AwsNoImages,
        Self::AwsReservations,
        Self::AwsSubnets,
    ];
}

/// Consolidation policy of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    WhenEmpty,
    WhenEmptyOrUnderutilized,
    Balanced,
}

/// A pool of the world. Every pool consolidates, unless its machines are fixed in number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) weight: u32,
    /// Cores of all its machines at most.
    pub(crate) cores: Option<u32>,
    /// Machines in disruption at once.
    pub(crate) budget: u32,
    pub(crate) consolidate_after: u32,
    pub(crate) policy: Policy,
    pub(crate) spot: bool,
    /// Number of its machines, whatever pods there are; as many as pods need if none.
    pub(crate) replicas: Option<u32>,
    /// Minutes after which a machine has to go.
    pub(crate) expire_after: Option<u32>,
    /// Seconds a drain may take.
    pub(crate) grace: Option<u32>,
    /// Each claim is to allow two zones, as far as it can.
    pub(crate) two_zones: bool,
}

/// A capacity reservation of the world, which the class selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) id: String,
    pub(crate) instance_type: &'static str,
    /// Number of its zone.
    pub(crate) zone: usize,
    pub(crate) instances: u32,
}

/// Controller that keeps the pods of a workload up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
    /// Its pods end after a while, and no more come.
    Job,
}

/// Affinity of the pods of a workload to the daemons on their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Daemon that every node has.
    Beside,
    /// None of those that spot nodes have.
    Apart,
}

/// Differences of machines from what is foreseen, until the trouble is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Hundredths of a resource that are missing.
    Room(&'static str, i32),
    /// They join with a taint.
    Taint,
    /// Seconds by which they join later, and by which they are ready later.
    Late(u64, u64),
    /// Period and duration, in seconds, for which they stop being ready.
    Flaps(u64, u64),
}

/// Pods of one kind that the world keeps up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself, any go together")]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) replicas: u32,
    pub(crate) millicores: u32,
    /// A disruption budget of pods with `maxUnavailable: 1`.
    pub(crate) guarded: bool,
    /// Two of these budgets, so that the API server evicts none of its pods.
    pub(crate) twice_guarded: bool,
    pub(crate) do_not_disrupt: bool,
    /// Spread over zones.
    pub(crate) spread: bool,
    /// One pod a node.
    pub(crate) apart: bool,
    /// Its one pod has a volume.
    pub(crate) volume: bool,
    /// Only where there are daemons.
    pub(crate) company: Option<Company>,
}

/// Something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// Content of an event. A `usize` picks one of those there are at the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Scale(String, u32),
    Arrive(Workload),
    Leave(String),
    /// The template of a pool gets another label.
    DriftPool(String, u32),
    /// A pool with a fixed number of machines gets another one.
    Resize(String, u32),
    /// Another client of AWS reserves more capacity.
    Reserve(Reservation),
    /// A capacity reservation is cancelled: its instances go on as on-demand ones.
    CancelReservation(String),
    /// A machine fails for good: it falls silent, or says that it is not ready.
    Break(usize),
    /// EC2 takes an instance back, with its warning.
    Interrupt(usize),
    /// Another client of AWS ends an instance.
    EndInstance(usize),
    /// Another client of AWS stops an instance.
    StopInstance(usize),
    DeleteClaim(usize),
    DeleteNode(usize),
    /// Another client removes a Node at once, whatever finalizers it has; its instance stops or goes on.
    LoseNode(usize, bool),
    /// Machines differ from now on, at most this number of them.
    Differ(Odd, usize),
    /// No capacity in a zone for a while, for spot or for the rest.
    Dry(usize, bool, Duration),
    /// This number of instances end instead of booting.
    Doom(u32),
    /// For a while new machines never join.
    NoJoin(Duration),
    /// A machine falls silent.
    Silence(usize),
    /// All watches end, and the history they would resume from is forgotten.
    Forget,
    /// A replica dies after this number of pieces of I/O.
    Crash(usize, u32),
    /// A replica is cut off.
    Hold(usize, Duration),
    /// No image is found for a while.
    NoImages(Duration),
    /// No capacity reservation is found for a while.
    NoReservations(Duration),
    /// No subnet of a zone is found for a while.
    NoSubnets(usize, Duration),
}

impl What {
    /// The fault it is part of; `None` for what is no fault.
    fn fault(&self) -> Option<Fault> {
        match self {
            Self::Scale(..)
            | Self::Arrive(_)
            | Self::Leave(_)
            | Self::DriftPool(..)
            | Self::Resize(..)
            | Self::Reserve(_)
            | Self::CancelReservation(_)
            | Self::Break(_)
            | Self::Interrupt(_)
            | Self::EndInstance(_)
            | Self::StopInstance(_)
            | Self::DeleteClaim(_)
            | Self::DeleteNode(_)
            | Self::LoseNode(..)
            | Self::Differ(..) => None,
            Self::Dry(..) => Some(Fault::AwsCapacity),
            Self::Doom(_) => Some(Fault::AwsDoomedBoots),
            Self::NoJoin(_) | Self::Silence(_) => Some(Fault::Kubelets),
            Self::Forget => Some(Fault::WatchExpiries),
            Self::Crash(..) => Some(Fault::Crashes),
            Self::Hold(..) => Some(Fault::Holds),
            Self::NoImages(_) => Some(Fault::AwsNoImages),
            Self::NoReservations(_) => Some(Fault::AwsReservations),
            Self::NoSubnets(..) => Some(Fault::AwsSubnets),
        }
    }
}

/// One history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub(crate) seed: u64,
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) replicas: usize,
    /// Machines that fail are replaced (feature gate `NodeRepair`).
    pub(crate) repairs: bool,
    pub(crate) pools: Vec<Pool>,
    /// There are daemon sets: one for every node, one for spot nodes.
    pub(crate) daemons: bool,
    /// The class selects reservations, and pools may use them, only if there are some at the beginning.
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) events: Vec<Event>,
    /// Faults stop after this long.
    pub(crate) trouble: Duration,
    pub(crate) defect: Option<Defect>,
}

impl History {
    /// The history of a seed.
    pub fn of(seed: u64) -> Self {
        draw::history(seed)
    }

    /// A history of this length in which nothing happens.
    pub(crate) fn quiet(seed: u64, trouble: Duration) -> Self {
        Self {
            seed,
            faults: BTreeSet::new(),
            replicas: 1,
            repairs: false,
            daemons: false,
            pools: Vec::new(),
            reservations: Vec::new(),
            workloads: Vec::new(),
            events: Vec::new(),
            trouble,
            defect: None,
        }
    }

    /// Returns the history with a defect planted.
    #[must_use]
    pub fn with_defect(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    /// Returns whether a fault is possible.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Returns the history without a fault and its events.
    pub(crate) fn without_fault(&self, fault: Fault) -> Self {
        let mut less = self.clone();
        less.faults.remove(&fault);
        less.events.retain(|event| event.what.fault() != Some(fault));
        less
    }

    /// Returns the history without the events number `from` to `to`.
    pub(crate) fn without_events(&self, from: usize, to: usize) -> Self {
        let mut less = self.clone();
        less.events.drain(from..to);
        less
    }

    /// Returns the history without workload number `index`.
    pub(crate) fn without_workload(&self, index: usize) -> Self {
        let mut less = self.clone();
        let gone = less.workloads.remove(index).name;
        less.events.retain(
            |event| !matches!(&event.what, What::Scale(name, _) | What::Leave(name) if *name == gone),
        );
        less
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} with {} replica(s) for {:?}", self.seed, self.replicas, self.trouble)?;
        writeln!(f, "faults: {:?}", self.faults)?;
        if self.repairs {
            writeln!(f, "machines that fail are replaced")?;
        }
        if self.daemons {
            writeln!(f, "nodes have daemons")?;
        }
        for pool in &self.pools {
            writeln!(f, "{pool:?}")?;
        }
        for reservation in &self.reservations {
            writeln!(f, "{reservation:?}")?;
        }
        for workload in &self.workloads {
            writeln!(f, "{workload:?}")?;
        }
        for event in &self.events {
            writeln!(f, "{:>8.1?} {:?}", event.at, event.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_one_history_and_another_seed_another() {
        assert_eq!(History::of(1), History::of(1));
        assert_ne!(History { seed: 1, ..History::of(2) }, History::of(1));
    }

    #[test]
    fn a_fault_is_left_out_with_its_events_and_nothing_else_changes() {
        let whole = (0..200).map(History::of).find(|history| history.has(Fault::Crashes)).unwrap();
        let less = whole.without_fault(Fault::Crashes);
        assert!(!less.has(Fault::Crashes));
        let others = |event: &&Event| !matches!(event.what, What::Crash(..));
        assert!(whole.events.iter().filter(others).eq(less.events.iter()));
        assert!(less.events.len() < whole.events.len());
    }

    #[test]
    fn seeds_reach_every_fault_and_every_kind_of_event() {
        let histories: Vec<History> = (0..300).map(History::of).collect();
        for fault in Fault::ALL {
            assert!(histories.iter().any(|history| history.has(fault)), "{fault:?}");
            assert!(histories.iter().any(|history| !history.has(fault)), "{fault:?}");
        }
        let kinds: BTreeSet<_> = histories
            .iter()
            .flat_map(|history| &history.events)
            .map(|event| format!("{:?}", event.what).split('(').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds.len(), 25, "{kinds:?}");
    }
}
