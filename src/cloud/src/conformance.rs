//! The conformance suite: what every provider must do, run by each against its own backend.
//!
//! A backend builds a fresh [`World`] per check, so checks do not depend on each other and a failure names one
//! behaviour. A backend may leave a check out only by naming the reason in [`Backend::skipped`].

mod ending;
mod launching;
mod listing;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_model::Pool;

use crate::memory::Operation;
use crate::{LaunchRequest, OfferingKey, Provider};

/// Runs every check and reports all outcomes, in the order of [`CHECKS`].
pub async fn run(backend: &dyn Backend) -> Report {
    let mut outcomes = Vec::with_capacity(CHECKS.len());
    for check in CHECKS {
        let outcome = if let Some(reason) = backend.skipped(check.name) {
            Outcome::Skipped(reason)
        } else {
            let world = backend.world().await;
            (check.run)(world.as_ref()).await.map_or_else(Outcome::Failed, |()| Outcome::Passed)
        };
        outcomes.push((check.name, outcome));
    }
    Report { outcomes }
}

/// Something that can set up an empty account with a provider on it.
#[async_trait]
pub trait Backend: Send + Sync {
    /// An empty account, for one check.
    async fn world(&self) -> Box<dyn World>;

    /// Reason why a check cannot be run on this backend; `None` runs it.
    fn skipped(&self, _check: &str) -> Option<&'static str> {
        None
    }
}

/// One account with a provider on it, and the powers a check needs over both.
#[async_trait]
pub trait World: Send + Sync {
    /// The provider under test; the same one on every call.
    fn provider(&self) -> Arc<dyn Provider>;

    /// A provider with empty memory on the same account, as after a restart of the process.
    fn restarted(&self) -> Arc<dyn Provider>;

    /// A request that at least two offerings of different zones can serve.
    fn request(&self, claim: &str) -> LaunchRequest;

    /// A pool that [`Self::request`] could have come from.
    fn pool(&self) -> Pool;

    /// Takes away all capacity of one offering.
    async fn exhaust(&self, offering: &OfferingKey);

    /// Lets time pass until booting machines run and ending ones are gone.
    async fn settle(&self);

    /// The next call of this operation does its work, then loses the answer.
    async fn lose_answer(&self, operation: Operation);

    /// The next call of this operation fails transiently without doing anything.
    async fn refuse(&self, operation: Operation);
}

/// One behaviour every provider must show.
pub struct Check {
    /// Behavior that the check shows; stable, used by [`Backend::skipped`].
    pub name: &'static str,
    run: for<'a> fn(&'a dyn World) -> CheckFuture<'a>,
}

type CheckFuture<'a> = Pin<Box<dyn Future<Output = CheckResult> + Send + 'a>>;
type CheckResult = Result<(), String>;

/// Every check.
pub const CHECKS: &[Check] = &[
    Check { name: "launch describes the machine", run: |w| Box::pin(launching::describes_the_machine(w)) },
    Check { name: "launch twice is one machine", run: |w| Box::pin(launching::twice_is_one_machine(w)) },
    Check {
        name: "concurrent launches of one claim are one machine",
        run: |w| Box::pin(launching::concurrent_launches_are_one_machine(w)),
    },
    Check { name: "launch survives a lost answer", run: |w| Box::pin(launching::survives_a_lost_answer(w)) },
    Check { name: "launch after a restart adopts", run: |w| Box::pin(launching::after_a_restart_adopts(w)) },
    Check { name: "a later attempt adopts", run: |w| Box::pin(launching::a_later_attempt_adopts(w)) },
    Check {
        name: "a terminating machine is not adopted",
        run: |w| Box::pin(launching::ending_machine_is_not_adopted(w)),
    },
    Check {
        name: "another claim gets another machine",
        run: |w| Box::pin(launching::another_claim_gets_another_machine(w)),
    },
    Check {
        name: "lack of capacity excludes only its offering",
        run: |w| Box::pin(launching::exhausted_offering_alone_is_excluded(w)),
    },
    Check {
        name: "no offering left is no capacity",
        run: |w| Box::pin(launching::no_offering_left_is_no_capacity(w)),
    },
    Check { name: "terminate twice is already gone", run: |w| Box::pin(ending::twice_is_already_gone(w)) },
    Check {
        name: "terminate of an unknown machine is already gone",
        run: |w| Box::pin(ending::unknown_machine_is_already_gone(w)),
    },
    Check { name: "terminated machine is not found", run: |w| Box::pin(ending::terminated_is_not_found(w)) },
    Check { name: "terminate survives a lost answer", run: |w| Box::pin(ending::survives_a_lost_answer(w)) },
    Check { name: "terminate fails when refused", run: |w| Box::pin(ending::fails_when_refused(w)) },
    Check {
        name: "the machine of a claim is found until it is gone",
        run: |w| Box::pin(ending::machine_of_claim_is_found(w)),
    },
    Check {
        name: "the machine of a claim is an error when refused",
        run: |w| Box::pin(ending::machine_of_claim_is_an_error_when_refused(w)),
    },
    Check { name: "a machine that is rebooted stays", run: |w| Box::pin(ending::rebooted_stays(w)) },
    Check {
        name: "reboot of a machine that is gone is not found",
        run: |w| Box::pin(ending::rebooted_when_gone_is_not_found(w)),
    },
    Check { name: "reboot fails when refused", run: |w| Box::pin(ending::reboot_fails_when_refused(w)) },
    Check { name: "list is complete", run: |w| Box::pin(listing::is_complete(w)) },
    Check { name: "list is an error when refused", run: |w| Box::pin(listing::is_an_error_when_refused(w)) },
    Check {
        name: "list leaves out terminated machines",
        run: |w| Box::pin(listing::leaves_out_terminated(w)),
    },
    Check { name: "tags name claim and node", run: |w| Box::pin(listing::tags_name_claim_and_node(w)) },
    Check {
        name: "exhausted types are still listed",
        run: |w| Box::pin(listing::exhausted_types_are_still_listed(w)),
    },
];

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// Name and outcome of each check.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider behaves.
    Passed,
    /// The provider misbehaves; the text describes how.
    Failed(String),
    /// Left out, with the backend's reason.
    Skipped(&'static str),
}

impl Report {
    /// True when nothing failed.
    pub fn conforms(&self) -> bool {
        self.outcomes.iter().all(|(_, outcome)| !matches!(outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome) in &self.outcomes {
            match outcome {
                Outcome::Passed => writeln!(f, "pass  {name}")?,
                Outcome::Failed(complaint) => writeln!(f, "FAIL  {name}: {complaint}")?,
                Outcome::Skipped(reason) => writeln!(f, "skip  {name}: {reason}")?,
            }
        }
        Ok(())
    }
}

/// A complaint unless the fact holds.
fn ensure(fact: bool, complaint: impl FnOnce() -> String) -> CheckResult {
    if fact { Ok(()) } else { Err(complaint()) }
}

/// The value of a call that must succeed.
fn succeeds<T>(what: &str, result: crate::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// The kind of a call that must fail.
fn fails<T: fmt::Debug>(what: &str, result: crate::Result<T>) -> Result<crate::Kind, String> {
    match result {
        Ok(value) => Err(format!("{what} succeeded with {value:?}")),
        Err(error) => Ok(error.kind),
    }
}
