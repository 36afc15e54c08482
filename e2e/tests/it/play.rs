//! Scenario files on real parts: the shortest one is played here as `karpenter test` plays it in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use karpenter_e2e::play::play;
use karpenter_sim::scenario::read::read;
use karpenter_sim::scenario::report::line;

use super::behaviours::{folder, harness, options};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_file_goes_on_real_parts_as_it_goes_in_memory() {
    let scenario = read(&file("web-on-spot.yaml")).expect("the file can be read");
    let parts = || Ok(options(folder("play")));
    let case = play(&scenario, parts, Duration::from_mins(15), "local, moto, process").await;
    assert!(
        case.failures().is_empty() && case.reasons().is_empty(),
        "{}what was there is in {}",
        line(&case),
        folder("play").display()
    );
}

#[test]
fn scenarios_that_cannot_be_played_are_named_with_reasons_before_anything_starts() {
    let (short, night) = (file("web-on-spot.yaml"), file("night-shift.yaml"));
    let (folder, report) = (folder("not-played"), folder("not-played.xml"));
    let text = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
    let arguments = [
        "play".to_owned(),
        text(&short),
        text(&night),
        "--longest=90s".to_owned(),
        format!("--folder={}", text(&folder)),
        format!("--junit={}", text(&report)),
    ];
    let (code, out, said) = harness(&arguments.each_ref().map(String::as_str));
    assert_eq!(code, Some(3), "{out}{said}");
    let refused = "line 5: `duration`: 3m of real time; at most 1m30s are played, see `--longest`";
    assert!(out.contains(&format!("NOT PLAYED {}", text(&short))) && out.contains(refused), "{out}");
    assert!(out.contains("`start`: real parts play at the time of day it is"), "{out}");
    assert!(out.ends_with("0 passed, 0 failed, 2 not played\n"), "{out}");
    assert!(!folder.exists(), "nothing was started");
    let xml = std::fs::read_to_string(&report).expect("the report is written");
    let report = quick_junit::Report::deserialize_from_str(&xml).expect("the report is JUnit's XML");
    assert_eq!((report.tests, report.failures), (2, 0), "{xml}");
    assert_eq!(xml.matches("<skipped ").count(), 2, "{xml}");
}

#[test]
fn a_file_that_is_no_scenario_is_refused_before_anything_starts() {
    let (code, _, said) = harness(&["play", file("manifests/web.yaml").to_str().expect("a UTF-8 path")]);
    assert!(code == Some(1) && said.contains("cannot read scenario"), "{said}");
}
