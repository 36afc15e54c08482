//! Hooks: facts that a provider learns about a machine only after its launch, and the steps that wait for them.

use std::time::Duration;

use karpenter_model::Labels;

/// The answer of one hook about one claim (spec disruption 1.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationHook {
    /// Its name, shown while it holds the registration up: `PlacementGroupRegistrationHook`.
    pub name: &'static str,
    /// State of the hook, which decides whether the Node may be registered.
    pub state: HookState,
    /// Labels that were learnt, for claim and Node.
    pub labels: Labels,
}

/// State of a registration hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    /// The registration may go on.
    Ready,
    /// Not yet; ask again after this long, if given, else with the next change.
    Pending(Option<Duration>),
    /// The hook itself failed; ask again after the back-off of the claim.
    Failed(crate::Error),
}
