//! Golden scenarios: every file in `scenarios/` is a fixture with the plan and report it must give, and every
//! one of those plans must pass the audit.

use std::path::Path;

use karpenter_audit::audit;
use karpenter_testkit::{render, scenario, snapshot};

#[test]
fn every_scenario_gives_its_plan() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scenarios");
    scenario::check_all(&directory, |fixture| {
        let snapshot = snapshot(fixture);
        let (plan, report) = karpenter_engine::plan(&snapshot);
        assert_eq!(audit(&snapshot, &plan), [], "{fixture}");
        render(&plan, &report)
    });
}
