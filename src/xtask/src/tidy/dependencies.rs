//! Allowed dependencies: the crate table of `docs/architecture.md` against `cargo metadata`.
//!
//! The pure crates hold every decision, so they must not even be able to reach a client, a clock or a runtime;
//! only `aws-sdk` sees the AWS SDK.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A crate and the workspace crates it may use in production code.
const INTERNAL: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("iam", &[]),
    ("devices", &["model"]),
    ("engine", &["devices", "model"]),
    ("lifecycle", &["model"]),
    ("audit", &["model"]),
    ("cluster", &["model"]),
    ("cloud", &["model"]),
    ("api", &["model"]),
    ("telemetry", &["model"]),
    ("aws-api", &[]),
    ("aws-sdk", &["aws-api"]),
    ("aws-sim", &["aws-api", "iam", "model"]),
    ("testkit", &["model"]),
    ("aws", &["api", "aws-api", "cloud", "iam", "model"]),
    ("bootstrap", &["aws-api", "iam", "model"]),
    ("convert", &["api", "model"]),
    ("doctor", &["api", "aws-api", "iam", "kube-harness", "model"]),
    ("kube-harness", &["model", "telemetry"]),
    ("view", &["api", "kube-harness", "model", "telemetry"]),
    ("kube-sim", &["api", "aws-api", "model"]),
    (
        "controllers",
        &["api", "audit", "cloud", "cluster", "engine", "kube-harness", "lifecycle", "model", "telemetry"],
    ),
    (
        "aws-controllers",
        &["api", "aws", "aws-api", "cloud", "controllers", "kube-harness", "model", "telemetry"],
    ),
    ("plan", &["api", "audit", "cloud", "controllers", "engine", "lifecycle", "model"]),
    (
        "compose",
        &[
            "api",
            "aws",
            "aws-api",
            "aws-controllers",
            "aws-sim",
            "cloud",
            "controllers",
            "kube-harness",
            "kube-sim",
            "model",
            "plan",
            "telemetry",
        ],
    ),
    (
        "sim",
        &[
            "api",
            "aws",
            "aws-api",
            "aws-sim",
            "bootstrap",
            "compose",
            "controllers",
            "convert",
            "kube-harness",
            "kube-sim",
            "model",
            "plan",
            "telemetry",
            "testkit",
        ],
    ),
    ("demo", &["api", "bootstrap", "compose", "kube-sim", "model", "telemetry", "view"]),
    (
        "xtask",
        &["api", "aws-api", "aws-controllers", "bootstrap", "cloud", "controllers", "doctor", "telemetry"],
    ),
];

/// Crates that decide and therefore may not reach the outside world.
const PURE: &[&str] = &["model", "devices", "engine", "lifecycle", "audit", "cluster", "iam"];

/// Crates from outside the workspace that a pure crate may use.
/// `kube-cel` evaluates the selectors of devices, `regex` the reasons of conditions, `parking_lot` holds the clock that tests
/// move; they reach nothing either.
const PURE_EXTERNAL: &[&str] = &[
    "foldhash",
    "indexmap",
    "jiff",
    "kube-cel",
    "parking_lot",
    "regex",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
];

/// Compares every workspace crate's declared dependencies with the table.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no `packages`")?;
    Ok(packages.iter().flat_map(violations).collect())
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("`cargo metadata` did not answer with JSON")
}

fn violations(package: &Value) -> Vec<String> {
    let name = short(package["name"].as_str().unwrap_or_default());
    let declared: BTreeSet<&str> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"].is_null())
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    let mut found = Vec::new();
    let allowed = INTERNAL.iter().find(|(krate, _)| *krate == name).map(|(_, allowed)| *allowed);
    for dependency in &declared {
        if dependency.starts_with("aws-") && name != "aws-sdk" {
            found.push(format!("crate `{name}` uses `{dependency}`: only `aws-sdk` may touch the AWS SDK"));
        }
        let Some(internal) = dependency.strip_prefix("karpenter-") else {
            if PURE.contains(&name) && !PURE_EXTERNAL.contains(dependency) {
                found.push(format!("pure crate `{name}` uses `{dependency}`: it may only compute"));
            }
            continue;
        };
        // The composition roots, `cli` and `e2e`, are not in the table and may use everything.
        if allowed.is_some_and(|allowed| !allowed.contains(&internal)) {
            found
                .push(format!("crate `{name}` uses `{internal}`, which the dependency table does not allow"));
        }
    }
    found
}

fn short(package: &str) -> &str {
    package.strip_prefix("karpenter-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Value {
        let dependencies: Vec<_> =
            dependencies.iter().map(|name| json!({ "name": name, "kind": null })).collect();
        json!({ "name": format!("karpenter-{name}"), "dependencies": dependencies })
    }

    #[test]
    fn each_forbidden_edge_is_named() {
        let cases: [(&str, &[&str], usize); 7] = [
            ("engine", &["karpenter-model", "jiff"], 0),
            ("engine", &["karpenter-cloud"], 1),
            ("engine", &["tokio"], 1),
            ("aws", &["aws-sdk-ec2"], 1),
            ("aws-sdk", &["aws-sdk-ec2"], 0),
            ("aws-api", &["aws-sdk-ec2"], 1),
            ("cli", &["karpenter-engine", "karpenter-kube-sim", "tokio"], 0),
        ];
        for (name, dependencies, expected) in cases {
            let found = violations(&package(name, dependencies));
            assert_eq!(found.len(), expected, "{name} -> {dependencies:?}: {found:?}");
        }
    }
}
