//! Times at which nodes have to be looked at again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// One time for each node at most.
#[derive(Default)]
pub(super) struct Schedule {
    times: BTreeMap<String, Timestamp>,
    in_order: BTreeSet<(Timestamp, String)>,
}

impl Schedule {
    /// Makes a node due at this time, or not at all.
    pub(super) fn set(&mut self, name: String, at: Option<Timestamp>) {
        if let Some(before) = self.times.remove(&name) {
            self.in_order.remove(&(before, name.clone()));
        }
        if let Some(at) = at {
            self.in_order.insert((at, name.clone()));
            self.times.insert(name, at);
        }
    }

    /// The nodes that are due, which they are no longer then.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        while self.first().is_some_and(|at| at <= now) {
            let Some((_, name)) = self.in_order.pop_first() else { break };
            self.times.remove(&name);
            due.push(name);
        }
        due
    }

    /// Returns the time at which the first one is due.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.in_order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_due_once_at_the_last_time_it_was_given() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut schedule = Schedule::default();
        for (name, second) in [("a", 5), ("b", 3), ("a", 9), ("c", 1)] {
            schedule.set(name.to_owned(), Some(at(second)));
        }
        schedule.set("c".to_owned(), None);
        assert_eq!(schedule.first(), Some(at(3)));
        assert_eq!(schedule.take_due(at(8)), ["b"]);
        assert_eq!(schedule.take_due(at(9)), ["a"]);
        assert_eq!(schedule.first(), None);
    }
}
