//! Contents of an account, ready to be compared.

use anyhow::{Context, Result, ensure};
use karpenter_e2e::command_line::AwsEnvironment;
use karpenter_e2e::prepare;
use serde_json::Value;
use tokio::process::Command;

/// Marks what `karpenter bootstrap destroy` may delete: never on what other tools look after.
const OWNER_TAG: &str = "karpenter.sh/bootstrap";
/// CloudFormation has no tags for these types.
const UNTAGGED_BY_CLOUDFORMATION: [&str; 3] = ["policies", "profiles", "rules"];

/// Roles, policies, profiles, queues, rules, members, and tags of the network, by name or ARN.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inventory(Value);

/// Reads the account with `localstack/emulator/inventory.py`.
pub(super) async fn read(environment: &AwsEnvironment) -> Result<Inventory> {
    let text = python(&[
        "-m",
        "emulator.inventory",
        "--endpoint",
        &environment.endpoint,
        "--region",
        &environment.region,
        "--cluster",
        &environment.cluster,
    ])
    .await?;
    let mut found: Value = serde_json::from_str(&text).context("read the inventory")?;
    // The tags of ownership, of which what IAM holds has a second one.
    strip_tags(&mut found, &|key| key.starts_with(OWNER_TAG) || key.starts_with("aws:"));
    Ok(Inventory(found))
}

/// Runs the launcher's Python with `arguments`.
pub(super) async fn python(arguments: &[&str]) -> Result<String> {
    let python = tokio::task::spawn_blocking(prepare::python).await.context("prepare Python")??;
    let output = Command::new(python)
        .args(arguments)
        .env("PYTHONPATH", prepare::launcher_folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .kill_on_drop(true)
        .output()
        .await
        .context("run Python")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "`python {}` failed:\n{text}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

impl Inventory {
    /// Leaves out what CloudFormation cannot do: tag policies, profiles and rules, and tag a network that exists.
    pub(super) fn with_what_cloudformation_can(self) -> Self {
        let mut without = self.without_tags_of_policies();
        without.0["subnets"].take();
        without.0["security_groups"].take();
        without
    }

    /// Leaves out tags on policies, profiles and rules, which CloudFormation does not give.
    pub(super) fn without_tags_of_policies(mut self) -> Self {
        for kind in UNTAGGED_BY_CLOUDFORMATION {
            for object in self.0[kind].as_object_mut().into_iter().flat_map(|objects| objects.values_mut()) {
                object["tags"].take();
            }
        }
        self
    }

    /// Every place in which two inventories differ; empty when they are the same.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare(&self.0, &other.0, "", &mut found);
        found
    }

    /// Leaves out the spot role: it belongs to the account and outlives what asked for it.
    pub(super) fn without_spot_role(mut self) -> Self {
        if let Some(roles) = self.0["roles"].as_object_mut() {
            roles.remove("AWSServiceRoleForEC2Spot");
        }
        self
    }
}

fn compare(left: &Value, right: &Value, path: &str, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let at = |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or_default();
                compare(&at(left), &at(right), &format!("{path}/{key}"), found);
            }
        }
        _ if left == right => {}
        _ => found.push(format!("{path}: {left} | {right}")),
    }
}

/// Removes tags from every `tags` object, and from the network's, whose values are tags themselves.
fn strip_tags(value: &mut Value, unwanted: &dyn Fn(&str) -> bool) {
    let Value::Object(fields) = value else { return };
    for (name, field) in fields.iter_mut() {
        if name == "tags"
            && let Value::Object(tags) = field
        {
            tags.retain(|key, _| !unwanted(key));
        } else if name == "subnets" || name == "security_groups" {
            for tags in field.as_object_mut().into_iter().flat_map(|objects| objects.values_mut()) {
                if let Value::Object(tags) = tags {
                    tags.retain(|key, _| !unwanted(key));
                }
            }
        } else {
            strip_tags(field, unwanted);
        }
    }
}
