//! Whether the names in a scenario mean anything: what is expected of a pool that is not there is always true or always
//! false, and a gate that cannot fail is none.

use std::collections::BTreeSet;

use karpenter_kube_sim::apiserver::object;
use karpenter_plan::near;
use serde_json::Value;

use super::{Action, Scenario, Wrong};
use crate::scenario::format::{Expectation, Machines};

/// Kinds that a pod is said to be of.
const WORKLOADS: [&str; 6] = ["Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "Pod"];

/// Checks pools, workloads and zones that `scenario` names against the `objects` it ever applies and its region.
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
            Action::Interrupt(machines) | Action::Terminate(machines) | Action::Silence(machines) => {
                self.machines(machines)
            }
            Action::LoseCapacity(loss) => self.zone(loss.zone.as_deref()),
            Action::ChangePrice(change) => self.zone(change.zone.as_deref()),
            _ => Ok(()),
        }
    }

    fn machines(&self, machines: &Machines) -> Result<(), Problem> {
        self.pool(machines.pool.as_deref())?;
        self.zone(machines.zone.as_deref())
    }

    fn expectation(&self, what: &Expectation) -> Result<(), Problem> {
        if let Some(nodes) = &what.nodes {
            self.pool(nodes.pool.as_deref())?;
            self.zone(nodes.zone.as_deref())?;
        }
        if let Some(pods) = &what.pods {
            self.pool(pods.pool.as_deref())?;
            self.zone(pods.zone.as_deref())?;
            self.workload(pods.workload.as_deref())?;
        }
        if let Some(times) = &what.pending_time {
            self.workload(times.workload.as_deref())?;
        }
        self.pool(what.disruptions.as_ref().and_then(|disruptions| disruptions.pool.as_deref()))
    }

    fn pool(&self, name: Option<&str>) -> Result<(), Problem> {
        known("pool", name, &self.pools, "NodePool")
    }

    fn workload(&self, name: Option<&str>) -> Result<(), Problem> {
        known("workload", name, &self.workloads, "workload")
    }

    /// A zone is its region and a letter.
    fn zone(&self, name: Option<&str>) -> Result<(), Problem> {
        let Some(name) = name else { return Ok(()) };
        let letter = name.strip_prefix(self.region.as_str()).unwrap_or_default();
        if letter.len() == 1 && letter.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            return Ok(());
        }
        let region = &self.region;
        Err((
            "zone".to_owned(),
            format!("zone `{name}` is not of region `{region}`; name one such as `{region}a`"),
        ))
    }
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
  - {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: web}}
  - {apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}}
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
            ("workload: shop", "zone: nowhere", 13, "zone", "name one such as `eu-west-1a`"),
        ];
        for (good, bad, line, field, part) in cases {
            let (at, named, problem) =
                parse("a.yaml", &GOOD.replacen(good, bad, 1), Path::new("")).unwrap_err();
            assert_eq!((at, named.as_str()), (line, field), "{bad}: {problem}");
            assert!(problem.contains(part), "{bad}: {problem}");
        }
    }
}
