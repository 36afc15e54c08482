//! Parts of the account that a class names: subnets, security groups, profiles; and what it gives its instances: disks, tags.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{LaunchTemplateQuery, SecurityGroup, SecurityGroupQuery, SubnetQuery};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_model::names::condition;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::{class_with_pool, launched};
use crate::scenario::test_namespace::{TestNamespace, class_says};
use crate::world::World;

/// One of the three subnets that every other class has, and a group that no other class has. Both are of the cluster's VPC:
/// the account has a default VPC as well.
pub(super) async fn network(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "network-ids").await?;
    class_says(world, "default", (condition::READY, "True", condition::READY)).await?;
    let default: EC2NodeClass =
        Api::all(world.client.clone()).get("default").await.context("read the class")?;
    let usual = default.status.unwrap_or_default();
    let wanted = usual.subnets.first().context("the class has no subnet")?;
    let subnets = world.aws.ec2.describe_subnets(&SubnetQuery::default()).await?;
    let subnet = subnets.into_iter().find(|one| one.id.as_str() == wanted.id).context("no such subnet")?;
    let is_usual =
        |group: &SecurityGroup| usual.security_groups.iter().any(|one| one.id == group.id.as_str());
    let groups = world.aws.ec2.describe_security_groups(&SecurityGroupQuery::default()).await?;
    let group = groups.into_iter().find(|group| group.vpc.as_ref() == Some(&subnet.vpc) && !is_usual(group));
    let (subnet, group) = (subnet.id, group.context("the VPC has one group only")?.id);
    let ids = json!({
        "subnetSelectorTerms": [{"id": subnet.as_str()}],
        "securityGroupSelectorTerms": [{"id": group.as_str()}],
    });
    let class = class_with_pool(&test, "network-ids", ids).await?;
    let status = class.status.unwrap_or_default();
    ensure!(status.subnets.iter().map(|one| one.id.as_str()).eq([subnet.as_str()]), "{:?}", status.subnets);
    ensure!(
        status.security_groups.iter().map(|one| one.id.as_str()).eq([group.as_str()]),
        "{:?}",
        status.security_groups
    );
    let instance = launched(&test, "network-ids").await?;
    ensure!(instance.subnet.as_ref() == Some(&subnet), "it is in {:?}, not in {subnet}", instance.subnet);
    ensure!(instance.security_groups == [group.clone()], "{:?}, not {group}", instance.security_groups);
    Ok(())
}

/// Disks and interfaces are read from the account, as our own calls never describe them.
pub(super) async fn disks_and_tags(world: &World) -> Result<()> {
    const TAG: (&str, &str) = ("example.com/cost-centre", "4711");
    let test = TestNamespace::open(world, "disks").await?;
    let class = json!({
        "tags": {TAG.0: TAG.1},
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "30Gi", "volumeType": "gp3"}},
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "70Gi", "volumeType": "io2", "iops": 3000}},
        ],
    });
    class_with_pool(&test, "disks", class).await?;
    let instance = launched(&test, "disks").await?;
    let has_tag = |tags: &Tags| tags.get(TAG.0).map(String::as_str) == Some(TAG.1);
    ensure!(has_tag(&instance.tags), "the instance is tagged {:?}", instance.tags);

    let machines = world.control()?.machines(&world.environment.region).await?;
    let machine = machines.iter().find(|machine| machine.id == instance.id.as_str());
    let machine = machine.with_context(|| format!("the account does not list `{}`", instance.id))?;
    let disks: BTreeSet<_> =
        machine.disks.iter().map(|disk| (disk.device.as_str(), disk.kind.as_str(), disk.size_gib)).collect();
    let expected = BTreeSet::from([("/dev/xvda", "gp3", 30), ("/dev/xvdb", "io2", 70)]);
    ensure!(disks == expected, "the disks are {disks:?}, expected {expected:?}");
    let nodes = Api::<Node>::all(world.client.clone()).list(&ListParams::default()).await?;
    let id = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
    let node = nodes.into_iter().find(|node| id(node).ends_with(instance.id.as_str()));
    let node = node.with_context(|| format!("no Node is of `{}`", instance.id))?;
    let has = node.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("ephemeral-storage"));
    ensure!(has.is_some_and(|size| size.0 == "30Gi"), "the Node has {has:?}, expected the 30Gi of its class");
    for disk in &machine.disks {
        ensure!(has_tag(&disk.tags), "disk {} is tagged {:?}", disk.device, disk.tags);
    }
    ensure!(!machine.interfaces.is_empty(), "`{}` has no network interface", instance.id);
    for tags in &machine.interfaces {
        ensure!(has_tag(tags), "a network interface is tagged {tags:?}");
    }

    let templates = world.aws.ec2.describe_launch_templates(&LaunchTemplateQuery::default()).await?;
    let ours = |tags: &Tags| tags.get("karpenter.k8s.aws/ec2nodeclass").map(String::as_str) == Some("disks");
    let mut ours = templates.iter().filter(|template| ours(&template.tags)).peekable();
    ensure!(ours.peek().is_some(), "no launch template is of class `disks`");
    for template in ours {
        ensure!(has_tag(&template.tags), "template `{}` is tagged {:?}", template.name, template.tags);
    }
    Ok(())
}

/// The profile that is made for a role has the role, tags that say whose it is, and those of the class; one that the
/// class names is used without a change to it (spec aws-provider 8).
pub(super) async fn profiles(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "profiles").await?;
    let iam = &world.aws.iam;
    let managed = class_with_pool(&test, "profile-of-role", json!({"tags": {"team": "blue"}})).await?;
    let name = profile_of(&managed)?;
    let profile = iam.get_instance_profile(&name).await?;
    ensure!(profile.role == managed.spec.role, "`{name}` has role {:?}", profile.role);
    let environment = &world.environment;
    let expected = Tags::from(
        [
            (format!("kubernetes.io/cluster/{}", environment.cluster), "owned"),
            ("eks:eks-cluster-name".to_owned(), environment.cluster.as_str()),
            ("karpenter.k8s.aws/ec2nodeclass".to_owned(), "profile-of-role"),
            ("topology.kubernetes.io/region".to_owned(), environment.region.as_str()),
            ("team".to_owned(), "blue"),
        ]
        .map(|(key, value)| (key, value.to_owned())),
    );
    ensure!(profile.tags == expected, "`{name}` is tagged {:?}, expected {expected:?}", profile.tags);
    let instance = launched(&test, "profile-of-role").await?;
    ensure!(instance.instance_profile.as_deref() == Some(profile.arn.as_str()), "{instance:?}");

    let role = managed.spec.role.as_deref().context("the class names a role")?;
    let by_hand = InstanceProfileSpec { name: "by-hand".to_owned(), path: "/".to_owned(), tags: Tags::new() };
    let by_hand = iam.create_instance_profile(&by_hand).await?;
    iam.add_role_to_instance_profile(&by_hand.name, role).await?;
    let before = iam.get_instance_profile(&by_hand.name).await?;
    let change = json!({"role": null, "instanceProfile": by_hand.name});
    let class = class_with_pool(&test, "profile-by-hand", change).await?;
    ensure!(profile_of(&class)? == by_hand.name, "{:?}", class.status);
    let instance = launched(&test, "profile-by-hand").await?;
    ensure!(instance.instance_profile.as_deref() == Some(by_hand.arn.as_str()), "{instance:?}");
    ensure!(iam.get_instance_profile(&by_hand.name).await? == before, "`{}` was changed", by_hand.name);
    Ok(())
}

fn profile_of(class: &EC2NodeClass) -> Result<String> {
    let status = class.status.as_ref().context("the class has no status")?;
    status.instance_profile.clone().context("the status names no profile")
}
