//! Log lines about plans, for people.

use jiff::SignedDuration;
use karpenter_telemetry::logging::{Level, MemoryLog};
use karpenter_testkit::snapshot;

use super::*;

const POOL: &str = "type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a
pool web types=*
";

/// Plans for `text` at this number of seconds and logs it in `log`.
fn pass(log: &mut Log, text: &str, seconds: i64) {
    let mut snapshot = snapshot(text);
    snapshot.now += SignedDuration::from_secs(seconds);
    let (plan, report) = karpenter_engine::plan(&snapshot);
    log.plan(&snapshot, &plan, &report);
}

#[test]
fn what_is_launched_is_said_with_the_pods_it_is_for() {
    let (lines, _guard) = MemoryLog::of_this_thread(Level::Info);
    pass(&mut Log::default(), &format!("{POOL}pod a-{{1..3}} cpu=1\n"), 0);
    let said = lines.lines("");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("found provisionable pod(s) pods=3"), "{said:?}");
    assert!(said[1].contains("computed new nodeclaim(s) to fit pod(s) pods=3"), "{said:?}");
    assert!(said[1].contains("first=\"default/a-1, default/a-2, default/a-3\""), "{said:?}");
}

#[test]
fn why_nothing_is_launched_is_said_once_per_reason_and_again_after_ten_minutes() {
    let (lines, _guard) = MemoryLog::of_this_thread(Level::Info);
    let mut log = Log::default();
    let stuck = format!("{POOL}pod a-{{1..3}} cpu=64\npod b cpu=1 select=disk=none\n");
    for second in [0, 10, 599] {
        pass(&mut log, &stuck, second);
        assert_eq!(lines.lines("could not schedule pod(s)").len(), 2, "{:?}", lines.lines(""));
    }
    let said = lines.lines("pods=3");
    assert!(said[0].contains("first=default/a-1") && said[0].contains("reason="), "{said:?}");
    pass(&mut log, &stuck, 600);
    assert_eq!(lines.lines("could not schedule pod(s)").len(), 4);
    // A reason that went and came back is news.
    pass(&mut log, POOL, 610);
    pass(&mut log, &stuck, 620);
    assert_eq!(lines.lines("could not schedule pod(s)").len(), 6);
}

#[test]
fn pools_that_are_not_ready_are_named_when_there_is_no_other() {
    let (lines, _guard) = MemoryLog::of_this_thread(Level::Info);
    pass(
        &mut Log::default(),
        "type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a\npool web types=* not-ready\npod a cpu=1\n",
        0,
    );
    let said = lines.lines("could not schedule pod(s)");
    assert_eq!(said.len(), 1, "{:?}", lines.lines(""));
    assert!(said[0].contains("web: "), "{said:?}");
}
