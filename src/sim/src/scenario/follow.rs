//! Follows the timeline of a scenario, in virtual or in real time: the clock is that of the runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};

use super::format::FaultName;
use super::judge::Failure;
use super::read::{Action, Scenario};
use super::value::Span;

/// Place in which a scenario is played.
pub trait Stage {
    /// Looks at cluster and account and records what is there.
    fn look(&mut self) -> impl Future<Output = Result<()>>;
    /// Does one thing.
    fn act(&mut self, action: &Action) -> impl Future<Output = Result<Met>>;
    /// Makes a fault possible from now on, or impossible.
    fn allow(&mut self, fault: FaultName, possible: bool) -> impl Future<Output = Result<()>>;
}

/// Result of a step: it met something, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It did, or does not depend on what is there.
    Something,
    /// There was no machine of those that were meant.
    NoMachine,
}

impl Met {
    /// Returns the result of a step for which there were `count` machines.
    pub fn machines(count: usize) -> Self {
        if count == 0 { Self::NoMachine } else { Self::Something }
    }
}

/// Something that happens besides the looks.
enum Turn<'a> {
    Act(&'a Action),
    Allow(FaultName, bool),
}

/// Lets everything happen at its time since `began`, and looks every `look` in between, the first time at once and the last
/// time when the duration of the scenario is over. What could not be done ends it, and a step that never met a machine has
/// failed: what is expected after it would hold without it.
pub async fn follow(
    scenario: &Scenario,
    began: Instant,
    look: Duration,
    stage: &mut impl Stage,
) -> Option<Failure> {
    let mut turns: Vec<(Duration, u64, Turn<'_>)> =
        scenario.events.iter().map(|event| (event.at, event.line, Turn::Act(&event.action))).collect();
    for span in &scenario.file.faults {
        let (line, fault) = (span.referenced.line(), span.value.fault);
        turns.push((span.value.from.0, line, Turn::Allow(fault, true)));
        turns.extend(span.value.until.map(|until| (until.0, line, Turn::Allow(fault, false))));
    }
    turns.sort_by_key(|(at, ..)| *at);
    let mut turns = turns.into_iter().peekable();
    let mut open = OpenSpans::default();
    let mut steps = Steps::default();
    let end = scenario.file.duration.0;
    let mut tick = Duration::ZERO;
    loop {
        sleep_until(began + tick).await;
        if let Err(error) = stage.look().await {
            return Some(failed(None, tick, "to go on", &error));
        }
        if tick >= end {
            return steps.without_machine();
        }
        while let Some((at, line, turn)) = turns.next_if(|(at, ..)| *at < tick + look) {
            sleep_until(began + at).await;
            let done = match turn {
                Turn::Allow(fault, possible) if open.change(fault, possible) => {
                    stage.allow(fault, possible).await
                }
                // Another span of it goes on.
                Turn::Allow(..) => Ok(()),
                Turn::Act(action) => stage.act(action).await.map(|met| steps.note(line, met)),
            };
            if let Err(error) = done {
                return Some(failed(Some(line), at, "to happen", &error));
            }
        }
        tick = (tick + look).min(end);
    }
}

/// Results of each step of the timeline so far, by its line; one that is repeated may meet nothing at some of its times.
#[derive(Default)]
struct Steps(BTreeMap<u64, Met>);

impl Steps {
    fn note(&mut self, line: u64, met: Met) {
        let known = self.0.entry(line).or_insert(met);
        if met == Met::Something {
            *known = met;
        }
    }

    /// The first step that met no machine at any of its times, as a failure.
    fn without_machine(&self) -> Option<Failure> {
        let (line, _) = self.0.iter().find(|(_, met)| **met == Met::NoMachine)?;
        Some(Failure {
            line: Some(*line),
            subject: "`timeline`".to_owned(),
            expected: "to meet a machine".to_owned(),
            actual: "there was none of those it names".to_owned(),
            because: None,
        })
    }
}

/// Number of spans of each fault that have begun and not ended.
#[derive(Default)]
struct OpenSpans(BTreeMap<FaultName, u32>);

impl OpenSpans {
    /// A span of a fault begins or ends; returns whether with it the fault becomes possible or impossible.
    fn change(&mut self, fault: FaultName, begins: bool) -> bool {
        let open = self.0.entry(fault).or_default();
        let before = *open;
        *open = if begins { before + 1 } else { before - 1 };
        before == 0 || *open == 0
    }
}

fn failed(line: Option<u64>, at: Duration, expected: &str, error: &anyhow::Error) -> Failure {
    Failure {
        line,
        subject: format!("`timeline` at {}", Span(at)),
        expected: expected.to_owned(),
        actual: format!("{error:#}"),
        because: None,
    }
}

#[cfg(test)]
mod tests;
