//! Twelve changes that pull requests make, the verdicts of `plan` and `lint` on each, and what the controller of the simulation
//! then does with the cluster that was planned for. The table was written before them.

use karpenter_sim::{Change, Changed, change};

use super::*;
use crate::command::lint;

/// Exit codes of `plan --what-if` and `lint`, and what the controller does.
struct Expected {
    /// 4 is "may drift", 1 "no plan could be made".
    plan: u8,
    lint: u8,
    /// A part of the plan, or of its error.
    says: &'static str,
    /// Claims that the controller creates, nodes that leave, and pods that wait in the end.
    then: (usize, usize, usize),
}

const fn expected(plan: u8, lint: u8, says: &'static str, then: (usize, usize, usize)) -> Expected {
    Expected { plan, lint, says, then }
}

const UNCHANGED: (usize, usize, usize) = (0, 0, 0);
const REPLACED: (usize, usize, usize) = (1, 1, 0);

/// Changes as name, text of the manifests that is replaced, and its replacement.
const TABLE: [(&str, &str, &str, Expected); 11] = [
    (
        "user data",
        "role: KarpenterNodeRole-demo",
        "role: KarpenterNodeRole-demo\n  userData: \"#!/bin/sh\\necho hello\\n\"",
        expected(2, 0, "because Drifted", REPLACED),
    ),
    (
        "tags",
        "role: KarpenterNodeRole-demo",
        "role: KarpenterNodeRole-demo\n  tags: {team: shop}",
        expected(2, 0, "because Drifted", REPLACED),
    ),
    // Two aliases of which files alone say the same: the account has an older image for one, and the same for the other.
    (
        "image alias of an older image",
        "al2023@latest",
        "al2023@v20251103",
        expected(4, 0, "1 node may drift, which cannot be known from here", REPLACED),
    ),
    (
        "image alias of the same image",
        "al2023@latest",
        "al2023@v20251209",
        expected(4, 0, "1 node may drift, which cannot be known from here", UNCHANGED),
    ),
    (
        "budget",
        "consolidateAfter: 30s",
        "consolidateAfter: 30s\n    budgets: [{nodes: \"20%\"}]",
        expected(0, 0, "Nothing would change", UNCHANGED),
    ),
    (
        "expireAfter",
        "expireAfter: 720h",
        "expireAfter: 336h",
        // A field of the template: nodes with another one have drifted.
        expected(2, 0, "because Drifted", REPLACED),
    ),
    (
        "requirement narrowed",
        "values: [amd64]",
        "values: [arm64]",
        expected(2, 0, "because Drifted", REPLACED),
    ),
    ("limit lowered", "cpu: 1000", "cpu: 4", expected(0, 0, "Nothing would change", UNCHANGED)),
    (
        "weight",
        "limits:",
        "weight: 10\n  limits:",
        // The only pool that launches for pods: a weight says nothing.
        expected(0, 2, "Nothing would change", UNCHANGED),
    ),
    (
        "broken YAML",
        "  limits:\n    cpu: 1000",
        "  limits:\n\tcpu: 1000",
        expected(1, 2, "change.yaml:18: ", UNCHANGED),
    ),
    ("no change", "limits:", "limits:", expected(0, 0, "Nothing would change", UNCHANGED)),
];

/// Manifests of the repository: nothing happens to their cluster by itself.
fn manifests() -> String {
    NODEPOOL.replace("WhenEmptyOrUnderutilized", "WhenEmpty")
}

/// Changes the cluster of these manifests, where one pod has a node. What `kubectl apply` cannot read changes nothing.
fn tried_on_cluster(applied: &str, deleted_pools: &[&str]) -> Changed {
    let read = |text: &str| karpenter_plan::Objects::read("change.yaml", text);
    let cluster = read(&format!("{}---\n{}", manifests(), inflate(1))).unwrap();
    let deleted_pools = deleted_pools.iter().map(ToString::to_string).collect();
    let applied = read(applied).unwrap_or_default();
    change("demo", cluster, Change { applied, deleted_pools }).unwrap()
}

async fn planned_of(export: &str, change: &str, flags: &str) -> (String, u8) {
    let files = [("export.yaml", export), ("change.yaml", change)];
    let what_if = if change.is_empty() { "" } else { "--what-if @change.yaml" };
    match tried(&files, &format!("-f @export.yaml {what_if} {flags}")).await {
        Ok(planned) => planned,
        Err(error) => (format!("{error:#}"), 1),
    }
}

/// Holds the verdicts on one change against the table, and the controller against them.
async fn judged(name: &str, change: &str, Expected { plan, lint, says, then }: &Expected) {
    let Changed { export, launched, removed, pending } = tried_on_cluster(change, &[]);
    let (quiet, code) = planned_of(&export, "", "").await;
    assert_eq!(code, 0, "before {name}: {quiet}");
    let (text, code) = planned_of(&export, change, "").await;
    assert_eq!(code, *plan, "plan of {name}: {text}");
    assert!(text.contains(says), "plan of {name}: {text}");
    assert_eq!(lint::code_of(change).await, *lint, "lint of {name}");
    assert_eq!((launched, removed, pending), *then, "after {name}: {text}");
}

#[tokio::test]
async fn verdicts_on_pull_requests_are_those_of_the_table_and_come_true() {
    for (name, from, to, expected) in &TABLE {
        let change = manifests().replacen(from, to, 1);
        assert_eq!(change == manifests(), *name == "no change", "{name}");
        judged(name, &change, expected).await;
    }
    let web = inflate(3).replace("inflate", "web");
    judged("new Deployment", &web, &expected(2, 0, "Launch 1 node", (1, 0, 0))).await;
}

#[tokio::test]
async fn a_deleted_pool_takes_its_nodes_along_and_leaves_their_pods_pending() {
    let Changed { export, launched, removed, pending } = tried_on_cluster("", &["general"]);
    assert_eq!((launched, removed, pending), (0, 1, 1));
    let (text, code) = planned_of(&export, "", "--delete nodepool/general").await;
    assert_eq!(code, 3, "{text}");
    for part in [
        "Assumed\n    pool `general` is deleted\n",
        "Remove 1 node\n  - ip-10-0-",
        "because: deleted with the pool",
        "? default/inflate-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, code) = planned_of(&export, "", "--delete nodepool/general --fail-on removals").await;
    assert_eq!(code, 5, "{text}");
    let (error, code) = planned_of(&export, "", "--delete nodepool/genral").await;
    assert_eq!(code, 1);
    assert!(error.ends_with("there is none of that name; `general` is probably meant"), "{error}");
    assert!(pool_name("deployment/api").unwrap_err().contains("nodepool/NAME"));
}
