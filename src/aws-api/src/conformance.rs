//! Conformance of backends: the same assertions run on the in-memory account in this crate's tests and on an emulator in the
//! end-to-end suite, so that the fake is held to an independent implementation.
//!
//! A check makes what it needs under names that begin with [`Subject::prefix`], asserts, and cleans up. A check
//! that fails may leave things behind; use a fresh prefix, or a fresh account.

mod compute;
mod events;
mod identity;
mod launch;
mod nodes;
mod placement;
mod queue;
mod stacks;
mod survey;

use std::future::Future;
use std::pin::Pin;

use crate::id::{ImageId, InstanceType, ReservationId, SecurityGroupId, SubnetId};
use crate::{Clients, Error, Kind, Result};

/// The account under test, and what is known to exist in it.
pub struct Subject {
    pub clients: Clients,
    /// Begins every name the checks give; lower-case letters, digits and hyphens.
    pub prefix: String,
    /// A subnet with free addresses.
    pub subnet: SubnetId,
    /// A security group of the subnet's VPC.
    pub security_group: SecurityGroupId,
    /// An available `x86_64` image.
    pub image: ImageId,
    /// Two `x86_64` types offered in the subnet's zone, the cheaper one first.
    pub types: [InstanceType; 2],
    /// A cluster that accepts access entries; `None` leaves the EKS checks out.
    pub cluster: Option<String>,
    /// Resources that no check can make by itself; `None` leaves the checks of them out.
    pub reserved: Option<Reserved>,
    /// Lets a few seconds pass for the account: advances its clock, or sleeps.
    pub pass_time: Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>,
}

/// Capacity that was bought ahead, and a group to be placed in.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// A targeted reservation for one instance of the first type in the subnet's zone.
    pub reservation: ReservationId,
    /// The name of an empty placement group of three partitions.
    pub placement_group: String,
}

/// Violation that a check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl From<Error> for Violation {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Outcome of one check.
pub type Outcome = std::result::Result<(), Violation>;

/// A check running.
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A named check.
#[derive(Clone, Copy)]
pub struct Check {
    /// Stable name, to list known gaps of an emulator by.
    pub name: &'static str,
    run: for<'a> fn(&'a Subject) -> Running<'a>,
}

impl Check {
    /// Runs the check.
    pub async fn run(&self, subject: &Subject) -> Outcome {
        (self.run)(subject).await
    }
}

macro_rules! checks {
    ($($module:ident::$name:ident,)*) => {
        /// All checks, in the order they are run.
        pub const CHECKS: &[Check] = &[$(
            Check {
                name: concat!(stringify!($module), ".", stringify!($name)),
                run: |subject| Box::pin($module::$name(subject)),
            },
        )*];
    };
}

checks! {
    identity::caller_is_known,
    identity::roles_live_and_die,
    identity::policies_keep_five_versions,
    identity::profiles_hold_one_role,
    identity::service_linked_role_is_made_once,
    queue::queue_lives_and_dies,
    queue::messages_hide_while_handled,
    queue::missing_queue_is_not_found,
    events::rules_live_and_die,
    events::matching_events_reach_the_queue,
    nodes::access_entries_live_and_die,
    nodes::pod_identity_lives_and_dies,
    nodes::missing_parameter_is_not_found,
    nodes::public_parameters_are_read_by_name_and_arn,
    compute::catalogue_describes_the_types,
    compute::network_is_found_by_id_and_tag,
    compute::images_are_found_by_id,
    compute::launch_templates_live_and_die,
    launch::an_instance_lives_and_dies,
    launch::dry_runs_launch_nothing,
    launch::the_same_token_launches_once,
    launch::lowest_price_takes_the_cheaper_type,
    launch::a_missing_template_is_not_found,
    placement::reservations_are_found,
    placement::a_reservation_is_used_up_and_given_back,
    placement::partitions_are_chosen_or_named,
    stacks::stacks_live_and_die,
    survey::volumes_have_a_key,
    survey::a_vpc_has_a_main_route_table,
    survey::a_key_that_is_not_there_is_not_found,
    survey::identity_limits_are_reported,
    survey::a_quota_that_is_not_there_is_not_found,
    survey::iam_says_what_a_role_may,
}

/// Runs all checks except the named ones; every violation with the name of its check.
pub async fn run(subject: &Subject, except: &[&str]) -> Vec<(&'static str, Violation)> {
    let mut violations = Vec::new();
    for check in CHECKS.iter().filter(|check| !except.contains(&check.name)) {
        if let Err(violation) = check.run(subject).await {
            violations.push((check.name, violation));
        }
    }
    violations
}

impl Subject {
    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Violation(what())) }
}

/// The call must fail, and in this way.
fn refused<T>(result: Result<T>, kind: Kind, what: &str) -> Outcome {
    match result {
        Ok(_) => Err(Violation(format!("{what}: worked, {kind:?} expected"))),
        Err(error) => ensure(error.kind == kind, || format!("{what}: {kind:?} expected, got {error:?}")),
    }
}

/// The two must be equal.
fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, what: &str) -> Outcome {
    ensure(found == expected, || format!("{what}: {expected:?} expected, found {found:?}"))
}

fn tags(pairs: &[(&str, &str)]) -> crate::Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
