//! Destroy and what the controller has not taken away: machines that run keep everything they need, and nothing that is
//! left ends in a half-done removal.

use std::time::Duration;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{
    CapacityKind, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateData, LaunchTemplateQuery,
    LaunchTemplateSpec, OnDemandAllocation, SubnetQuery, TagSpecification, TaggedKind,
};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::{Fault, Options};
use karpenter_bootstrap::Error;
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::leftovers;

use crate::account::{Fixture, lines};

const IMAGE: &str =
    "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id";
const OWN: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;

/// The tags that the controller gives to what it makes.
fn tags() -> Tags {
    [
        ("eks:eks-cluster-name", "demo"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.sh/nodeclaim", "default-1"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// A machine of the cluster, launched from a template of it as the controller would.
pub(crate) async fn launch_machine(fixture: &Fixture) -> InstanceId {
    let ec2 = &fixture.clients.ec2;
    let image = fixture.clients.ssm.get_parameter(IMAGE).await.unwrap();
    let template = LaunchTemplateSpec {
        name: "karpenter.k8s.aws/1".to_owned(),
        client_token: None,
        tags: tags(),
        data: LaunchTemplateData { image: Some(image.into()), ..LaunchTemplateData::default() },
    };
    ec2.create_launch_template(&template).await.unwrap();
    let subnet = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0).id;
    let offering = FleetOverride {
        instance_type: "m5.large".into(),
        subnet,
        zone: None,
        image: None,
        priority_nanos: None,
    };
    let request = FleetRequest {
        client_token: None,
        capacity: CapacityKind::OnDemand(OnDemandAllocation::LowestPrice),
        target: 1,
        configs: vec![FleetConfig { launch_template: template.name, overrides: vec![offering] }],
        tags: vec![TagSpecification { kind: TaggedKind::Instance, tags: tags() }],
        context: None,
    };
    let fleet = ec2.create_fleet(&request).await.unwrap();
    fleet.instance_ids().next().unwrap_or_else(|| panic!("{:?}", fleet.errors)).clone()
}

/// A prepared account in which machines are gone as soon as they are terminated.
pub(crate) async fn quick_to_end() -> Fixture {
    let fixture = Fixture::with(Options { shutdown_delay: Duration::ZERO, ..Options::default() }).await;
    fixture.apply().await.unwrap();
    fixture
}

pub(crate) async fn end(fixture: &Fixture, machine: InstanceId) {
    fixture.clients.ec2.terminate_instances(&[machine]).await.unwrap();
}

/// An instance profile of an EC2NodeClass, with the node role in it.
pub(crate) async fn make_profile(fixture: &Fixture, name: &str) {
    let path = leftovers::profile_path(&fixture.settings);
    make_profile_at(fixture, name, &format!("{path}uid/")).await;
}

async fn make_profile_at(fixture: &Fixture, name: &str, path: &str) {
    let iam = &fixture.clients.iam;
    let profile = InstanceProfileSpec { name: name.to_owned(), path: path.to_owned(), tags: tags() };
    iam.create_instance_profile(&profile).await.unwrap();
    // A stack in memory makes no roles.
    if iam.get_role("KarpenterNodeRole-demo").await.is_ok() {
        iam.add_role_to_instance_profile(name, "KarpenterNodeRole-demo").await.unwrap();
    }
}

fn conflicts(error: Error) -> String {
    match error {
        Error::Conflicts(conflicts) => conflicts.join("\n"),
        other => panic!("{other}"),
    }
}

/// The controller could not end a machine without its role; the Node would be `NotReady` without the access entry.
#[tokio::test(start_paused = true)]
async fn while_machines_run_nothing_is_removed() {
    let fixture = Fixture::prepared().await;
    let machine = launch_machine(&fixture).await;
    let text = conflicts(fixture.destroy().await.unwrap_err());
    assert!(
        text.contains(machine.as_str()) && text.contains("--drain") && text.contains("--force"),
        "{text}"
    );
    for call in ["DeleteRole", "DeletePodIdentityAssociation", "DeleteAccessEntry", "DeleteQueue"] {
        assert_eq!(fixture.account.calls().count(call), 0, "{call}");
    }
    assert!(fixture.plan().await.is_empty(), "the account is as it should be");
    let left = leftovers::observe(&fixture.clients, &fixture.settings).await.unwrap();
    let text = left.text();
    assert!(text.contains("m5.large us-west-2a pending of NodePool default, NodeClaim default-1"), "{text}");
    assert!(
        text.ends_with("1 instance(s), 1 launch template(s), 0 instance profile(s) are left\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn machines_of_other_clusters_and_of_node_groups_are_none_of_ours() {
    let fixture = Fixture::prepared().await;
    let machine = launch_machine(&fixture).await;
    let other = Tags::from([("eks:eks-cluster-name".to_owned(), "other".to_owned())]);
    let ids = [machine.to_string()];
    fixture.clients.ec2.create_tags(&ids, &other).await.unwrap();
    assert!(fixture.plan_to_destroy(InUse::Refuse).await.unwrap().conflicts.is_empty());
    let ours = Tags::from([("eks:eks-cluster-name".to_owned(), "demo".to_owned())]);
    fixture.clients.ec2.create_tags(&ids, &ours).await.unwrap();
    assert!(!fixture.plan_to_destroy(InUse::Refuse).await.unwrap().conflicts.is_empty());
    fixture.clients.ec2.delete_tags(&ids, &["karpenter.sh/nodepool".to_owned()]).await.unwrap();
    assert!(fixture.plan_to_destroy(InUse::Refuse).await.unwrap().conflicts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn by_force_machines_are_left_and_named_and_all_else_goes() {
    let fixture = Fixture::prepared().await;
    let machine = launch_machine(&fixture).await;
    make_profile(&fixture, "class-profile").await;
    let plan = fixture.destroy_although(InUse::Ignore).await.unwrap();
    assert!(
        plan.notes[0].contains(&format!("terminate-instances --instance-ids {machine}")),
        "{:?}",
        plan.notes
    );
    let iam = &fixture.clients.iam;
    assert!(iam.get_role("KarpenterNodeRole-demo").await.is_err());
    assert!(iam.get_instance_profile("class-profile").await.is_err());
    let templates = fixture.clients.ec2.describe_launch_templates(&LaunchTemplateQuery::default()).await;
    assert!(templates.unwrap().is_empty());
    assert_eq!(fixture.account.live_instances().len(), 1);
}

/// IAM deletes no role that a profile holds, so this used to end half-way.
#[tokio::test(start_paused = true)]
async fn profiles_of_node_classes_are_in_the_way_while_there_is_a_cluster() {
    let fixture = Fixture::prepared().await;
    make_profile(&fixture, "class-profile").await;
    let text = conflicts(fixture.destroy().await.unwrap_err());
    assert!(text.contains("class-profile") && text.contains("/karpenter/us-west-2/demo/"), "{text}");
    for call in ["DescribeCluster", "DescribeAddon", "DescribeAccessEntry", "ListPodIdentityAssociations"] {
        fixture.account.inject(Fault::fail(call, "ResourceNotFoundException"));
    }
    let plan = fixture.destroy().await.unwrap();
    let expected = "delete instance profile `class-profile`".to_owned();
    assert!(lines(&plan).contains(&expected), "{:#?}", lines(&plan));
    assert!(fixture.clients.iam.get_role("KarpenterNodeRole-demo").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_profile_of_others_that_holds_our_role_is_in_the_way_even_by_force() {
    let fixture = Fixture::prepared().await;
    make_profile_at(&fixture, "team-profile", "/team/").await;
    for in_use in [InUse::Refuse, InUse::Ignore] {
        let text = conflicts(fixture.destroy_although(in_use).await.unwrap_err());
        assert!(text.contains("team-profile") && text.contains("KarpenterNodeRole-demo"), "{text}");
    }
    assert_eq!(fixture.account.calls().count("DeleteRole"), 0);
    let iam = &fixture.clients.iam;
    iam.remove_role_from_instance_profile("team-profile", "KarpenterNodeRole-demo").await.unwrap();
    fixture.destroy().await.unwrap();
    iam.get_instance_profile("team-profile").await.expect("it is not ours to delete");
}

/// IAM deletes no role that has policies of its own either.
#[tokio::test(start_paused = true)]
async fn policies_written_into_our_roles_go_with_them() {
    let fixture = Fixture::prepared().await;
    for role in ["KarpenterNodeRole-demo", "demo-karpenter"] {
        assert!(fixture.account.put_role_policy(role, "extra", OWN));
    }
    let plan = fixture.destroy().await.unwrap();
    let expected = "change role `demo-karpenter` (delete its own policy extra)".to_owned();
    assert!(lines(&plan).contains(&expected), "{:#?}", lines(&plan));
    for role in ["KarpenterNodeRole-demo", "demo-karpenter"] {
        assert!(fixture.clients.iam.get_role(role).await.is_err(), "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_template_that_was_left_goes_without_asking() {
    let fixture = quick_to_end().await;
    end(&fixture, launch_machine(&fixture).await).await;
    fixture.destroy().await.unwrap();
    let left = leftovers::observe(&fixture.clients, &fixture.settings).await.unwrap();
    assert!(left.is_empty(), "{}", left.text());
}
