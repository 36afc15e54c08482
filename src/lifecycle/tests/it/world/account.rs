//! The machines: asked for, started, told to end, gone. The cloud does what it was asked even if the process that
//! asked is no longer there.

use karpenter_lifecycle::claim::{finalize, garbage};
use karpenter_lifecycle::step::Launched;
use karpenter_model::{Annotations, Labels, Resources};

use super::at;
use super::name;
use super::provider_id;
use super::{CLASS_LABEL, Life};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    None,
    /// The cloud was asked for it and starts it then.
    Asked {
        at: i64,
    },
    Running {
        since: i64,
    },
    Ending {
        left: u32,
    },
    Gone,
}

/// Answer of the cloud to a launch.
pub(super) fn described(number: usize) -> Launched {
    Launched {
        provider_id: provider_id(number).as_str().into(),
        image_id: None,
        labels: Labels::from([(CLASS_LABEL.into(), "default".into())]),
        annotations: Annotations::new(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
    }
}

impl Life {
    pub(super) fn ask_for_machine(&mut self, at: i64, now: i64) {
        if self.machine == Machine::None {
            self.machine = Machine::Asked { at };
            self.start_if_due(now);
        }
    }

    pub(super) fn start_if_due(&mut self, now: i64) {
        if matches!(self.machine, Machine::Asked { at } if at <= now) {
            self.machine = Machine::Running { since: now };
            self.launches += 1;
        }
    }

    pub(super) fn terminate(&mut self) -> finalize::Answer {
        match self.machine {
            Machine::None | Machine::Asked { .. } | Machine::Gone => return finalize::Answer::Gone,
            Machine::Running { .. } => self.machine = Machine::Ending { left: 3 },
            Machine::Ending { .. } => {}
        }
        finalize::Answer::Started
    }

    /// Answer of the cloud about the machine of the claim.
    pub(super) fn found(&self, number: usize) -> finalize::Found {
        match self.machine {
            Machine::Running { .. } | Machine::Ending { .. } => {
                finalize::Found::Machine(provider_id(number).as_str().into())
            }
            Machine::None | Machine::Asked { .. } | Machine::Gone => finalize::Found::Nothing,
        }
    }

    /// The machine as the cloud lists it.
    pub(super) fn listed(&self, number: usize) -> Option<garbage::Machine> {
        let Machine::Running { since } = self.machine else { return None };
        Some(garbage::Machine {
            provider_id: provider_id(number).as_str().into(),
            claim: Some(name(number).as_str().into()),
            launched_at: at(since),
            ending: false,
        })
    }
}
