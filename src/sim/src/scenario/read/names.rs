//! Check that the names in a scenario mean anything: an expectation about a pool that is not there is always true or always
//! false, and a gate that cannot fail is none. The same holds for instance types that are not sold, and for events that are
//! never written.

mod sold;

use std::collections::BTreeSet;

use karpenter_kube_sim::apiserver::object;
use karpenter_model::ConditionType;
use karpenter_model::names::condition;
use karpenter_plan::near;
use karpenter_telemetry::events::reason;
use serde_json::Value;

use super::{Action, Expected, Scenario, Subject, Wrong};
use crate::scenario::format::{CapacityType, Events, Machines};
use crate::scenario::value::is_of_type;

/// Kinds that a pod may belong to.
const WORKLOADS: [&str; 6] = ["Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "Pod"];

/// Kinds whose conditions become events when they change.
const WITH_CONDITIONS: [&str; 4] = ["EC2NodeClass", "Node", "NodeClaim", "NodePool"];

/// Conditions that only some kinds have, beside those of NodeClaims.
const CONDITIONS: [&str; 10] = [
    condition::READY,
    condition::VALIDATION_SUCCEEDED,
    condition::NODE_CLASS_READY,
    condition::NODE_REGISTRATION_HEALTHY,
    condition::aws::AMIS_READY,
    condition::aws::SUBNETS_READY,
    condition::aws::SECURITY_GROUPS_READY,
    condition::aws::INSTANCE_PROFILE_READY,
    condition::aws::PLACEMENT_GROUP_READY,
    condition::aws::CAPACITY_RESERVATIONS_READY,
];

/// Checks pools, workloads and zones that `scenario` names against the `objects` it ever applies and its region, instance
/// types against what the account sells, and events against those that are written.
pub(super) fn check(scenario: &Scenario, objects: &[Value]) -> Result<(), Wrong> {
    let named = |kinds: &[&str]| -> BTreeSet<String> {
        let of_kind = |one: &&Value| kinds.contains(&object::text(one, "/kind"));
        objects.iter().filter(of_kind).map(|one| object::name(one).to_owned()).collect()
    };
    let known =
        Known { pools: named(&["NodePool"]), workloads: named(&WORKLOADS), region: scenario.region() };
    for event in &scenario.events {
        known.action(&event.action).map_err(|(field, problem)| (event.line, field, problem))?;
    }
    for line in &scenario.expectations {
        known.expectation(&line.what).map_err(|(field, problem)| (line.line, field, problem))?;
    }
    Ok(())
}

/// The names there are.
struct Known {
    pools: BTreeSet<String>,
    workloads: BTreeSet<String>,
    region: String,
}

/// Field and problem.
type Problem = (String, String);

impl Known {
    fn action(&self, action: &Action) -> Result<(), Problem> {
        match action {
            Action::Interrupt(machines) | Action::Rebalance(machines) => {
                if machines.capacity_type == Some(CapacityType::OnDemand) {
                    let problem = "EC2 takes spot machines back, and no others; leave it out".to_owned();
                    return Err(("capacityType".to_owned(), problem));
                }
                self.machines(machines)
            }
            Action::Terminate(machines) | Action::Stop(machines) | Action::Silence(machines) => {
                self.machines(machines)
            }
            Action::Sicken(sick) => self.machines(&sick.machines),
            Action::Differ(differ) => self.machines(&differ.machines()),
            Action::LoseCapacity(loss) => {
                self.zone(loss.zone.as_deref())?;
                one_type(loss.instance_type.as_deref())
            }
            Action::ChangePrice(change) => {
                if change.zone.is_some() && change.capacity_type == Some(CapacityType::OnDemand) {
                    let problem = "what is on demand costs the same in every zone; leave it out".to_owned();
                    return Err(("zone".to_owned(), problem));
                }
                self.zone(change.zone.as_deref())?;
                one_type(change.instance_type.as_deref())
            }
            _ => Ok(()),
        }
    }

    fn machines(&self, machines: &Machines) -> Result<(), Problem> {
        self.pool(machines.pool.as_deref())?;
        self.zone(machines.zone.as_deref())?;
        types(machines.instance_type.as_deref())
    }

    fn expectation(&self, expected: &Expected) -> Result<(), Problem> {
        match &expected.subject {
            // The account as a whole.
            Subject::CostPerHour(_) | Subject::CostTotal(_) | Subject::Realised(_) => Ok(()),
            Subject::Nodes(nodes) => {
                arch(nodes.arch.as_deref())?;
                self.pool(nodes.pool.as_deref())?;
                self.zone(nodes.zone.as_deref())?;
                types(nodes.instance_type.as_deref())
            }
            Subject::Pods(pods) => {
                self.pool(pods.pool.as_deref())?;
                self.zone(pods.zone.as_deref())?;
                self.workload(pods.workload.as_deref())?;
                types(pods.instance_type.as_deref())
            }
            Subject::PendingTime(times) => self.workload(times.workload.as_deref()),
            Subject::Disruptions(disruptions) => self.pool(disruptions.pool.as_deref()),
            Subject::Events(events) => written(events),
        }
    }

    fn pool(&self, name: Option<&str>) -> Result<(), Problem> {
        known("pool", name, &self.pools, "NodePool")
    }

    fn workload(&self, name: Option<&str>) -> Result<(), Problem> {
        known("workload", name, &self.workloads, "workload")
    }

    /// A zone is its region and one of three letters.
    fn zone(&self, name: Option<&str>) -> Result<(), Problem> {
        let Some(name) = name else { return Ok(()) };
        let letter = name.strip_prefix(self.region.as_str()).unwrap_or_default();
        if letter.len() == 1 && letter.starts_with(['a', 'b', 'c']) {
            return Ok(());
        }
        let region = &self.region;
        Err((
            "zone".to_owned(),
            format!(
                "zone `{name}` is not of region `{region}`; name `{region}a`, `{region}b` or `{region}c`"
            ),
        ))
    }
}

/// Checks the architecture of machines.
fn arch(name: Option<&str>) -> Result<(), Problem> {
    let Some(name) = name.filter(|name| !["amd64", "arm64"].contains(name)) else { return Ok(()) };
    Err(("arch".to_owned(), format!("no machine is of architecture `{name}`; write `amd64` or `arm64`")))
}

/// The type of an offering.
fn one_type(name: Option<&str>) -> Result<(), Problem> {
    let Some(name) = name.filter(|name| !sold::types().contains(*name)) else { return Ok(()) };
    let hint = match name.strip_suffix('*') {
        Some(_) => "name one type, a family is not taken here".to_owned(),
        None => meant(name),
    };
    Err(("instanceType".to_owned(), format!("the account sells no instance type `{name}`; {hint}")))
}

/// A type, or a family with a star.
fn types(pattern: Option<&str>) -> Result<(), Problem> {
    let is_sold = |pattern: &&str| sold::types().iter().any(|name| is_of_type(pattern, name));
    let Some(pattern) = pattern.filter(|pattern| !is_sold(pattern)) else { return Ok(()) };
    let hint = meant(pattern);
    Err(("instanceType".to_owned(), format!("the account sells no instance type `{pattern}`; {hint}")))
}

fn meant(name: &str) -> String {
    near(name, sold::types().iter().map(String::as_str)).map_or_else(
        || "name one of those that `--timeline` shows, as `m5.large`, or a family, as `m5.*`".to_owned(),
        |near| format!("`{near}` is probably meant"),
    )
}

/// Checks that such events are ever written.
fn written(events: &Events) -> Result<(), Problem> {
    let reasons = reason::reference();
    let named = reasons.iter().map(|(reason, _)| reason.name());
    let conditions = ConditionType::ALL.into_iter().map(ConditionType::as_str).chain(CONDITIONS);
    let all: BTreeSet<&str> = named.chain(conditions.clone()).collect();
    if !all.contains(events.reason.as_str()) {
        let hint = match near(&events.reason, all) {
            Some(near) => format!("`{near}` is probably meant"),
            None => "docs/events.md has them all".to_owned(),
        };
        return Err(("reason".to_owned(), format!("no event has the reason `{}`; {hint}", events.reason)));
    }
    let Some(kind) = events.kind.as_deref() else { return Ok(()) };
    let of_reason = reasons.iter().filter(|(reason, _)| reason.name() == events.reason);
    let mut kinds: BTreeSet<&str> =
        of_reason.flat_map(|(reason, _)| reason.kinds().iter().copied()).collect();
    if conditions.into_iter().any(|condition| condition == events.reason) {
        kinds.extend(WITH_CONDITIONS);
    }
    if kinds.contains(kind) {
        return Ok(());
    }
    let there = kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
    Err((
        "kind".to_owned(),
        format!("events `{}` are not about a {kind}; they are about {there}", events.reason),
    ))
}

fn known(field: &str, name: Option<&str>, all: &BTreeSet<String>, kind: &str) -> Result<(), Problem> {
    let Some(name) = name.filter(|name| !all.contains(*name)) else { return Ok(()) };
    let hint = match near(name, all.iter().map(String::as_str)) {
        Some(near) => format!("`{near}` is probably meant"),
        None => "name one of the manifests".to_owned(),
    };
    Err((field.to_owned(), format!("no manifest has a {kind} `{name}`; {hint}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;

    const GOOD: &str = "\
name: names
region: eu-west-1
manifests:
  - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: web}, spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}}
  - {apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}, spec: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: a, image: a}]}}}}
duration: 10m
timeline:
  - at: 1m
    terminate: {pool: web}
  - at: 2m
    capacityLoss: {zone: eu-west-1a}
expect:
  - pods: {workload: shop, phase: pending, exactly: 0}
    at: 5m
";

    #[test]
    fn a_name_that_nothing_has_is_said_with_its_line() {
        assert!(parse("a.yaml", GOOD, Path::new("")).is_ok());
        let cases = [
            (
                "pool: web",
                "pool: wbe",
                8,
                "pool",
                "no manifest has a NodePool `wbe`; name one of the manifests",
            ),
            (
                "zone: eu-west-1a",
                "zone: us-west-1a",
                10,
                "zone",
                "zone `us-west-1a` is not of region `eu-west-1`",
            ),
            ("workload: shop", "workload: shops", 13, "workload", "`shop` is probably meant"),
            ("workload: shop", "pool: webb", 13, "pool", "`web` is probably meant"),
            (
                "workload: shop",
                "zone: nowhere",
                13,
                "zone",
                "name `eu-west-1a`, `eu-west-1b` or `eu-west-1c`",
            ),
            (
                "zone: eu-west-1a",
                "zone: eu-west-1d",
                10,
                "zone",
                "zone `eu-west-1d` is not of region `eu-west-1`",
            ),
            (
                "terminate: {pool: web}",
                "interrupt: {capacityType: on-demand}",
                8,
                "capacityType",
                "EC2 takes spot machines back, and no others",
            ),
            (
                "capacityLoss: {zone: eu-west-1a}",
                "price: {capacityType: on-demand, zone: eu-west-1a, percent: 200}",
                10,
                "zone",
                "what is on demand costs the same in every zone",
            ),
            (
                "pods: {workload: shop, phase: pending, exactly: 0}",
                "nodes: {arch: x86, exactly: 0}",
                13,
                "arch",
                "no machine is of architecture `x86`; write `amd64` or `arm64`",
            ),
        ];
        for (good, bad, line, field, part) in cases {
            let (at, named, problem) =
                parse("a.yaml", &GOOD.replacen(good, bad, 1), Path::new("")).unwrap_err();
            assert_eq!((at, named.as_str()), (line, field), "{bad}: {problem}");
            assert!(problem.contains(part), "{bad}: {problem}");
        }
    }

    #[test]
    fn instance_types_that_are_not_sold_and_events_that_are_never_written_are_said_with_their_line() {
        let step = "    terminate: {pool: web}";
        let expectation = "  - pods: {workload: shop, phase: pending, exactly: 0}\n    at: 5m";
        let reason = |reason: &str| format!("  - events: {{reason: {reason}, exactly: 0}}");
        for good in ["SpotInterrupted", "FailedScheduling", "Launched", "AMIsReady", "Ready"] {
            let text = GOOD.replacen(expectation, &reason(good), 1);
            assert!(parse("a.yaml", &text, Path::new("")).is_ok(), "{good}");
        }
        let cases = [
            (
                step,
                "    terminate: {instanceType: m5.lage}".to_owned(),
                8,
                "instanceType",
                "`m5.large` is probably meant",
            ),
            (
                step,
                "    silence: {instanceType: m99.*}".to_owned(),
                8,
                "instanceType",
                "or a family, as `m5.*`",
            ),
            (
                step,
                "    capacityLoss: {instanceType: m5.hug}".to_owned(),
                8,
                "instanceType",
                "sells no instance type `m5.hug`",
            ),
            (
                step,
                "    price: {instanceType: m5.*, percent: 10}".to_owned(),
                8,
                "instanceType",
                "name one type, a family is not taken here",
            ),
            (
                expectation,
                "  - nodes: {instanceType: m7i.enormous, exactly: 0}".to_owned(),
                13,
                "instanceType",
                "the account sells no instance type `m7i.enormous`",
            ),
            (
                expectation,
                reason("SpotInterruptd"),
                13,
                "reason",
                "no event has the reason `SpotInterruptd`; `SpotInterrupted` is probably meant",
            ),
            (expectation, reason("Rained"), 13, "reason", "`Drained` is probably meant"),
            (expectation, reason("SomethingElse"), 13, "reason", "docs/events.md has them all"),
            (
                expectation,
                "  - events: {reason: SpotInterrupted, kind: Pod, exactly: 0}".to_owned(),
                13,
                "kind",
                "events `SpotInterrupted` are not about a Pod; they are about `Node`, `NodeClaim`",
            ),
        ];
        for (good, bad, line, field, part) in cases {
            let (at, named, problem) =
                parse("a.yaml", &GOOD.replacen(good, &bad, 1), Path::new("")).unwrap_err();
            assert_eq!((at, named.as_str()), (line, field), "{bad}: {problem}");
            assert!(problem.contains(part), "{bad}: {problem}");
        }
    }
}
