//! The Lease as client-go reads and writes it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::Candidate;

/// Holder of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Never held, or given back.
    Nobody,
    Somebody {
        identity: String,
        /// Longest time that the holder may go without renewing.
        lease: Duration,
    },
}

impl Holder {
    /// Reads the holder off the record; an empty identity means it was given back.
    pub fn of(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else { return Self::Nobody };
        match spec.holder_identity.as_deref() {
            None | Some("") => Self::Nobody,
            Some(identity) => {
                let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                Self::Somebody {
                    identity: identity.to_owned(),
                    lease: Duration::from_secs(seconds.unwrap_or_default()),
                }
            }
        }
    }
}

/// The first record of a Lease that does not exist.
pub(super) fn first(candidate: &Candidate, now: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(candidate.name.clone()),
            namespace: Some(candidate.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            lease_transitions: Some(0),
            acquire_time: Some(MicroTime(now)),
            ..spec(candidate, now)
        }),
    }
}

/// The present record, taken over or renewed. It keeps its resource version, so a lost race is a conflict.
pub(super) fn held(present: Lease, candidate: &Candidate, now: Timestamp) -> Lease {
    let previous = present.spec.clone().unwrap_or_default();
    let renewing = previous.holder_identity.as_deref() == Some(&candidate.identity);
    let transitions = previous.lease_transitions.unwrap_or_default();
    Lease {
        spec: Some(LeaseSpec {
            lease_transitions: Some(if renewing { transitions } else { transitions.saturating_add(1) }),
            acquire_time: if renewing { previous.acquire_time.clone() } else { Some(MicroTime(now)) },
            ..spec(candidate, now)
        }),
        ..present
    }
}

/// The present record, given back: no holder and a lease of one second, as client-go writes it.
pub(super) fn released(present: Lease, now: Timestamp) -> Lease {
    let transitions = present.spec.as_ref().and_then(|spec| spec.lease_transitions);
    Lease {
        spec: Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        }),
        ..present
    }
}

fn spec(candidate: &Candidate, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: i32::try_from(candidate.lease.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Duration, Holder, Timestamp, first, held, released};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn taking_over_counts_a_transition_and_renewing_does_not() {
        let (a, b) = (Candidate::new("ns", "lease", "a"), Candidate::new("ns", "lease", "b"));
        let lease = held(first(&a, at(0)), &a, at(2));
        let spec = lease.spec.as_ref().unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time.as_ref().unwrap().0), (Some(0), at(0)));
        let lease = held(lease, &b, at(20));
        let spec = lease.spec.as_ref().unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time.as_ref().unwrap().0), (Some(1), at(20)));
        assert_eq!(
            Holder::of(&lease),
            Holder::Somebody { identity: "b".to_owned(), lease: Duration::from_secs(15) }
        );
    }

    #[test]
    fn a_released_lease_has_no_holder_and_keeps_its_count() {
        let a = Candidate::new("ns", "lease", "a");
        let lease = released(first(&a, at(0)), at(5));
        assert_eq!(Holder::of(&lease), Holder::Nobody);
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(0));
    }
}
