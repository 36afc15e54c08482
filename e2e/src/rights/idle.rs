//! Rights that no suite makes use of, each with its reason. Checked both ways: a right that is unused and not here fails,
//! and so does a row about a right that is used or that is no longer granted.
//!
//! One reason needs no row: `get` and `list` of a kind that may be watched tell no more than `watch`. The controllers live
//! on watches, which begin with what there is; they need `list` where the API server does not do that, and `get` only to
//! look again after a conflict.

use anyhow::{Result, ensure};

use super::{Right, Rights};

/// A right that is granted for something the suites cannot or do not do.
struct Idle {
    place: &'static str,
    what: &'static str,
    why: &'static str,
}

const fn idle(place: &'static str, what: &'static str, why: &'static str) -> Idle {
    Idle { place, what, why }
}

/// Reading a part of an object that may be read anyway; the reference's role has it, too (spec aws-operations 3.4).
const PART: &str = "reading the object tells the same";

const IDLE: &[Idle] = &[
    idle("karpenter.sh/nodeclaims/status", "get", PART),
    idle("karpenter.sh/nodeclaims/status", "list", PART),
    idle("karpenter.sh/nodeclaims/status", "watch", PART),
    idle("karpenter.sh/nodepools/status", "get", PART),
    idle("karpenter.sh/nodepools/status", "list", PART),
    idle("karpenter.sh/nodepools/status", "watch", PART),
    idle(
        "coordination.k8s.io/leases karpenter-leader-election in kube-system",
        "patch",
        "the lease is updated as a whole; the reference's role has it (spec aws-operations 3.4)",
    ),
];

/// Kinds that are watched only behind a feature gate or with a setting, and its name. A suite need not use it.
const GATED: &[(&str, &str)] = &[
    ("karpenter.sh/nodeoverlays", "NodeOverlay"),
    ("karpenter.sh/nodeoverlays/status", "NodeOverlay"),
    ("autoscaling.x-k8s.io/capacitybuffers", "CapacityBuffer"),
    ("autoscaling.x-k8s.io/capacitybuffers/status", "CapacityBuffer"),
    ("core/podtemplates", "CapacityBuffer"),
    ("apps/deployments", "CapacityBuffer"),
    ("apps/replicasets", "CapacityBuffer"),
    ("apps/statefulsets", "CapacityBuffer"),
    ("resource.k8s.io/deviceclasses", "DynamicResources"),
    ("resource.k8s.io/devicetaintrules", "DynamicResources"),
    ("resource.k8s.io/resourceclaims", "DynamicResources"),
    ("resource.k8s.io/resourceclaims/status", "DynamicResources"),
    ("resource.k8s.io/resourceclaimtemplates", "DynamicResources"),
    ("resource.k8s.io/resourceslices", "DynamicResources"),
    ("core/services", "SCHEDULER_CONFIG"),
    ("core/replicationcontrollers", "SCHEDULER_CONFIG"),
];

/// Used in some runs and not in others, because it depends on who is faster.
const SOMETIMES: &[Idle] = &[];

/// Compares what all suites together have used with what they were granted.
pub fn check(rights: &Rights) -> Result<()> {
    let complaints = complaints(rights, IDLE, SOMETIMES);
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

fn complaints(rights: &Rights, idle: &[Idle], sometimes: &[Idle]) -> Vec<String> {
    let listed = |list: &[Idle], right: &Right| {
        list.iter().any(|row| row.place == right.place && row.what == right.what)
    };
    let used = |right: &Right, verb: &str| rights.used.contains(&Right::new(&right.place, verb));
    let told_anyway = |right: &Right| match right.what.as_str() {
        "get" => used(right, "list") || used(right, "watch"),
        "list" => used(right, "watch"),
        _ => false,
    };
    let gated = |right: &Right| GATED.iter().any(|(place, _gate)| *place == right.place);
    let mut found: Vec<String> = rights
        .unused()
        .filter(|right| !gated(right) && !told_anyway(right))
        .filter(|right| !listed(idle, right) && !listed(sometimes, right))
        .map(|right| {
            format!(
                "granted and never used: {right}; grant it no more, use it, or say why in `rights/idle.rs`"
            )
        })
        .collect();
    for row in idle.iter().chain(sometimes) {
        let right = Right::new(row.place, row.what);
        if !rights.granted.contains(&right) {
            found.push(format!("{right} is no longer granted; take it off the list ({})", row.why));
        }
    }
    for row in idle {
        let right = Right::new(row.place, row.what);
        if rights.used.contains(&right) {
            found.push(format!("{right} is used; take it off the list ({})", row.why));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_excuses_one_right_and_must_be_true() {
        let right = |what: &str| Right::new("S", what);
        let rights = Rights { granted: ["a", "b", "c"].map(right).into(), used: ["a"].map(right).into() };
        let lines = complaints(&rights, &[idle("S", "b", "x")], &[]);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("granted and never used: S: c;"), "{lines:?}");
        let lines = complaints(
            &rights,
            &[idle("S", "a", "x"), idle("S", "d", "y")],
            &[idle("S", "b", "z"), idle("S", "c", "z")],
        );
        assert_eq!(
            lines,
            ["S: d is no longer granted; take it off the list (y)", "S: a is used; take it off the list (x)"]
        );
    }

    #[test]
    fn getting_what_is_listed_anyway_needs_no_excuse_and_neither_does_a_closed_gate() {
        let read = |kind: &str| ["get", "list"].map(|verb| Right::new(kind, verb));
        let granted = [read("core/pods"), read("core/secrets"), read("karpenter.sh/nodeoverlays")]
            .into_iter()
            .flatten();
        let granted: std::collections::BTreeSet<Right> = granted.collect();
        for (used, excused) in [("list", &["get"][..]), ("watch", &["get", "list"])] {
            let of_pods = excused.iter().map(|verb| Right::new("core/pods", verb));
            let granted = granted.iter().filter(|right| right.place != "core/pods").cloned().chain(of_pods);
            let rights = Rights { granted: granted.collect(), used: [Right::new("core/pods", used)].into() };
            let lines = complaints(&rights, &[], &[]);
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines.iter().all(|line| line.contains("secrets")), "{lines:?}");
        }
    }
}
