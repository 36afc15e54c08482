//! Statements of a scenario that real parts cannot carry out. Each reason names the line and the field, as errors of reading
//! do.

use std::time::Duration;

use jiff::civil::Date;
use karpenter_kube_sim::apiserver::object;
use karpenter_sim::scenario::format::FaultName;
use karpenter_sim::scenario::read::{Action, Event, Manifest, Scenario};
use karpenter_sim::scenario::value::Span;

/// Settings that are the harness's own: where the controller listens.
const OURS: [&str; 3] = ["metrics-port", "health-probe-port", "bind-address"];

/// Returns the reasons why a scenario cannot be played, whatever the parts; empty when it can be.
pub(super) fn lacking(scenario: &Scenario, longest: Duration) -> Vec<String> {
    let mut reasons: Vec<(u64, String)> = Vec::new();
    let mut lacks = |line: u64, field: &str, why: &str| reasons.push((line, reason(line, field, why)));
    let duration = scenario.file.duration;
    if duration.0 > longest {
        let why = format!("{duration} of real time; at most {} are played, see `--longest`", Span(longest));
        lacks(scenario.line_of("duration"), "duration", &why);
    }
    if !scenario.begins_by_default() {
        lacks(scenario.line_of("start"), "start", "real parts play at the time of day it is");
    }
    for Manifest { line, what } in scenario.manifests.iter().chain(scenario.events.iter().flat_map(applied)) {
        let budgets = object::list(what, "/spec/disruption/budgets");
        if what["kind"] == "NodePool" && budgets.iter().any(|budget| !budget["schedule"].is_null()) {
            lacks(*line, "schedule", "real parts play at the time of day it is, and this budget goes by it");
        }
    }
    for name in scenario.file.settings.keys().filter(|name| OURS.contains(&name.as_str())) {
        lacks(scenario.line_of("settings"), name, "the harness chooses where the controller listens");
    }
    for Event { line, action, .. } in &scenario.events {
        match action {
            Action::Disconnect(_) => lacks(
                *line,
                "disconnect",
                "nothing stands between the controller and its servers that could hold back what it sends",
            ),
            Action::RemoveFinalizers(_) => {
                lacks(*line, "removeFinalizers", "the harness takes no finalizer off");
            }
            Action::Stop(_) => lacks(*line, "stop", "the harness stops no instance"),
            Action::Differ(_) => {
                lacks(*line, "differ", "the node agent joins machines as their user data says");
            }
            Action::ReleaseImages(release) if release_date(&release.version).is_none() => lacks(
                *line,
                "imageRelease",
                "the emulated account dates its releases; write the version as vYYYYMMDD",
            ),
            _ => {}
        }
    }
    for expectation in scenario.expectations.iter().filter(|one| one.what.is_of_one_plan()) {
        let why =
            "one plan for all pods is made in virtual time; `karpenter-e2e scale` makes it on real parts";
        lacks(expectation.line, "realised", why);
    }
    for fault in &scenario.file.faults {
        if let Some(why) = of_fault(fault.value.fault) {
            lacks(fault.referenced.line(), "fault", why);
        }
    }
    reasons.sort_by_key(|(line, _)| *line);
    // A step that is repeated logs it once.
    reasons.dedup();
    reasons.into_iter().map(|(_, reason)| reason).collect()
}

/// Returns the reasons for an account that has no control requests, because it is an emulator of others.
pub(super) fn lacking_control(scenario: &Scenario) -> Vec<String> {
    let mut reasons = Vec::new();
    let why = "this account has no control requests; choose `moto` or `localstack`";
    for Event { line, action, .. } in &scenario.events {
        let field = match action {
            Action::Interrupt(_) => "interrupt",
            Action::Rebalance(_) => "rebalance",
            Action::LoseCapacity(_) => "capacityLoss",
            Action::ChangePrice(_) => "price",
            Action::ReleaseImages(_) => "imageRelease",
            _ => continue,
        };
        reasons.push(reason(*line, field, why));
    }
    let faults = scenario.file.faults.iter();
    reasons.extend(faults.map(|fault| reason(fault.referenced.line(), "fault", why)));
    for expectation in scenario.expectations.iter().filter(|one| one.what.is_about_cost()) {
        let why = "prices of this account are not known; choose `moto` or `localstack`";
        reasons.push(reason(expectation.line, "cost", why));
    }
    reasons.dedup();
    reasons
}

/// The date of a release of images that is called after it: `v20260115`.
pub(super) fn release_date(version: &str) -> Option<Date> {
    Date::strptime("v%Y%m%d", version).ok()
}

/// Returns the reason why a fault has no counterpart.
fn of_fault(fault: FaultName) -> Option<&'static str> {
    match fault {
        FaultName::KubeLatency
        | FaultName::KubeErrors
        | FaultName::KubeLostAnswers
        | FaultName::KubeHangs
        | FaultName::WatchCuts
        | FaultName::WatchLate
        | FaultName::WatchRepeats
        | FaultName::WatchSilence => {
            Some("nothing stands between the controller and the real API server that could draw faults")
        }
        FaultName::AwsLostAnswers | FaultName::AwsStale => {
            Some("the emulated account delays and refuses requests; what it answers is complete and true")
        }
        FaultName::AwsLatency | FaultName::AwsErrors => None,
    }
}

fn applied(event: &Event) -> &[Manifest] {
    if let Action::Apply(manifests) = &event.action { manifests } else { &[] }
}

fn reason(line: u64, field: &str, why: &str) -> String {
    format!("line {line}: `{field}`: {why}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use karpenter_sim::scenario::read::read;

    use super::*;

    const HEAD: &str = "name: a scenario\nmanifests: []\nduration: 10m\n";
    const TAIL: &str = "expect:\n  - nodes: {atMost: 3}\n  - cost: {perHour: {atMost: 1}}\n";

    fn scenario(body: &str) -> Scenario {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), format!("{HEAD}{body}{TAIL}")).unwrap();
        read(file.path()).unwrap()
    }

    #[test]
    fn what_has_no_counterpart_is_refused_with_line_and_field() {
        let cases = [
            ("start: 2026-01-05T00:00:00Z\n", "line 4: `start`: real parts play at the time of day it is"),
            ("timeline:\n  - {at: 1m, disconnect: {for: 1m}}\n", "line 5: `disconnect`: nothing stands"),
            (
                "timeline:\n  - {at: 1m, imageRelease: {version: newest}}\n",
                "line 5: `imageRelease`: the emulated",
            ),
            ("faults:\n  - {fault: awsStale}\n", "line 5: `fault`: the emulated account delays and refuses"),
            ("faults:\n  - {fault: watchCuts}\n", "line 5: `fault`: nothing stands between"),
            ("settings: {metrics-port: \"1\"}\n", "line 4: `metrics-port`: the harness"),
            (
                "timeline:\n  - at: 1m\n    apply: [{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}, \
                 spec: {disruption: {budgets: [{nodes: \"0\", schedule: \"0 8 * * *\", duration: 1h}]}}}]\n",
                "line 6: `schedule`: real parts play at the time of day it is",
            ),
        ];
        for (body, said) in cases {
            let found = lacking(&scenario(body), Duration::from_mins(15));
            assert!(matches!(&found[..], [one] if one.starts_with(said)), "{body}: {found:?}");
        }
    }

    #[test]
    fn what_has_one_is_played() {
        let body = "timeline:\n  - {at: 1m, imageRelease: {version: v20260115}}\n  - {at: 2m, interrupt: {}}\n  \
                    - {at: 2m, restart: {}}\n  - {at: 3m, capacityLoss: {capacityType: spot, for: 1m}}\nfaults:\n  \
                    - {fault: awsErrors, until: 5m}\n  - {fault: awsLatency}\n";
        assert_eq!(lacking(&scenario(body), Duration::from_mins(10)), Vec::<String>::new());
        let found = lacking_control(&scenario(body));
        let fields: Vec<&str> = found.iter().filter_map(|reason| reason.split('`').nth(1)).collect();
        assert_eq!(fields, ["imageRelease", "interrupt", "capacityLoss", "fault", "fault", "cost"]);
    }

    #[test]
    fn a_scenario_that_takes_too_long_is_refused_at_its_duration() {
        let found = lacking(&scenario(""), Duration::from_mins(9));
        assert_eq!(found, ["line 3: `duration`: 10m of real time; at most 9m are played, see `--longest`"]);
    }

    #[test]
    fn of_the_scenarios_of_the_repository_those_are_played_that_can_be() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        for (name, fields) in [
            ("zone-spread.yaml", &[][..]),
            ("night-shift.yaml", &["start", "schedule"]),
            ("bad-weather.yaml", &["fault"]),
            ("machines-that-fail.yaml", &["disconnect"]),
        ] {
            let found = lacking(&read(&folder.join(name)).unwrap(), Duration::from_hours(1));
            let found: Vec<&str> = found.iter().filter_map(|reason| reason.split('`').nth(1)).collect();
            assert!(fields.iter().all(|field| found.contains(field)), "{name}: {found:?}");
            assert_eq!(found.is_empty(), fields.is_empty(), "{name}: {found:?}");
        }
    }
}
