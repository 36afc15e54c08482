//! `karpenter bootstrap`: applied twice, damaged by hand, repaired, removed, and all that with the rights it lists.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::error::optional;
use karpenter_aws_api::id::Arn;

use crate::rights::operators;
use crate::world::World;

const NOTHING_TO_DO: &str = "nothing to do";
/// Exit code of `plan` when there is something to do.
const DIFFERENCES: i32 = 2;
/// Exit code of a `doctor` that could not do its work.
const FAILED: i32 = 1;

/// Runs the scenario in a world in which nothing of ours is installed yet.
pub async fn run(world: &World) -> Result<()> {
    let before = inventory(world).await?;
    let cluster = world.environment.cluster.as_str();

    expect(world, "plan", DIFFERENCES, "to create").await?;
    expect(world, "apply", 0, "to create").await?;
    expect(world, "apply", 0, NOTHING_TO_DO).await?;
    expect(world, "plan", 0, NOTHING_TO_DO).await?;
    expect(world, "check", 0, "").await?;
    let (code, text) = world.karpenter(&["doctor", "--account-only"]).await?;
    ensure!(code != FAILED, "`karpenter doctor` ended with {code}:\n{text}");

    damage(world, cluster).await?;
    let text = expect(world, "plan", DIFFERENCES, "to change").await?;
    for difference in ["MessageRetentionPeriod", "attach AmazonSSMManagedInstanceCore"] {
        ensure!(text.contains(difference), "the plan does not mention `{difference}`:\n{text}");
    }
    expect(world, "apply", 0, "to change").await?;
    expect(world, "plan", 0, NOTHING_TO_DO).await?;

    // A role of another owner, to be left alone.
    let foreign = karpenter_aws_api::iam::RoleSpec {
        name: "somebody-elses".to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        trust: r#"{"Version":"2012-10-17","Statement":[]}"#.to_owned(),
        permissions_boundary: None,
        tags: BTreeMap::new(),
    };
    world.aws.iam.create_role(&foreign).await?;
    let text = expect(world, "destroy", 0, "to delete").await?;
    ensure!(text.contains("looked for: "), "destroy does not say what it may have missed:\n{text}");
    world.aws.iam.get_role(&foreign.name).await.context("destroy removed a role that was not ours")?;
    world.aws.iam.delete_role(&foreign.name).await?;

    let control = world.control()?;
    for action in ["plan", "check", "apply", "destroy"] {
        operators::bootstrap(control, &world.environment, action).await?;
    }
    operators::doctor(control).await?;

    let after = inventory(world).await?;
    ensure!(before == after, "the account is not as it was.\nbefore: {before:#?}\nafter: {after:#?}");
    Ok(())
}

/// Runs `karpenter bootstrap <action>` and checks its exit code and that its output mentions `fragment`.
async fn expect(world: &World, action: &str, code: i32, fragment: &str) -> Result<String> {
    let (found, text) = world.karpenter(&["bootstrap", action]).await?;
    ensure!(found == code, "`karpenter bootstrap {action}` ended with {found}, expected {code}:\n{text}");
    ensure!(text.contains(fragment), "`karpenter bootstrap {action}` does not say `{fragment}`:\n{text}");
    Ok(text)
}

/// Damages the account as a hurried operator might do by hand.
async fn damage(world: &World, cluster: &str) -> Result<()> {
    let sqs = &world.aws.sqs;
    let url = sqs.get_queue_url(cluster).await?;
    let longer = BTreeMap::from([("MessageRetentionPeriod".to_owned(), "86400".to_owned())]);
    sqs.set_queue_attributes(&url, &longer).await?;
    let policy = Arn::from("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore");
    world.aws.iam.detach_role_policy(&format!("KarpenterNodeRole-{cluster}"), &policy).await?;
    Ok(())
}

/// Everything bootstrap could touch, as comparable text; the spot role is left out because it stays.
async fn inventory(world: &World) -> Result<BTreeMap<String, String>> {
    let cluster = world.environment.cluster.as_str();
    let aws = &world.aws;
    let mut found = BTreeMap::new();
    for role in [format!("KarpenterNodeRole-{cluster}"), format!("{cluster}-karpenter")] {
        let there = optional(aws.iam.get_role(&role).await)?.is_some();
        found.insert(format!("role {role}"), there.to_string());
    }
    let profiles = aws.iam.list_instance_profiles("/").await?;
    found
        .insert("profiles".to_owned(), format!("{:?}", profiles.iter().map(|p| &p.name).collect::<Vec<_>>()));
    let queue = optional(aws.sqs.get_queue_url(cluster).await)?.is_some();
    found.insert("queue".to_owned(), queue.to_string());
    let rules = aws.events.list_rules("").await?;
    found
        .insert("rules".to_owned(), format!("{:?}", rules.iter().map(|rule| &rule.name).collect::<Vec<_>>()));
    let entries = aws.eks.list_access_entries(cluster).await?;
    found.insert("access entries".to_owned(), format!("{entries:?}"));
    let subnets = aws.ec2.describe_subnets(&karpenter_aws_api::ec2::SubnetQuery::default()).await?;
    for subnet in subnets {
        found.insert(format!("subnet {}", subnet.id), format!("{:?}", subnet.tags));
    }
    let groups =
        aws.ec2.describe_security_groups(&karpenter_aws_api::ec2::SecurityGroupQuery::default()).await?;
    for group in groups {
        found.insert(format!("security group {}", group.id), format!("{:?}", group.tags));
    }
    Ok(found)
}
