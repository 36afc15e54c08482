//! The planner from outside: golden scenarios and properties over generated worlds.

mod ahead;
mod brute_force;
mod claims;
mod consolidation;
mod consolidation_optimum;
mod consolidation_passes;
mod devices;
mod disruption;
mod disruption_blocked;
mod fuller;
mod mixed;
mod optimum;
mod overrides;
mod promises;
mod properties;
mod refusals;
mod scenarios;
mod ties;
mod together;
