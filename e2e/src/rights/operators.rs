//! The calls of `karpenter bootstrap` and `karpenter doctor`, compared with the permissions each lists.
//!
//! Every command of the harness signs with a key of its own, see [`caller`]. The documents are asked of the program, as
//! a user would; those of `doctor` stand in docs/doctor.md, which is generated.

use anyhow::{Context, Result, ensure};
use karpenter_iam::{Policies, Policy};
use serde_json::{Value, json};

use super::aws::evaluate;
use super::{Right, Rights};
use crate::account::Control;
use crate::command_line::{AwsEnvironment, caller, run};

/// Calls that every caller may make; listed so that they are not missed.
const FREE: &[&str] = &["sts:GetCallerIdentity"];

/// Every call of `karpenter bootstrap <action>` is one that `--print-required-permissions` lists. Returns what was used.
pub async fn bootstrap(control: &Control, aws: &AwsEnvironment, action: &str) -> Result<Rights> {
    // `check` looks as `plan` does and prints nothing of its own.
    let documented = if action == "check" { "plan" } else { action };
    let (code, text) = run(aws, &["bootstrap", documented, "--print-required-permissions"]).await?;
    ensure!(code == 0, "`bootstrap {documented} --print-required-permissions` ended with {code}:\n{text}");
    // Documents stand one after the other, and after them the lines of standard error.
    let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok);
    let policies: Result<Vec<Policy>, _> =
        documents.map(|document| Policy::of_identity(&document.to_string())).collect();
    let policies = policies.with_context(|| format!("read what {action} needs: {text}"))?;
    ensure!(!policies.is_empty(), "`bootstrap {documented}` printed no policy:\n{text}");
    check(control, &caller(&["bootstrap", action]), policies).await
}

/// Every call of `karpenter doctor` is one that docs/doctor.md lists, and every one it lists was made.
pub async fn doctor(control: &Control) -> Result<()> {
    let page = include_str!("../../../docs/doctor.md");
    let listed = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let actions: Vec<&str> = listed.context("docs/doctor.md lists the actions")?.lines().collect();
    let document = json!({
        "Version": "2012-10-17",
        "Statement": [{"Sid": "Doctor", "Effect": "Allow", "Action": actions, "Resource": "*"}],
    });
    let policy = Policy::of_identity(&document.to_string())?;
    let rights = check(control, &caller(&["doctor"]), vec![policy]).await?;
    let idle: Vec<&Right> = rights
        .unused()
        .filter(|right| !FREE.contains(&right.what.as_str()) && !SELDOM.contains(&right.what.as_str()))
        .collect();
    ensure!(idle.is_empty(), "docs/doctor.md asks for what doctor does not do: {idle:?}");
    Ok(())
}

/// Every call of `karpenter plan`, signed by `caller`, is one that docs/plan.md lists.
pub async fn plan(control: &Control, caller: &str) -> Result<()> {
    let page = include_str!("../../../docs/plan.md");
    let listed = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let actions: Vec<&str> = listed.context("docs/plan.md lists the actions")?.lines().collect();
    let document = json!({
        "Version": "2012-10-17",
        "Statement": [{"Sid": "Plan", "Effect": "Allow", "Action": actions, "Resource": "*"}],
    });
    check(control, caller, vec![Policy::of_identity(&document.to_string())?]).await.map(drop)
}

/// Actions that doctor needs only for accounts unlike the emulated one.
const SELDOM: &[&str] = &[
    // Doctor asks these for queues and volumes that a customer managed key encrypts.
    "kms:DescribeKey",
    "kms:GetKeyPolicy",
    // Doctor asks this for a controller that assumes its role by web identity.
    "iam:GetOpenIDConnectProvider",
    // Doctor asks this where an EC2NodeClass says how many pods a node takes.
    "ec2:DescribeInstanceTypes",
];

async fn check(control: &Control, caller: &str, policies: Vec<Policy>) -> Result<Rights> {
    let questions = control.questions(caller).await?;
    ensure!(!questions.is_empty(), "no call was made by `{caller}`");
    evaluate(&Policies::of(policies), &questions).with_context(|| format!("the calls of `{caller}`"))
}
