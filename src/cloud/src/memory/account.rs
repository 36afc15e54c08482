//! The cloud behind the in-memory provider: machines, capacity, faults, and what was asked of it.
//!
//! Time is read from the given clock only; a machine's state is a function of when it was launched, when its
//! termination was asked for, and now. Nothing ticks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Clock, ProviderId, Zone};
use parking_lot::Mutex;

use super::faults::{Call, Fault, Faults, Operation};
use crate::{Instance, InstanceId, InstanceState, LaunchToken, OfferingKey};

/// One account of the in-memory cloud. Several providers may share it: that is what a restart looks like.
pub struct Account {
    clock: Arc<dyn Clock>,
    options: Options,
    state: Mutex<State>,
}

/// Behavior of the account.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time from accepted to running.
    pub boot: Duration,
    /// Time from the call that ends it until it is gone.
    pub shutdown: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { boot: Duration::from_secs(20), shutdown: Duration::from_secs(30) }
    }
}

#[derive(Default)]
struct State {
    machines: BTreeMap<ProviderId, Machine>,
    tokens: BTreeMap<LaunchToken, ProviderId>,
    exhausted: BTreeSet<OfferingKey>,
    drifted: BTreeMap<ProviderId, crate::DriftReason>,
    hooks: Vec<crate::RegistrationHook>,
    zones_away: BTreeSet<Zone>,
    faults: Faults,
    calls: Vec<Call>,
    launched: u64,
}

#[derive(Clone)]
struct Machine {
    instance: Instance,
    ending_since: Option<Timestamp>,
    stopped: bool,
    reboots: u32,
}

impl Account {
    /// An empty account.
    pub fn new(clock: Arc<dyn Clock>, options: Options) -> Arc<Self> {
        Arc::new(Self { clock, options, state: Mutex::default() })
    }

    /// Takes away all capacity of one offering until [`Self::restock`].
    pub fn exhaust(&self, offering: OfferingKey) {
        self.state.lock().exhausted.insert(offering);
    }

    /// Gives an offering its capacity back.
    pub fn restock(&self, offering: &OfferingKey) {
        self.state.lock().exhausted.remove(offering);
    }

    /// Makes the next call of an operation go wrong; several faults of one operation queue up.
    pub fn fail(&self, operation: Operation, fault: Fault) {
        self.state.lock().faults.push(operation, fault);
    }

    /// Makes a machine vanish at once, as when a person terminates it by hand and time passes.
    pub fn vanish(&self, id: &ProviderId) {
        self.state.lock().machines.remove(id);
    }

    /// Number of times that a machine was rebooted.
    pub fn reboots(&self, id: &ProviderId) -> u32 {
        self.state.lock().machines.get(id).map_or(0, |machine| machine.reboots)
    }

    pub(super) fn reboot(&self, id: &ProviderId) {
        if let Some(machine) = self.state.lock().machines.get_mut(id) {
            machine.reboots += 1;
        }
    }

    /// Stops a machine.
    pub fn stop(&self, id: &ProviderId) {
        if let Some(machine) = self.state.lock().machines.get_mut(id) {
            machine.stopped = true;
        }
    }

    /// Makes the drift check of this machine answer with a reason, or with none again.
    pub fn drift(&self, id: &ProviderId, reason: impl Into<Option<crate::DriftReason>>) {
        match reason.into() {
            Some(reason) => self.state.lock().drifted.insert(id.clone(), reason),
            None => self.state.lock().drifted.remove(id),
        };
    }

    /// Makes these the answers of the registration hooks, for every claim.
    pub fn answer_hooks(&self, hooks: Vec<crate::RegistrationHook>) {
        self.state.lock().hooks = hooks;
    }

    /// Shifts away from these zones, and from no others.
    pub fn shift_away(&self, zones: impl IntoIterator<Item = Zone>) {
        self.state.lock().zones_away = zones.into_iter().collect();
    }

    /// Every call so far, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    /// Every machine that is not gone, in id order.
    pub fn machines(&self) -> Vec<Instance> {
        let now = self.clock.now();
        self.state.lock().machines.values().map(|machine| self.view(machine, now)).filter(not_gone).collect()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Logs a call and takes the fault it meets.
    pub(super) fn enter(&self, operation: Operation, subject: &str) -> Option<Fault> {
        let mut state = self.state.lock();
        let fault = state.faults.pop(operation);
        state.calls.push(Call { operation, subject: subject.to_owned(), fault: fault.clone() });
        fault
    }

    pub(super) fn is_exhausted(&self, offering: &OfferingKey) -> bool {
        self.state.lock().exhausted.contains(offering)
    }

    pub(super) fn registration_hooks(&self) -> Vec<crate::RegistrationHook> {
        self.state.lock().hooks.clone()
    }

    pub(super) fn zones_away(&self) -> BTreeSet<Zone> {
        self.state.lock().zones_away.clone()
    }

    pub(super) fn drift_of(&self, id: &ProviderId) -> Option<crate::DriftReason> {
        self.state.lock().drifted.get(id).cloned()
    }

    /// The machine of a token, else a new one built from the ids given to `build`.
    pub(super) fn launch(
        &self,
        token: LaunchToken,
        build: impl FnOnce(ProviderId, InstanceId) -> Instance,
    ) -> Instance {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some(machine) = state.tokens.get(&token).and_then(|id| state.machines.get(id)) {
            return self.view(machine, now);
        }
        state.launched += 1;
        let instance_id = InstanceId::from(format!("i-{:017x}", state.launched).as_str());
        let provider_id = ProviderId::from(format!("memory:///{instance_id}").as_str());
        let instance = build(provider_id.clone(), instance_id);
        let machine = Machine { instance, ending_since: None, stopped: false, reboots: 0 };
        let seen = self.view(&machine, now);
        state.machines.insert(provider_id.clone(), machine);
        state.tokens.insert(token, provider_id);
        seen
    }

    /// A machine that is not gone.
    pub(super) fn machine(&self, id: &ProviderId) -> Option<Instance> {
        let now = self.clock.now();
        self.state.lock().machines.get(id).map(|machine| self.view(machine, now)).filter(not_gone)
    }

    /// Starts the end of a machine; false when it is gone.
    pub(super) fn end(&self, id: &ProviderId) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(id) else { return false };
        machine.ending_since.get_or_insert(now);
        not_gone(&self.view(machine, now))
    }

    pub(super) fn write_tags(
        &self,
        id: &ProviderId,
        tags: impl IntoIterator<Item = (String, String)>,
    ) -> bool {
        match self.state.lock().machines.get_mut(id) {
            Some(machine) => {
                machine.instance.tags.extend(tags);
                true
            }
            None => false,
        }
    }

    fn view(&self, machine: &Machine, now: Timestamp) -> Instance {
        let mut instance = machine.instance.clone();
        instance.state = match machine.ending_since {
            Some(told) if since(told, now) >= self.options.shutdown => InstanceState::Terminated,
            Some(_) => InstanceState::ShuttingDown,
            None if machine.stopped => InstanceState::Stopped,
            None if since(instance.launched_at, now) >= self.options.boot => InstanceState::Running,
            None => InstanceState::Pending,
        };
        instance
    }
}

fn not_gone(instance: &Instance) -> bool {
    instance.state != InstanceState::Terminated
}
