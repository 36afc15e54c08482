//! Everything that happened, line by line, and its hash: two runs with the same hash went the same way.
//!
//! Everything that passes between a controller and the world is a line, contents of watches included, so the hash says
//! more than that the ends agree.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Lines kept for a person who looks at a failure.
const KEPT: usize = 400;

/// The trace of one run. Clones share it.
#[derive(Clone)]
pub(crate) struct Trace {
    state: Arc<Mutex<State>>,
    started: Instant,
    print: bool,
}

struct State {
    hash: Sha256,
    lines: u64,
    last: VecDeque<String>,
}

impl Trace {
    /// An empty trace that begins now; with `print`, every line goes to standard output too.
    pub(crate) fn new(print: bool) -> Self {
        let state = State { hash: Sha256::new(), lines: 0, last: VecDeque::new() };
        Self { state: Arc::new(Mutex::new(state)), started: Instant::now(), print }
    }

    /// Adds a line: actor, action and result.
    pub(crate) fn note(&self, who: &str, what: &str, outcome: &str) {
        let at = self.started.elapsed().as_micros();
        let line = format!("{}.{:06} {who} {what} {outcome}", at / 1_000_000, at % 1_000_000);
        if self.print {
            // A closed standard output must not change the run.
            let _closed = writeln!(std::io::stdout(), "{line}");
        }
        let mut state = self.state.lock();
        state.hash.update(line.as_bytes());
        state.hash.update(b"\n");
        state.lines += 1;
        state.last.push_back(line);
        if state.last.len() > KEPT {
            state.last.pop_front();
        }
    }

    /// Returns the number of clones, this one included.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.state)
    }

    /// Hash of all lines so far: 16 hexadecimal digits.
    pub(crate) fn hash(&self) -> String {
        let digest = self.state.lock().hash.clone().finalize();
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Number of lines so far.
    pub(crate) fn lines(&self) -> u64 {
        self.state.lock().lines
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self) -> Vec<String> {
        self.state.lock().last.iter().cloned().collect()
    }
}
