//! The command, and the scenarios of the repository: every one is played here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use clap::Parser;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Returns the failures of playing a file; empty when all went as expected.
fn failures(path: &Path) -> Vec<String> {
    let scenario = read(path).unwrap();
    let case = case(&scenario, scenario.file.seed, false);
    case.failures()
}

/// A scenario of the repository with something else in it, seen from the same folder.
fn changed(name: &str, as_name: &str, changes: &[(&str, &str)]) -> Vec<String> {
    failures(written(name, as_name, changes).path())
}

/// A scenario of the repository with changes, as a file.
fn written(name: &str, as_name: &str, changes: &[(&str, &str)]) -> tempfile::NamedTempFile {
    let path = folder().join(name);
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no `{from}`");
        text = text.replace(from, to);
    }
    text = text.replace("manifests/", &format!("{}/manifests/", folder().display()));
    let file = tempfile::Builder::new().prefix(as_name).suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The longest one has a test of its own, beside which the others are played.
const DAY: &str = "day-of-traffic.yaml";

#[test]
fn every_scenario_of_the_repository_goes_as_it_says() {
    let paths = files(&[folder()]).unwrap();
    assert!(paths.len() >= 12, "{paths:?}");
    for path in paths.iter().filter(|path| !path.ends_with(DAY)) {
        let failures = failures(path);
        assert!(failures.is_empty(), "{}: {failures:#?}", path.display());
    }
}

#[test]
fn a_day_of_traffic_goes_as_it_says() {
    assert_eq!(failures(&folder().join(DAY)), Vec::<String>::new());
}

#[test]
fn a_change_that_raises_cost_beyond_the_scenario_fails_it() {
    // A change that a pull request might make to the manifests: no spot any more.
    let found = changed("zone-spread.yaml", "cost", &[("manifests/spot.yaml", "manifests/general.yaml")]);
    let cost = "line 25: `cost.perHour` at the end: expected at most $0.1600, actual $0.4590, for 3 c6a.xlarge on-demand";
    assert!(found.iter().any(|failure| failure == cost), "{found:#?}");
}

#[test]
fn a_step_that_cannot_be_done_fails_the_scenario() {
    let found = changed("limits.yaml", "step", &[("{deployment: web,", "{deployment: wep,")]);
    let failure = "line 21: `timeline` at 2m: expected to happen, actual cannot scale Deployment `default/wep`; name one of \
                   the manifests: deployments.apps \"wep\" not found";
    assert_eq!(found, [failure]);
}

#[test]
fn a_manifest_that_the_api_server_refuses_is_named_with_its_line() {
    let changes = [("consolidationPolicy: WhenEmpty,", "consolidationPolicy: Sometimes,")];
    let error = read(written("limits.yaml", "manifest", &changes).path()).unwrap_err().to_string();
    assert!(
        error.contains("line 6, field `spec.disruption.consolidationPolicy`: of NodePool `small`"),
        "{error}"
    );
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_another() {
    let scenario = read(&folder().join("zone-spread.yaml")).unwrap();
    let hash = |seed| play(&scenario, seed, false).unwrap().hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/report.xml");
    // One second of a cluster without anything in it, repeated for hours: it would be noticed.
    let scenario = folder.path().join("a.yaml");
    let text = "name: a\nmanifests: []\nduration: 1s\nexpect:\n  - nodes: {exactly: 0}\n";
    std::fs::write(&scenario, text).unwrap();
    let line = |report: &Path| {
        Line::parse_from(["test".as_ref(), scenario.as_os_str(), "--junit".as_ref(), report.as_os_str()])
    };
    let mut refused = line(&missing).arguments;
    refused.seeds = NonZero::new(100_000).unwrap();
    let error = run(&refused, &|_: &str| Ok(())).unwrap_err().to_string();
    let expected =
        format!("cannot write the report to `{}`; name a file in a folder that exists", missing.display());
    assert_eq!(error, expected);
    let report = folder.path().join("report.xml");
    run(&line(&report).arguments, &|_: &str| Ok(())).unwrap();
    assert!(std::fs::read_to_string(&report).unwrap().contains("tests=\"1\""));
}

/// Runs the command on a folder with a scenario that goes as it says, one that does not, and a file that is none. Returns what
/// was printed, the exit code, and the report.
fn ran(flags: &[&str]) -> (String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |nodes: u32| {
        format!(
            "name: {nodes} nodes\nmanifests: []\nduration: 1s\nexpect:\n  - nodes: {{exactly: {nodes}}}\n"
        )
    };
    let texts = [("good.yaml", scenario(0)), ("more.yaml", scenario(1)), ("none.yaml", "a: [\n".to_owned())];
    for (name, text) in texts {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let report = folder.path().join("report.xml");
    let (path, report_path) = (folder.path().display().to_string(), report.display().to_string());
    let words =
        ["test", &path, "--junit", &report_path, "--jobs", "1"].into_iter().chain(flags.iter().copied());
    let printed = Arc::new(Mutex::new(String::new()));
    let print = {
        let printed = Arc::clone(&printed);
        move |text: &str| {
            printed.lock().push_str(text);
            Ok(())
        }
    };
    let code = run(&Line::parse_from(words).arguments, &print).unwrap();
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    (printed.lock().replace(&format!("{path}/"), ""), format!("{code:?}"), report)
}

#[test]
fn a_file_that_is_no_scenario_fails_and_the_others_are_played_and_reported() {
    let (text, code, report) = ran(&[]);
    assert_eq!(code, format!("{:?}", ExitCode::from(2)));
    assert!(text.contains("FAILED none.yaml: is a scenario (not read)\n"), "{text}");
    assert!(text.contains("ok     good.yaml: 0 nodes") && text.ends_with("1 passed, 2 failed\n"), "{text}");
    assert!(report.contains("tests=\"3\"") && report.contains("none.yaml"), "{report}");
}

#[test]
fn a_manifest_is_told_from_a_scenario() {
    let error = read(&folder().join("manifests/class.yaml")).unwrap_err().to_string();
    assert!(error.ends_with("it is a Kubernetes manifest; a scenario names it under `manifests`"), "{error}");
}

#[test]
fn scenarios_are_chosen_listed_and_stopped_at_the_first_that_fails() {
    let success = format!("{:?}", ExitCode::SUCCESS);
    let (text, code, report) = ran(&["--filter", "good"]);
    assert_eq!((text.lines().count(), code), (2, success.clone()), "{text}");
    assert!(report.contains("tests=\"1\""), "{report}");
    let (text, code, report) = ran(&["--list", "--filter", "nodes"]);
    assert_eq!((text.as_str(), code), ("good.yaml: 0 nodes\nmore.yaml: 1 nodes\n", success));
    assert_eq!(report, "", "nothing was played");
    let (text, ..) = ran(&["--fail-fast", "--seeds", "2", "--filter", " nodes"]);
    assert!(text.ends_with("2 passed, 1 failed\n"), "{text}");
    let nothing = Line::parse_from(["test", &folder().display().to_string(), "--filter", "no such name"]);
    let error = run(&nothing.arguments, &|_: &str| Ok(())).unwrap_err().to_string();
    assert!(error.ends_with("scenarios contains `no such name`; --list prints them"), "{error}");
}

#[test]
fn a_run_is_compared_with_the_report_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = "name: a\nmanifests: []\nduration: 1s\nexpect:\n  - nodes: {exactly: 0}\n";
    std::fs::write(path("a.yaml"), text).unwrap();
    let ran = |flag: &str, report: &Path| {
        let (printed, scenario) = (Mutex::new(String::new()), path("a.yaml"));
        let words = ["test".as_ref(), scenario.as_os_str(), flag.as_ref(), report.as_os_str()];
        let print = |text: &str| {
            printed.lock().push_str(text);
            Ok(())
        };
        let code = run(&Line::parse_from(words).arguments, &print).unwrap();
        (format!("{code:?}"), printed.into_inner())
    };
    let (before, missing) = (path("before.json"), path("missing.json"));
    assert_eq!(ran("--report", &before).0, format!("{:?}", ExitCode::SUCCESS));
    let (code, printed) = ran("--against", &before);
    assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
    assert!(printed.ends_with("1 passed, 0 failed\nno figure differs\n"), "{printed}");
    let written = std::fs::read_to_string(&before).unwrap();
    std::fs::write(&before, written.replace("\"cost\": \"0.0000\"", "\"cost\": \"-0.1\"")).unwrap();
    let (code, printed) = ran("--against", &before);
    assert_eq!(code, format!("{:?}", ExitCode::from(3)));
    assert!(printed.ends_with("a (seed 1): cost -$0.1000 -> $0.0000\n"), "{printed}");
    let line = Line::parse_from([
        "test".as_ref(),
        path("a.yaml").as_os_str(),
        "--against".as_ref(),
        missing.as_os_str(),
    ]);
    let error = run(&line.arguments, &|_: &str| Ok(())).unwrap_err().to_string();
    assert!(error.starts_with("cannot compare with `"), "{error}");
}

#[test]
fn junit_has_a_case_for_each_seed_with_what_was_expected_and_found() {
    let scenario = read(&folder().join("zone-spread.yaml")).unwrap();
    let mut cases: Vec<Case> = (1..=2).map(|seed| case(&scenario, seed, false)).collect();
    cases[1].outcome = Outcome::Broken("the account is on fire".to_owned());
    let report =
        quick_junit::Report::deserialize_from_str(&junit("karpenter-test", &cases).unwrap()).unwrap();
    assert_eq!((report.tests, report.failures), (2, 1));
    assert_eq!(report.test_suites[0].name.as_str(), scenario.path);
    let names: Vec<&str> = report.test_suites[0].test_cases.iter().map(|case| case.name.as_str()).collect();
    assert!(names[1].ends_with("(seed 2)"), "{names:?}");
    assert_eq!(total(&cases), "1 passed, 1 failed\n");
    assert!(line(&cases[1]).contains("cannot be played: the account is on fire"));
}

#[test]
fn the_schema_knows_every_field_and_closes_every_object() {
    let schema: serde_json::Value = serde_json::from_str(&schema().unwrap()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let top: BTreeSet<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(
        top.is_superset(&["name", "manifests", "duration", "timeline", "faults", "expect"].into()),
        "{top:?}"
    );
    for name in ["Step", "Expectation", "Nodes", "Machines"] {
        let part = &schema["$defs"][name];
        assert_eq!(part["additionalProperties"], false, "{name}");
        let described = part["properties"].as_object().unwrap();
        assert!(described.len() > 3, "{name}: {part}");
    }
    // Every field of a step but its time and its repetition is something it may do.
    let alternatives = |name: &str| schema["$defs"][name]["oneOf"].as_array().map_or(0, Vec::len);
    let fields = |name: &str| schema["$defs"][name]["properties"].as_object().map_or(0, serde_json::Map::len);
    assert_eq!(alternatives("Step"), fields("Step") - 2);
    assert_eq!(alternatives("Expectation"), fields("Expectation") - 5);
    // The file editors use is the one the program prints.
    let stored = std::fs::read_to_string(folder().join("scenario.schema.json")).unwrap();
    let hint = "stale, run `karpenter-sim test --schema > scenarios/scenario.schema.json`";
    assert_eq!(serde_json::from_str::<serde_json::Value>(&stored).unwrap(), schema, "{hint}");
}

#[test]
fn the_example_of_the_page_is_played() {
    // Read when it runs: the image is built without the pages.
    let page = std::fs::read_to_string(folder().join("../docs/scenarios.md")).unwrap();
    let example = page.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example = example.replace("deploy/", &format!("{}/manifests/", folder().display()));
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), example).unwrap();
    assert_eq!(failures(file.path()), Vec::<String>::new());
}
