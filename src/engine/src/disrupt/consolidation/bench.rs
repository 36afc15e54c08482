//! Where questions are asked: a bounded number of them per pass, on all cores if there are many.
//!
//! Answers come back in the order of the questions and do not depend on which core gave them: every core has its own
//! copy of the same ground and takes back each question before the next.

use std::num::NonZero;
use std::thread;

use karpenter_model::Node;

use crate::place::what_if::{Patience, Simulated, WhatIf};

/// Fewer questions than this are not worth another core.
const WORTH_A_CORE: usize = 48;
/// Most cores that are used.
const MAX_CORES: usize = 8;

/// The ground questions are asked about.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    /// Equal copies; the first always exists.
    what_ifs: Vec<WhatIf<'a>>,
    left: usize,
    asked: usize,
}

impl<'a> Bench<'a> {
    /// Questions asked of `what_if`.
    pub(crate) fn new(what_if: WhatIf<'a>) -> Self {
        Self { what_ifs: vec![what_if], left: 0, asked: 0 }
    }

    /// From now on `questions` may be asked.
    pub(crate) fn allow(&mut self, questions: u32) {
        (self.left, self.asked) = (usize::try_from(questions).unwrap_or(usize::MAX), 0);
    }

    /// Questions that may still be asked.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Questions asked since some were allowed.
    pub(crate) fn asked(&self) -> u32 {
        u32::try_from(self.asked).unwrap_or(u32::MAX)
    }

    /// What would become of the pods of `removed`; nothing when no more may be asked.
    pub(crate) fn ask(&mut self, removed: &[&Node], patience: Patience) -> Option<Simulated> {
        self.charge(1)?;
        self.what_ifs.first_mut().map(|what_if| what_if.without(removed, patience))
    }

    /// The same for each of `questions`, as far as they may be asked.
    pub(crate) fn ask_each(&mut self, questions: &[&Node], patience: Patience) -> Vec<Simulated> {
        let questions = &questions[..questions.len().min(self.left)];
        if self.charge(questions.len()).is_none() {
            return Vec::new();
        }
        let cores = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_CORES);
        let cores = cores.min(questions.len() / WORTH_A_CORE).max(1);
        while self.what_ifs.len() < cores {
            self.what_ifs.extend_from_within(..1);
        }
        let share = questions.len().div_ceil(cores).max(1);
        let answer = |what_if: &mut WhatIf<'a>, share: &[&Node]| -> Vec<Simulated> {
            share.iter().map(|node| what_if.without(&[node], patience)).collect()
        };
        if cores == 1 {
            return self.what_ifs.first_mut().map_or(Vec::new(), |what_if| answer(what_if, questions));
        }
        thread::scope(|scope| {
            let work = self.what_ifs.iter_mut().zip(questions.chunks(share));
            let workers: Vec<_> =
                work.map(|(what_if, share)| scope.spawn(move || answer(what_if, share))).collect();
            let answers = workers.into_iter().map(thread::ScopedJoinHandle::join);
            answers.flat_map(|answers| answers.expect("invariant: the planner does not panic")).collect()
        })
    }

    /// `removed` are gone from now on. Costs no question: its answer is known.
    pub(crate) fn commit(&mut self, removed: &[&Node]) -> Simulated {
        let mut answer = Simulated::default();
        for what_if in &mut self.what_ifs {
            answer = what_if.commit(removed);
        }
        answer
    }

    fn charge(&mut self, questions: usize) -> Option<()> {
        self.left = self.left.checked_sub(questions).filter(|_| questions > 0)?;
        self.asked += questions;
        Some(())
    }
}

#[cfg(test)]
mod tests;
