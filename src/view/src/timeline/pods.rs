//! Numbers of pods that run and that wait, printed as one line per change.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use karpenter_model::names::{condition, reason};
use kube::ResourceExt;

use super::{Change, Line};

/// State of every pod outside `kube-system`.
#[derive(Default)]
pub(crate) struct Pods {
    states: BTreeMap<String, State>,
    printed: Option<Counts>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not tried by the scheduler yet, or being started on a node.
    Starting,
    /// The scheduler found no node.
    Unschedulable,
    Running,
    Ending,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    starting: usize,
    unschedulable: usize,
    running: usize,
    ending: usize,
}

impl Pods {
    /// Records a change.
    pub(crate) fn observe(&mut self, change: &Change<Pod>) {
        match change {
            Change::Gone(name) => {
                self.states.remove(name);
            }
            Change::Present(pod) if pod.namespace().as_deref() == Some("kube-system") => {}
            Change::Present(pod) => {
                self.states.insert(pod.name_any(), state(pod));
            }
        }
    }

    /// Returns whether the counts differ from those last printed.
    pub(crate) fn has_news(&self) -> bool {
        self.printed.unwrap_or_default() != self.counts()
    }

    /// The counts as a line, if they are news; they are none afterwards.
    pub(crate) fn take_line(&mut self) -> Option<Line> {
        if !self.has_news() {
            return None;
        }
        let counts = self.counts();
        self.printed = Some(counts);
        let parts: Vec<_> = [
            (counts.running, "running"),
            (counts.unschedulable, "waiting for a node"),
            (counts.starting, "starting"),
            (counts.ending, "ending"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        let text = if parts.is_empty() { "none left".to_owned() } else { parts.join(", ") };
        Some(Line::new("pods", text))
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for state in self.states.values() {
            *match state {
                State::Starting => &mut counts.starting,
                State::Unschedulable => &mut counts.unschedulable,
                State::Running => &mut counts.running,
                State::Ending => &mut counts.ending,
            } += 1;
        }
        counts
    }
}

fn state(pod: &Pod) -> State {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let unschedulable = || {
        status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
            conditions.iter().any(|condition| {
                condition.type_ == condition::POD_SCHEDULED
                    && condition.reason.as_deref() == Some(reason::UNSCHEDULABLE)
            })
        })
    };
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    if pod.metadata.deletion_timestamp.is_some() {
        State::Ending
    } else if phase == Some("Running") {
        State::Running
    } else if !bound && unschedulable() {
        State::Unschedulable
    } else {
        State::Starting
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, phase: &str, reason: &str) -> Change<Pod> {
        let pod = json!({
            "metadata": { "name": name, "namespace": "default" },
            "status": { "phase": phase, "conditions": [{ "type": "PodScheduled", "status": "False", "reason": reason }] },
        });
        Change::Present(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn tells_each_change_once() {
        let mut pods = Pods::default();
        assert_eq!(pods.take_line(), None);
        pods.observe(&pod("a", "Pending", "Unschedulable"));
        pods.observe(&pod("b", "Running", ""));
        assert_eq!(pods.take_line(), Some(Line::new("pods", "1 running, 1 waiting for a node")));
        pods.observe(&pod("b", "Running", ""));
        assert_eq!(pods.take_line(), None);
        pods.observe(&Change::Gone("a".to_owned()));
        pods.observe(&Change::Gone("b".to_owned()));
        assert_eq!(pods.take_line(), Some(Line::new("pods", "none left")));
    }
}
