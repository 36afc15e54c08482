//! Makes a history that fails smaller: faults, workloads and events are left out as long as the same rule is broken.

use std::ops::ControlFlow;

use anyhow::Result;

use crate::history::{Fault, History};
use crate::run::{Outcome, run};

/// The smallest history found within `runs` runs that still breaks `rule`, with its outcome.
pub fn shrink(history: &History, rule: &str, runs: usize) -> Result<(History, Outcome)> {
    let mut search = Search { rule, left: runs, best: history.clone(), outcome: run(history, false)? };
    let _budget_used_up = search.all()?;
    Ok((search.best, search.outcome))
}

struct Search<'a> {
    rule: &'a str,
    left: usize,
    best: History,
    outcome: Outcome,
}

impl Search<'_> {
    fn all(&mut self) -> Result<ControlFlow<()>> {
        for fault in Fault::ALL {
            if self.best.has(fault) && self.attempt(self.best.without_fault(fault))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // Halves first, then quarters, down to single events.
        let mut size = self.best.events.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.events.len() {
                let to = (at + size).min(self.best.events.len());
                let before = self.best.events.len();
                if self.attempt(self.best.without_events(at, to))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if self.best.events.len() == before {
                    at += size;
                }
            }
            size /= 2;
        }
        for index in (0..self.best.workloads.len()).rev() {
            if self.attempt(self.best.without_workload(index))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes the smaller history if it still fails in the same way.
    fn attempt(&mut self, smaller: History) -> Result<ControlFlow<()>> {
        if self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        self.left -= 1;
        let outcome = run(&smaller, false)?;
        if outcome.violations.iter().any(|violation| violation.rule == self.rule) {
            (self.best, self.outcome) = (smaller, outcome);
        }
        Ok(ControlFlow::Continue(()))
    }
}
