//! What a provider learns about a machine only after its launch, and what has to wait for it.

use std::time::Duration;

use karpenter_model::Labels;

/// The answer of one hook about one claim (spec disruption 1.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationHook {
    /// Its name, shown while it holds the registration up: `PlacementGroupRegistrationHook`.
    pub name: &'static str,
    /// Whether the Node may be registered as far as this hook goes.
    pub state: HookState,
    /// What was learnt, for claim and Node.
    pub labels: Labels,
}

/// Whether a hook lets the registration go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    /// It does.
    Ready,
    /// Not yet; ask again after this long, if given, else with the next change.
    Pending(Option<Duration>),
    /// The hook itself failed; ask again after the back-off of the claim.
    Failed(crate::Error),
}
