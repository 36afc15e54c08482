//! The timeline on a stage that only writes down what it is asked for.

use super::*;
use crate::scenario::read::read;

struct Notes {
    began: Instant,
    allowed: Vec<(u64, bool)>,
    /// Minutes in which there are machines.
    machines: std::ops::Range<u64>,
}

impl Stage for Notes {
    async fn look(&mut self) -> Result<()> {
        Ok(())
    }

    async fn act(&mut self, _action: &Action) -> Result<Met> {
        let there = self.machines.contains(&(self.began.elapsed().as_secs() / 60));
        Ok(Met::machines(there.into()))
    }

    async fn allow(&mut self, _fault: FaultName, possible: bool) -> Result<()> {
        self.allowed.push((self.began.elapsed().as_secs() / 60, possible));
        Ok(())
    }
}

/// Returns the minutes at which a fault becomes possible or impossible, with these spans of it.
async fn allowed(spans: &[&str]) -> Vec<(u64, bool)> {
    let spans: String = spans.iter().map(|span| format!("  - {{fault: awsErrors, {span}}}\n")).collect();
    let text = format!(
        "name: a\nmanifests: []\nduration: 20m\nfaults:\n{spans}expect:\n  - nodes: {{exactly: 0}}\n"
    );
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let scenario = read(file.path()).unwrap();
    let began = Instant::now();
    let mut notes = Notes { began, allowed: Vec::new(), machines: 0..0 };
    let failed = follow(&scenario, began, Duration::from_secs(10), &mut notes).await;
    assert_eq!(failed, None);
    notes.allowed
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_possible_until_the_last_of_overlapping_spans_has_ended() {
    assert_eq!(allowed(&["from: 1m, until: 5m"]).await, [(1, true), (5, false)]);
    assert_eq!(allowed(&["from: 1m, until: 5m", "from: 3m, until: 9m"]).await, [(1, true), (9, false)]);
    assert_eq!(allowed(&["from: 1m, until: 5m", "from: 3m"]).await, [(1, true)]);
    // One that begins when another ends goes on from it.
    let touching = allowed(&["from: 5m, until: 9m", "from: 1m, until: 5m"]).await;
    assert_eq!(touching, [(1, true), (9, false)]);
}

/// Returns the failure of a step at minutes 5 and 10 when there are machines in these minutes.
async fn step_with_machines(machines: std::ops::Range<u64>) -> Option<String> {
    let text = "name: a\nmanifests: []\nduration: 20m\ntimeline:\n  - {at: 5m, interrupt: {}, repeat: {every: 5m, times: 2}}\n\
                expect:\n  - nodes: {exactly: 0}\n";
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let scenario = read(file.path()).unwrap();
    let began = Instant::now();
    let mut notes = Notes { began, allowed: Vec::new(), machines };
    let failed = follow(&scenario, began, Duration::from_secs(10), &mut notes).await;
    failed.map(|failure| failure.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_step_that_never_meets_a_machine_fails() {
    for there in [0..20, 4..6, 10..11] {
        assert_eq!(step_with_machines(there.clone()).await, None, "{there:?}");
    }
    let said = "line 5: `timeline`: expected to meet a machine, actual there was none of those it names";
    assert_eq!(step_with_machines(6..9).await.as_deref(), Some(said));
}
