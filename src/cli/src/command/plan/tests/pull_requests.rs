//! Twelve changes that pull requests make, and the verdicts of `plan` and `lint` on each: the table was written before them.

use super::*;
use crate::command::lint;

/// Exit codes of `plan --what-if` and `lint`; 4 is "may drift", 1 "no plan could be made".
struct Expected {
    plan: u8,
    lint: u8,
    /// A part of the plan, or of its error.
    says: &'static str,
}

/// Changes as name, text of the manifest that is replaced, and its replacement.
const TABLE: [(&str, &str, &str, Expected); 10] = [
    (
        "user data",
        "role: KarpenterNodeRole-demo",
        "role: KarpenterNodeRole-demo\n  userData: \"#!/bin/sh\\necho hello\\n\"",
        Expected { plan: 2, lint: 0, says: "because Drifted" },
    ),
    (
        "tags",
        "role: KarpenterNodeRole-demo",
        "role: KarpenterNodeRole-demo\n  tags: {team: shop}",
        Expected { plan: 2, lint: 0, says: "because Drifted" },
    ),
    (
        "image alias",
        "al2023@latest",
        "al2023@v20251201",
        Expected { plan: 4, lint: 0, says: "1 node may drift, which cannot be known from here" },
    ),
    (
        "budget",
        "consolidateAfter: 30s",
        "consolidateAfter: 30s\n    budgets: [{nodes: \"20%\"}]",
        Expected { plan: 0, lint: 0, says: "Nothing would change" },
    ),
    (
        "expireAfter",
        "expireAfter: 720h",
        "expireAfter: 336h",
        // A field of the template: nodes with another one have drifted.
        Expected { plan: 2, lint: 0, says: "because Drifted" },
    ),
    (
        "requirement narrowed",
        "values: [amd64]",
        "values: [arm64]",
        Expected { plan: 2, lint: 0, says: "because Drifted" },
    ),
    ("limit lowered", "cpu: 1000", "cpu: 4", Expected { plan: 0, lint: 0, says: "Nothing would change" }),
    (
        "weight",
        "limits:",
        "weight: 10\n  limits:",
        // The only pool that launches for pods: a weight says nothing.
        Expected { plan: 0, lint: 2, says: "Nothing would change" },
    ),
    (
        "broken YAML",
        "  limits:\n    cpu: 1000",
        "  limits:\n\tcpu: 1000",
        Expected { plan: 1, lint: 2, says: "change.yaml:18: " },
    ),
    ("no change", "limits:", "limits:", Expected { plan: 0, lint: 0, says: "Nothing would change" }),
];

/// Manifests of the repository: nothing happens to their cluster by itself.
fn manifests() -> String {
    NODEPOOL.replace("WhenEmptyOrUnderutilized", "WhenEmpty")
}

/// An export of the cluster of these manifests: a machine with a pod.
async fn export() -> String {
    let mut objects = karpenter_plan::Objects::read("nodepool.yaml", &manifests()).unwrap();
    let waits = |object: &Value| object["metadata"]["name"] == "big";
    let first = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        name.ends_with("-0") && object["kind"] != "NodePool"
    };
    for mut object in cluster() {
        if waits(&object) || first(&object) {
            continue;
        }
        if object["metadata"]["labels"].is_object() && object["kind"] != "Pod" {
            let labels = &mut object["metadata"]["labels"];
            labels[label::aws::INSTANCE_CATEGORY] = json!("m");
            labels[label::aws::INSTANCE_GENERATION] = json!("5");
        }
        if let Some(known) = objects.iter_mut().find(|known| known["kind"] == object["kind"]) {
            for part in ["metadata", "status"] {
                known[part] = object[part].take();
            }
        } else {
            objects.push(object);
        }
    }
    let gathered = gathered(objects, "").await;
    gathered.world.export(&gathered.offerings, about(&gathered), false)
}

async fn planned_of(export: &str, change: &str, flags: &str) -> (String, u8) {
    let files = [("export.yaml", export), ("change.yaml", change)];
    let what_if = if change.is_empty() { "" } else { "--what-if @change.yaml" };
    match tried(&files, &format!("-f @export.yaml {what_if} {flags}")).await {
        Ok(planned) => planned,
        Err(error) => (format!("{error:#}"), 1),
    }
}

#[tokio::test]
async fn verdicts_on_pull_requests_are_those_of_the_table() {
    let export = export().await;
    let (quiet, code) = planned_of(&export, "", "").await;
    assert_eq!(code, 0, "{quiet}");
    for (name, from, to, Expected { plan, lint, says }) in TABLE {
        let change = manifests().replacen(from, to, 1);
        assert_eq!(change == manifests(), name == "no change", "{name}");
        let (text, code) = planned_of(&export, &change, "").await;
        assert_eq!(code, plan, "plan of {name}: {text}");
        assert!(text.contains(says), "plan of {name}: {text}");
        assert_eq!(lint::code_of(&change).await, lint, "lint of {name}");
    }
    let (text, code) = planned_of(&export, &inflate(3), "").await;
    assert_eq!((code, lint::code_of(&inflate(3)).await), (2, 0), "new Deployment: {text}");
    assert!(text.contains("Launch 1 node"), "{text}");
}

#[tokio::test]
async fn a_deleted_pool_takes_its_nodes_along_and_leaves_their_pods_pending() {
    let export = export().await;
    let (text, code) = planned_of(&export, "", "--delete nodepool/general").await;
    assert_eq!(code, 3, "{text}");
    for part in [
        "Assumed\n    pool `general` is deleted\n",
        "Remove 1 node\n  - node-1: ",
        "because: deleted with the pool",
        "? shop/api-1",
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
