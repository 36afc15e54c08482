//! The AWS SDK against the emulated account: every call of the launch path and of the prerequisites, over the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_aws_api::ec2::{
    BlockDevice, CapacityKind, EbsVolume, FleetConfig, FleetOverride, FleetRequest, ImageQuery,
    InstanceQuery, InstanceState, InstanceTypeQuery, LaunchTemplateData, LaunchTemplateQuery,
    LaunchTemplateSpec, Lifecycle, MetadataOptions, NetworkInterface, OnDemandAllocation, SecurityGroupQuery,
    SpotAllocation, SpotPriceQuery, SubnetQuery, TagSpecification, TaggedKind,
};
use karpenter_aws_api::eks::AccessEntrySpec;
use karpenter_aws_api::events::{RuleSpec, Target};
use karpenter_aws_api::iam::{InstanceProfileSpec, RoleSpec};
use karpenter_aws_api::pricing::ProductQuery;
use karpenter_aws_api::sqs::ReceiveOptions;
use karpenter_aws_api::{Clients, Filter, Kind, Secret, Tags};
use karpenter_aws_sdk::{Config, Credentials, Retries, connect};
use karpenter_e2e::account::control::{CapacityRule, Fault, Notice, Seeded};
use karpenter_e2e::account::moto::{MotoAccount, Options};

const CLUSTER: &str = "wire";

async fn account() -> (MotoAccount, Clients, Seeded) {
    let options = Options { cluster: Some(CLUSTER.to_owned()), ..Options::default() };
    let account = MotoAccount::start(options).await.expect("the account starts");
    let config = Config {
        region: Some("us-west-2".to_owned()),
        endpoint_url: Some(account.endpoint().to_owned()),
        credentials: Credentials::Emulator,
        retries: Retries::Never,
        ..Config::default()
    };
    let clients = connect(config).await.expect("the clients are built");
    let seeded = account.seeded().expect("it was asked for").clone();
    (account, clients, seeded)
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn role(aws: &Clients, name: &str) -> karpenter_aws_api::id::Arn {
    let trust = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;
    let spec = RoleSpec {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: "nodes".to_owned(),
        trust: trust.to_owned(),
        permissions_boundary: None,
        tags: Tags::new(),
    };
    aws.iam.create_role(&spec).await.expect("the role is created").arn
}

async fn template(aws: &Clients, seeded: &Seeded, name: &str) {
    let path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = aws.ssm.get_parameter(path).await.expect("the parameter exists");
    let group = seeded.cluster_security_group.as_deref().expect("EKS made it");
    let data = LaunchTemplateData {
        image: Some(image.as_str().into()),
        user_data: Some(Secret::new("#!/bin/sh\necho hello\n")),
        instance_profile: Some("nodes".to_owned()),
        detailed_monitoring: Some(false),
        block_devices: vec![BlockDevice {
            device: Some("/dev/xvda".to_owned()),
            ebs: Some(EbsVolume {
                size_gib: Some(20),
                volume_type: Some("gp3".to_owned()),
                ..EbsVolume::default()
            }),
        }],
        metadata: Some(MetadataOptions {
            http_tokens: Some("required".to_owned()),
            ..MetadataOptions::default()
        }),
        network_interfaces: vec![NetworkInterface {
            security_groups: vec![group.into()],
            associate_public_ip: Some(false),
            ..NetworkInterface::default()
        }],
        ..LaunchTemplateData::default()
    };
    let tags = tags(&[("eks:eks-cluster-name", CLUSTER)]);
    let spec = LaunchTemplateSpec { name: name.to_owned(), client_token: None, tags, data };
    aws.ec2.create_launch_template(&spec).await.expect("the template is created");
}

fn fleet(
    seeded: &Seeded,
    template: &str,
    capacity: CapacityKind,
    token: &str,
    types: &[&str],
) -> FleetRequest {
    let overrides = types.iter().flat_map(|name| {
        seeded.private_subnets.iter().zip(&seeded.zones).map(|(subnet, zone)| FleetOverride {
            instance_type: (*name).into(),
            subnet: subnet.as_str().into(),
            zone: Some(zone.as_str().into()),
            image: None,
            priority_nanos: Some(96_000_000),
        })
    });
    let tags = tags(&[("karpenter.sh/nodepool", "default"), ("eks:eks-cluster-name", CLUSTER)]);
    FleetRequest {
        client_token: Some(token.to_owned()),
        capacity,
        target: 1,
        configs: vec![FleetConfig { launch_template: template.to_owned(), overrides: overrides.collect() }],
        tags: [TaggedKind::Instance, TaggedKind::Volume, TaggedKind::Fleet]
            .map(|kind| TagSpecification { kind, tags: tags.clone() })
            .to_vec(),
        context: None,
    }
}

async fn ready_to_launch(aws: &Clients, seeded: &Seeded, name: &str) {
    role(aws, "nodes").await;
    let profile =
        InstanceProfileSpec { name: "nodes".to_owned(), path: "/karpenter/".to_owned(), tags: Tags::new() };
    aws.iam.create_instance_profile(&profile).await.expect("the profile is created");
    aws.iam.add_role_to_instance_profile("nodes", "nodes").await.expect("the role is added");
    template(aws, seeded, name).await;
}

const LOWEST: CapacityKind = CapacityKind::OnDemand(OnDemandAllocation::LowestPrice);
const SPOT: CapacityKind = CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized);

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one call after the other")]
async fn what_a_controller_reads_before_it_launches() {
    let (account, aws, seeded) = account().await;
    aws.ec2.dry_run_describe_instance_types().await.unwrap();
    let filters = vec![
        Filter::new("supported-virtualization-type", ["hvm"]),
        Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
    ];
    let types =
        aws.ec2.describe_instance_types(&InstanceTypeQuery { types: Vec::new(), filters }).await.unwrap();
    assert!(types.items.len() > 800 && types.skipped.is_empty(), "{:?}", types.skipped);
    let offerings = aws.ec2.describe_instance_type_offerings(&[]).await.unwrap();
    assert!(offerings.items.len() > 3000 && offerings.skipped.is_empty());
    let query = SpotPriceQuery {
        start: jiff::Timestamp::now(),
        products: vec!["Linux/UNIX".to_owned()],
        types: Vec::new(),
    };
    let spot = aws.ec2.describe_spot_price_history(&query).await.unwrap();
    assert!(spot.items.len() > 2000 && spot.skipped.is_empty());
    let attributes = [
        ("regionCode", "us-west-2"),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", "Shared"),
        ("productFamily", "Compute Instance"),
    ];
    let attributes: BTreeMap<_, _> = attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let products = aws.pricing.get_products(&ProductQuery { attributes }).await.unwrap();
    assert!(products.items.len() > 500 && products.skipped.is_empty(), "{:?}", products.skipped);
    let subnets = SubnetQuery {
        ids: seeded.private_subnets.iter().map(|id| id.as_str().into()).collect(),
        ..SubnetQuery::default()
    };
    let subnets = aws.ec2.describe_subnets(&subnets).await.unwrap();
    assert!(
        subnets.iter().all(|subnet| subnet.free_addresses == 16_379 && subnet.zone_id.is_some()),
        "{subnets:?}"
    );
    let groups = SecurityGroupQuery {
        filters: vec![Filter::tag_key("kubernetes.io/cluster/wire")],
        ..SecurityGroupQuery::default()
    };
    let groups = aws.ec2.describe_security_groups(&groups).await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let images = ImageQuery {
        filters: vec![Filter::new("name", ["amazon-eks-node-al2023-x86_64-standard-1.35-*"])],
        owners: vec!["amazon".to_owned()],
        include_deprecated: true,
        ..ImageQuery::default()
    };
    let images = aws.ec2.describe_images(&images).await.unwrap();
    assert!(
        images.items.len() == 2 && images.items.iter().all(|image| image.deprecated_at.is_some()),
        "{images:?}"
    );
    assert_ne!(images.items[0].created_at, images.items[1].created_at);
    let cluster = aws.eks.describe_cluster(CLUSTER).await.unwrap();
    assert_eq!(
        (cluster.version.as_str(), cluster.service_ipv4_cidr.as_deref()),
        ("1.35", Some("10.100.0.0/16"))
    );
    assert_eq!(cluster.cluster_security_group.map(|id| id.to_string()), seeded.cluster_security_group);
    assert_eq!(aws.eks.describe_cluster("gone").await.unwrap_err().kind, Kind::NotFound);
    assert_eq!(aws.eks.describe_addon(CLUSTER, "vpc-cni").await.unwrap().status, "ACTIVE");
    assert!(aws.ec2.describe_capacity_reservations(&Default::default()).await.unwrap().is_empty());
    assert_eq!(aws.sts.get_caller_identity().await.unwrap().account, "123456789012");
    let calls = account.control().calls().await.unwrap();
    assert!(calls.unimplemented.is_empty(), "{:?}", calls.unimplemented);
    account.stop().await.unwrap();
}

#[tokio::test]
async fn the_life_of_an_instance() {
    let (account, aws, seeded) = account().await;
    let name = "karpenter.k8s.aws/1";
    ready_to_launch(&aws, &seeded, name).await;
    let request = fleet(&seeded, name, SPOT, "claim-1", &["m5.large", "m5.xlarge"]);
    aws.ec2.dry_run_create_fleet(&request).await.unwrap();
    let launched = aws.ec2.create_fleet(&request).await.unwrap();
    let again = aws.ec2.create_fleet(&request).await.unwrap();
    assert_eq!(launched, again, "the same token launches once");
    let ids: Vec<_> = launched.instance_ids().cloned().collect();
    assert!(ids.len() == 1 && launched.errors.is_empty(), "{launched:?}");

    let found = InstanceQuery {
        filters: vec![
            Filter::tag_key("karpenter.sh/nodepool"),
            Filter::tag("eks:eks-cluster-name", CLUSTER),
            Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
        ],
        ..InstanceQuery::default()
    };
    let instances = aws.ec2.describe_instances(&found).await.unwrap();
    let instance = &instances[0];
    assert!(instances.len() == 1 && instance.id == ids[0] && instance.state == InstanceState::Running);
    assert_eq!(instance.lifecycle, Some(Lifecycle::Spot));
    assert!(instance.zone_id.is_some() && instance.spot_request.is_some(), "{instance:?}");
    assert!(instance.instance_profile.as_deref().is_some_and(|arn| arn.ends_with("/karpenter/nodes")));
    assert_eq!(instance.tags["aws:ec2:fleet-id"], launched.id.to_string());
    let user_data =
        aws.ec2.describe_user_data(&ids[0]).await.unwrap().expect("it was launched with user data");
    assert_eq!(user_data.expose(), "#!/bin/sh\necho hello\n");
    aws.ec2.create_tags(&[ids[0].to_string()], &tags(&[("Name", "node")])).await.unwrap();
    assert_eq!(
        aws.ec2.create_tags(&["i-00000000000000000".into()], &tags(&[("a", "b")])).await.unwrap_err().kind,
        Kind::NotFound
    );

    account.control().impair(ids[0].as_str(), &["system"], jiff::Timestamp::now()).await.unwrap();
    let sick =
        aws.ec2.describe_instance_status(&[Filter::new("system-status.status", ["impaired"])]).await.unwrap();
    assert_eq!(sick.len(), 1, "{sick:?}");
    let changes = aws.ec2.terminate_instances(&ids).await.unwrap();
    assert_eq!(changes.len(), 1);
    assert!(aws.ec2.describe_instances(&found).await.unwrap().is_empty());

    let templates = LaunchTemplateQuery {
        filters: vec![Filter::tag("eks:eks-cluster-name", CLUSTER)],
        ..LaunchTemplateQuery::default()
    };
    assert_eq!(aws.ec2.describe_launch_templates(&templates).await.unwrap().len(), 1);
    aws.ec2.delete_launch_template(name).await.unwrap();
    assert_eq!(aws.ec2.delete_launch_template(name).await.unwrap_err().kind, Kind::NotFound);
    let error =
        aws.ec2.create_fleet(&fleet(&seeded, name, LOWEST, "claim-2", &["m5.large"])).await.unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (Kind::NotFound, Some("InvalidLaunchTemplateName.NotFoundException"))
    );
    account.stop().await.unwrap();
}

#[tokio::test]
async fn trouble_arrives_as_the_kinds_of_error_it_is() {
    let (account, aws, seeded) = account().await;
    let (name, control) = ("karpenter.k8s.aws/1", account.control());
    ready_to_launch(&aws, &seeded, name).await;
    control
        .limit_capacity(&CapacityRule { instance_type: Some("m5.large".into()), ..CapacityRule::default() })
        .await
        .unwrap();
    let none = aws.ec2.create_fleet(&fleet(&seeded, name, LOWEST, "a", &["m5.large"])).await.unwrap();
    assert!(none.instances.is_empty() && none.errors.len() == 3, "{none:?}");
    assert!(none.errors.iter().all(|error| error.code == "InsufficientInstanceCapacity"));
    for (code, kind) in [
        ("RequestLimitExceeded", Kind::Throttled),
        ("UnauthorizedOperation", Kind::Denied),
        ("InternalError", Kind::Transient),
    ] {
        control.fail(&Fault::new("CreateFleet", code, 1)).await.unwrap();
        let error =
            aws.ec2.create_fleet(&fleet(&seeded, name, LOWEST, code, &["m5.xlarge"])).await.unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(code)));
    }
    aws.iam.create_service_linked_role("spot.amazonaws.com").await.unwrap();
    assert_eq!(
        aws.iam.create_service_linked_role("spot.amazonaws.com").await.unwrap_err().kind,
        Kind::AlreadyExists
    );
    assert_eq!(aws.iam.get_role("gone").await.unwrap_err().kind, Kind::NotFound);
    assert_eq!(aws.ssm.get_parameter("/gone").await.unwrap_err().kind, Kind::NotFound);
    assert_eq!(aws.sqs.get_queue_url("gone").await.unwrap_err().kind, Kind::NotFound);
    let ours = aws.iam.list_instance_profiles("/karpenter/").await.unwrap();
    assert_eq!(ours.len(), 1);
    assert!(aws.iam.list_instance_profiles("/other/").await.unwrap().is_empty());
    account.stop().await.unwrap();
}

#[tokio::test]
async fn notices_reach_the_queue_through_the_rules() {
    let (account, aws, seeded) = account().await;
    let name = "karpenter.k8s.aws/1";
    ready_to_launch(&aws, &seeded, name).await;
    let node = role(&aws, "node").await;
    let entry = AccessEntrySpec { principal: node.clone(), kind: "EC2_LINUX".to_owned(), tags: Tags::new() };
    aws.eks.create_access_entry(CLUSTER, &entry).await.unwrap();
    assert_eq!(aws.eks.list_access_entries(CLUSTER).await.unwrap(), std::slice::from_ref(&node));
    assert_eq!(aws.eks.create_access_entry(CLUSTER, &entry).await.unwrap_err().kind, Kind::Conflict);

    let queue = aws.sqs.create_queue(CLUSTER, &BTreeMap::new(), &Tags::new()).await.unwrap();
    let arn = aws.sqs.get_queue_attributes(&queue).await.unwrap()["QueueArn"].clone();
    let pattern = r#"{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}"#;
    let rule = RuleSpec {
        name: "spot".to_owned(),
        description: String::new(),
        pattern: pattern.to_owned(),
        tags: Tags::new(),
    };
    aws.events.put_rule(&rule).await.unwrap();
    aws.events
        .put_targets("spot", &[Target { id: "queue".to_owned(), arn: arn.as_str().into() }])
        .await
        .unwrap();
    let launched = aws.ec2.create_fleet(&fleet(&seeded, name, SPOT, "claim", &["m5.large"])).await.unwrap();
    let id = launched.instance_ids().next().unwrap().to_string();
    account.control().notify(Notice::SpotInterruption, "us-west-2", &id, Some(Duration::ZERO)).await.unwrap();
    let options = ReceiveOptions { wait: Duration::from_secs(5), ..ReceiveOptions::default() };
    let mut messages = Vec::new();
    while messages.is_empty() {
        messages = aws.sqs.receive_messages(&queue, options).await.unwrap();
    }
    let body: serde_json::Value = serde_json::from_str(&messages[0].body).unwrap();
    assert_eq!((messages.len(), body["detail"]["instance-id"].as_str()), (1, Some(id.as_str())));
    assert_eq!(
        (body["account"].as_str(), body["region"].as_str()),
        (Some("123456789012"), Some("us-west-2"))
    );
    aws.sqs.delete_message(&queue, &messages[0].receipt).await.unwrap();
    let gone = InstanceQuery { ids: vec![id.as_str().into()], ..InstanceQuery::default() };
    assert_eq!(aws.ec2.describe_instances(&gone).await.unwrap()[0].state, InstanceState::Terminated);
    account.stop().await.unwrap();
}
