//! Settings of disruption. The reference hard-codes them (spec disruption 3.17) or has nothing of the kind;
//! every default behaves as the reference does as long as nothing goes wrong.

use std::time::Duration;

use crate::money::Price;

/// Settings of disruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionSettings {
    /// Quiet time between the decision for a command and its start; 15 s. Must be longer than pod events are
    /// coalesced (10 s), or a pod that arrives in between is overlooked.
    pub second_look: Duration,
    /// Most simulations within a pass, shared by the methods so that each gets at least its part, and at least one;
    /// the next pass goes on where this one stopped. It takes the place of the reference's deadlines of one and three
    /// minutes, which make results depend on the speed of the machine.
    pub simulations_per_pass: u32,
    /// Time before its expiry at which a machine counts as drifted, so that it is replaced within budgets before it has to
    /// go; no more than half of its `expireAfter` counts, and zero waits for expiry, as the reference does.
    pub expiry_lead: Duration,
    /// True if a machine counts as drifted once the cloud recommends to move off it; otherwise that is only an event, as in
    /// the reference.
    pub on_rebalance: bool,
    /// Least saving of a replacement that consolidates, in percent of the price of what goes, 0 to 100. Pods that move start
    /// again, and for a while both machines are paid for: less than this is not worth it. The reference takes whatever is
    /// cheaper.
    pub min_saving_percent: u8,
    /// Replacement of several machines by several.
    pub many_to_many: ManyToMany,
    /// Brakes that hold disruption back after failures.
    pub brakes: Brakes,
}

/// Replacement of several machines by several; opt-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManyToMany {
    /// True if it is tried at all.
    pub enabled: bool,
    /// Least saving per hour that is worth a command.
    pub min_saving: Price,
    /// Least saving in percent of what the machines cost, 0 to 100.
    pub min_saving_percent: u8,
}

/// Limits that only matter after failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brakes {
    /// Share of managed nodes, in percent, that may turn drifted for a reason that smells of missing data before
    /// drift is held until it has lasted for `mass_drift_hold`; 100 or more switches the brake off.
    pub mass_drift_percent: u8,
    /// Fewest nodes that count as many.
    pub mass_drift_least: u32,
    /// Time after the start of the process in which every drift counts as suspicious.
    pub mass_drift_quiet_after_start: Duration,
    /// Time that a suspicious drift must last to be believed; longer than the period of drift evaluation (5 min).
    pub mass_drift_hold: Duration,
    /// Replacements of a pool that fail in a row before its drift stops; 0 switches the brake off.
    pub health_gate_failures: u32,
    /// Time that a pool waits after its gate closed before one more replacement is tried.
    pub health_gate_pause: Duration,
    /// True if a machine of a static pool stays while its pool can launch nothing that could take its place.
    pub launchable_capacity: bool,
    /// Time in which a machine that took over from another one is not replaced by one like that again, and one that was
    /// launched because a removal did not work out is not removed in the same way; zero switches the brake off.
    pub anti_flap_window: Duration,
    /// Most commands that start within a minute, over all methods; 0 is no limit.
    pub commands_per_minute: u32,
}

impl Default for DisruptionSettings {
    fn default() -> Self {
        Self {
            second_look: Duration::from_secs(15),
            simulations_per_pass: 2_000,
            expiry_lead: Duration::ZERO,
            on_rebalance: false,
            min_saving_percent: 5,
            many_to_many: ManyToMany::default(),
            brakes: Brakes::default(),
        }
    }
}

impl Default for ManyToMany {
    fn default() -> Self {
        Self { enabled: false, min_saving: Price::from_nanos(50_000_000), min_saving_percent: 10 }
    }
}

impl Default for Brakes {
    fn default() -> Self {
        Self {
            mass_drift_percent: 50,
            mass_drift_least: 10,
            mass_drift_quiet_after_start: Duration::from_mins(15),
            mass_drift_hold: Duration::from_mins(11),
            health_gate_failures: 3,
            health_gate_pause: Duration::from_mins(30),
            launchable_capacity: true,
            anti_flap_window: Duration::from_mins(15),
            commands_per_minute: 300,
        }
    }
}
