//! The eviction queue: which pods to ask the API server to evict, and what its answers mean (spec disruption 2.4).
//!
//! A pod is queued once, by key and uid: a pod created again under the same name is another pod. Each pod has
//! its own back-off. Unlike the reference, a pod that is gone leaves nothing behind (spec disruption 9.23).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::NodeName;
use karpenter_model::names::reason;

use crate::step::{About, Effect, Event, PodRef};

/// First delay after a refused eviction.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest delay between two tries.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Message of the API server, with code 500, when more than one budget covers a pod.
const SEVERAL_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                               does not support.";

/// The API server's answer to one eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The pod will go.
    Accepted,
    /// An API status other than success.
    Refused {
        /// HTTP status code.
        code: u16,
        /// Message of the status.
        message: &'a str,
    },
    /// No API status at all: the request did not get through.
    Lost,
}

/// Meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meaning {
    /// Evicted; done.
    Evicted,
    /// Not there any more, or another pod of the same name; done.
    Gone,
    /// A budget does not allow it now; try again.
    BudgetExhausted,
    /// Two budgets cover it, which the API server never allows; try again, a person has to act.
    SeveralBudgets,
    /// Something else; try again.
    Failed,
}

/// Reads an answer of the API server.
pub fn classify(answer: Answer<'_>) -> Meaning {
    match answer {
        Answer::Accepted => Meaning::Evicted,
        // 409 answers the uid sent as precondition: the name belongs to another pod.
        Answer::Refused { code: 404 | 409, .. } => Meaning::Gone,
        Answer::Refused { code: 429, .. } => Meaning::BudgetExhausted,
        // The API server has no code of its own for it; only the text distinguishes it from a failure.
        Answer::Refused { code: 500, message } if message.contains(SEVERAL_BUDGETS) => {
            Meaning::SeveralBudgets
        }
        Answer::Refused { .. } | Answer::Lost => Meaning::Failed,
    }
}

/// The delay before the next try after this many failures in a row, at least one.
pub fn backoff(failures: u32) -> Duration {
    let factor = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    BACKOFF_MIN.checked_mul(factor).unwrap_or(BACKOFF_MAX).min(BACKOFF_MAX)
}

/// Reason why the pods of a node are drained: the text of the event and the label of the metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainReason(String);

impl DrainReason {
    /// The reason of the claim's `DisruptionReason` condition; nothing voluntary is "forceful".
    pub fn of(condition_reason: Option<&str>) -> Self {
        Self(
            condition_reason.filter(|reason| !reason.is_empty()).unwrap_or("Forceful Termination").to_owned(),
        )
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Pods waiting to be evicted, each with its own back-off.
#[derive(Debug, Clone, Default)]
pub struct Queue(BTreeMap<PodRef, Entry>);

#[derive(Debug, Clone)]
struct Entry {
    node: NodeName,
    failures: u32,
    due: Timestamp,
}

impl Queue {
    /// Queues a pod of this node, due now; a pod that is queued already stays as it is. True if it was new.
    pub fn add(&mut self, pod: PodRef, node: &NodeName, now: Timestamp) -> bool {
        let known = self.0.contains_key(&pod);
        self.0.entry(pod).or_insert_with(|| Entry { node: node.clone(), failures: 0, due: now });
        !known
    }

    /// True when exactly this pod is queued.
    pub fn contains(&self, pod: &PodRef) -> bool {
        self.0.contains_key(pod)
    }

    /// The pods whose turn it is, longest due first.
    pub fn due(&self, now: Timestamp) -> Vec<PodRef> {
        let mut due: Vec<_> = self.0.iter().filter(|(_, entry)| entry.due <= now).collect();
        due.sort_by(|(left_pod, left), (right_pod, right)| (left.due, left_pod).cmp(&(right.due, right_pod)));
        due.into_iter().map(|(pod, _)| pod.clone()).collect()
    }

    /// Time at which the next pod is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.0.values().map(|entry| entry.due).min()
    }

    /// Number of queued pods.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records an answer about a queued pod: drops it or schedules the next try; returns events.
    pub fn answered(
        &mut self,
        pod: &PodRef,
        meaning: Meaning,
        reason: &DrainReason,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(entry) = self.0.get_mut(pod) else { return Vec::new() };
        let about_node = About::Node(entry.node.clone());
        let event = match meaning {
            Meaning::Evicted => Some(Event::new(
                About::Pod(pod.clone()),
                reason::EVICTED,
                format!("Evicted pod: {}", reason.as_str()),
            )),
            Meaning::BudgetExhausted => {
                let message = format!("evicting pod {} violates a PDB", pod.key);
                Some(Event::new(about_node, reason::FAILED_DRAINING, message).on(pod.key.to_string()))
            }
            Meaning::SeveralBudgets => {
                let message =
                    format!("evicting pod {} is covered by multiple PDBs, which are not supported", pod.key);
                Some(Event::new(about_node, reason::FAILED_DRAINING, message).on(pod.key.to_string()))
            }
            Meaning::Gone | Meaning::Failed => None,
        };
        match meaning {
            Meaning::Evicted | Meaning::Gone => {
                self.0.remove(pod);
            }
            Meaning::BudgetExhausted | Meaning::SeveralBudgets | Meaning::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                entry.due = now + backoff(entry.failures);
            }
        }
        event.map(Effect::Event).into_iter().collect()
    }

    /// Forgets a pod, because it is gone or its node no longer is being drained.
    pub fn remove(&mut self, pod: &PodRef) {
        self.0.remove(pod);
    }
}

#[cfg(test)]
mod tests;
