//! The recording in `src/aws-controllers/recorded`, and how it gets into a cluster and an account.
//!
//! Missing parts are derived from recorded ones: images and their parameters from the status of the node classes,
//! instance types from the labels of the claims, instance profiles from the instances. The account sells the recorded types
//! and no others, so that no node can be replaced by a cheaper one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use karpenter_aws::Settings;
use karpenter_aws_api::ec2::{
    Architecture, BlockDevice, CapacityReservationPreference, CapacityReservationTarget, EbsOptimized,
    EbsVolume, Image, ImageState, Instance, InstanceInterface, InstanceState, InstanceTypeInfo,
    InterfaceKind, LaunchTemplate, LaunchTemplateData, MetadataOptions, NetworkCard, NetworkInterface,
    Placement, SecurityGroup, Subnet, TagSpecification, TaggedKind, Tenancy, UsageClass,
};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_aws_api::id::{SecurityGroupId, Zone};
use karpenter_aws_api::{Secret, Tags};
use karpenter_aws_sim::{Account, Options, Range};
use karpenter_kube_sim::apiserver::ApiServer;
use serde_json::Value;

use crate::world::create_role;

/// The name of the recorded cluster.
pub(crate) const CLUSTER: &str = "karpenter-e2e";

/// The role of its nodes.
const ROLE: &str = "KarpenterNodeRole-karpenter-e2e";

/// The zones of its subnets.
pub(crate) const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];

/// Facts that the labels of the recorded types lack: the price of an hour on-demand, in millionths of a dollar, the number
/// of interfaces, and the number of addresses of each.
pub(crate) const TYPES: [(&str, u64, u32, u32); 4] = [
    ("c6i.4xlarge", 680_000, 8, 30),
    ("m6g.2xlarge", 308_000, 4, 15),
    ("m6i.2xlarge", 384_000, 4, 15),
    ("m7g.2xlarge", 326_400, 4, 15),
];

/// Everything that was recorded.
pub(crate) struct Recording {
    pub(crate) nodes: Vec<Value>,
    pub(crate) claims: Vec<Value>,
    pub(crate) pools: Vec<Value>,
    pub(crate) classes: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) instances: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    subnets: Vec<Value>,
    groups: Vec<Value>,
}

impl Recording {
    pub(crate) fn read() -> Self {
        let list = |text: &str, pointer: &str| -> Vec<Value> {
            let whole: Value = serde_json::from_str(text).unwrap();
            whole.pointer(pointer).and_then(Value::as_array).expect("a list").clone()
        };
        Self {
            nodes: list(include_str!("../../../recorded/nodes.json"), "/items"),
            claims: list(include_str!("../../../recorded/nodeclaims.json"), "/items"),
            pools: list(include_str!("../../../recorded/nodepools.json"), "/items"),
            classes: list(include_str!("../../../recorded/ec2nodeclasses.json"), "/items"),
            pods: list(include_str!("../../../recorded/pods.json"), "/items"),
            instances: list(include_str!("../../../recorded/instances.json"), ""),
            templates: list(include_str!("../../../recorded/launch-templates.json"), ""),
            subnets: list(include_str!("../../../recorded/subnets.json"), "/Subnets"),
            groups: list(include_str!("../../../recorded/security-groups.json"), "/SecurityGroups"),
        }
    }

    /// An account for the recorded one: of the same names, and nothing to buy.
    pub(crate) fn options() -> Options {
        Options {
            zones: 3,
            instance_types: Range::Count(0),
            cluster: CLUSTER.to_owned(),
            kubernetes_version: "1.35".to_owned(),
            ..Options::default()
        }
    }

    /// Settings that the reference's controller was started with.
    pub(crate) fn settings(&self) -> Settings {
        let script = self.templates.iter().map(user_data).find(|text| text.contains("NodeConfig")).unwrap();
        let found = |key: &str| {
            let line = script.lines().find_map(|line| line.trim().strip_prefix(key));
            line.expect("the node configuration says it").trim().to_owned()
        };
        Settings {
            cluster_ca_bundle: Some(found("certificateAuthority:")),
            kube_dns_ip: Some("10.100.0.10".to_owned()),
            ..Settings::new(CLUSTER, &found("apiServerEndpoint:"))
        }
    }

    /// Puts what the reference launched on into the account: network, images, role, types.
    pub(crate) async fn seed(&self, account: &Account) {
        create_role(account, ROLE).await;
        hide_network(account).await;
        for subnet in &self.subnets {
            account.put_subnet(subnet_of(subnet));
        }
        for group in &self.groups {
            account.put_security_group(SecurityGroup {
                id: text(group, "/GroupId").into(),
                name: text(group, "/GroupName").to_owned(),
                vpc: Some(text(group, "/VpcId").into()),
                tags: tags(group),
            });
        }
        for class in &self.classes {
            for (position, image) in (0..).zip(class["status"]["amis"].as_array().unwrap()) {
                publish(account, image, position);
            }
        }
        for claim in &self.claims {
            let labels = &claim["metadata"]["labels"];
            let name = labels["node.kubernetes.io/instance-type"].as_str().unwrap();
            let (_, micros, interfaces, addresses) =
                *TYPES.iter().find(|(known, ..)| *known == name).unwrap();
            account.sell(
                type_of(labels, interfaces, addresses),
                &ZONES.map(Zone::from),
                micros * 1000,
                micros * 350,
            );
        }
    }

    /// Puts what the reference launched into the account: profiles, templates, instances.
    pub(crate) async fn launch(&self, account: &Account) {
        for instance in &self.instances {
            make_profile(account, text(instance, "/IamInstanceProfile/Arn")).await;
        }
        for template in &self.templates {
            account.put_launch_template(summary_of(template), data_of(template));
        }
        for instance in &self.instances {
            let id = instance_tag(instance, "aws:ec2launchtemplate:id");
            let template = self.templates.iter().find(|one| text(one, "/template/LaunchTemplateId") == id);
            account.put_instance(instance_of(instance), template.map(user_data).map(Secret::new));
        }
    }

    /// Puts every object into the API server as it was.
    pub(crate) fn restore(&self, server: &ApiServer) {
        for object in self.objects() {
            server.restore(object).unwrap();
        }
    }

    /// Every recorded object of the cluster.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> {
        [&self.classes, &self.pools, &self.claims, &self.nodes, &self.pods].into_iter().flatten()
    }
}

/// Text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no text at {pointer} in {value}"))
}

/// The value of a tag of a recorded instance.
pub(crate) fn instance_tag(instance: &Value, key: &str) -> String {
    tags(instance).remove(key).unwrap_or_else(|| panic!("no tag {key}"))
}

/// The user data of a recorded template, decoded.
pub(crate) fn user_data(template: &Value) -> String {
    let encoded = text(template, "/version/LaunchTemplateData/UserData");
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

/// `Tags` as AWS lists them.
pub(crate) fn tags(of: &Value) -> Tags {
    let list = of["Tags"].as_array().unwrap();
    list.iter().map(|tag| (text(tag, "/Key").to_owned(), text(tag, "/Value").to_owned())).collect()
}

/// The network that every account in memory starts with is not one of this cluster.
async fn hide_network(account: &Account) {
    let ec2 = account.clients().ec2;
    for subnet in ec2.describe_subnets(&Default::default()).await.unwrap() {
        account.put_subnet(Subnet { tags: Tags::new(), ..subnet });
    }
    for group in ec2.describe_security_groups(&Default::default()).await.unwrap() {
        account.put_security_group(SecurityGroup { tags: Tags::new(), ..group });
    }
}

fn subnet_of(subnet: &Value) -> Subnet {
    Subnet {
        id: text(subnet, "/SubnetId").into(),
        vpc: text(subnet, "/VpcId").into(),
        zone: text(subnet, "/AvailabilityZone").into(),
        zone_id: Some(text(subnet, "/AvailabilityZoneId").into()),
        free_addresses: number(&subnet["AvailableIpAddressCount"]),
        cidr: text(subnet, "/CidrBlock").to_owned(),
        public_by_default: subnet["MapPublicIpOnLaunch"] == true,
        tags: tags(subnet),
    }
}

/// The image and the parameter that names it. The status lists newer images first, so a later one is older.
fn publish(account: &Account, image: &Value, position: i64) {
    let (id, name) = (text(image, "/id"), text(image, "/name"));
    let newest: Timestamp = "2026-02-10T00:00:00Z".parse().unwrap();
    let architecture = if name.contains("arm64") { "arm64" } else { "x86_64" };
    account.put_image(Image {
        id: id.into(),
        name: name.to_owned(),
        owner: "602401143452".to_owned(),
        architecture: Architecture::from(architecture),
        created_at: newest.saturating_sub(SignedDuration::from_mins(position)).unwrap(),
        deprecated_at: None,
        state: ImageState::Available,
        root_device: Some("/dev/xvda".to_owned()),
        tags: Tags::new(),
    });
    let parameter = if let Some(rest) = name.strip_prefix("amazon-eks-node-al2023-") {
        let variant = rest.split('-').nth(1).unwrap();
        format!(
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{architecture}/{variant}/recommended/image_id"
        )
    } else {
        let suffix = if name.contains("nvidia") { "-nvidia" } else { "" };
        format!("/aws/service/bottlerocket/aws-k8s-1.35{suffix}/{architecture}/latest/image_id")
    };
    account.put_parameter(&parameter, id);
}

/// The type as its labels describe it.
fn type_of(labels: &Value, interfaces: u32, addresses: u32) -> InstanceTypeInfo {
    let label = |key: &str| labels[format!("karpenter.k8s.aws/instance-{key}")].as_str().unwrap();
    let count = |key: &str| label(key).parse::<u32>().unwrap();
    let arm = labels["kubernetes.io/arch"] == "arm64";
    InstanceTypeInfo {
        name: labels["node.kubernetes.io/instance-type"].as_str().unwrap().into(),
        architectures: vec![if arm { Architecture::Arm64 } else { Architecture::X86_64 }],
        usage_classes: vec![UsageClass::OnDemand, UsageClass::Spot],
        vcpus: count("cpu"),
        memory_mib: count("memory").into(),
        hypervisor: label("hypervisor").to_owned(),
        bare_metal: false,
        current_generation: true,
        burstable: false,
        processor_manufacturer: Some(label("cpu-manufacturer").to_owned()),
        sustained_clock_mhz: Some(count("cpu-sustained-clock-speed-mhz")),
        processor_features: Vec::new(),
        network_cards: vec![NetworkCard {
            index: 0,
            maximum_network_interfaces: interfaces,
            baseline_mbps: Some(count("network-bandwidth")),
        }],
        default_network_card: 0,
        maximum_network_interfaces: interfaces,
        ipv4_addresses_per_interface: addresses,
        ipv6_addresses_per_interface: addresses,
        ena_support: "required".to_owned(),
        maximum_efa_interfaces: 0,
        encryption_in_transit: label("encryption-in-transit-supported") == "true",
        ebs_optimized: Some(EbsOptimized {
            support: "default".to_owned(),
            maximum_bandwidth_mbps: Some(count("ebs-bandwidth")),
        }),
        instance_storage: None,
        gpus: Vec::new(),
        neuron_devices: Vec::new(),
        inference_accelerators: Vec::new(),
        placement_strategies: vec!["cluster".to_owned(), "partition".to_owned(), "spread".to_owned()],
        nitro_enclaves: true,
    }
}

/// The profile with this ARN, with the role of the nodes.
async fn make_profile(account: &Account, arn: &str) {
    let (path, name) = arn.split_once(":instance-profile").unwrap().1.rsplit_once('/').unwrap();
    let iam = account.clients().iam;
    if iam.get_instance_profile(name).await.is_ok() {
        return;
    }
    let spec = InstanceProfileSpec { name: name.to_owned(), path: format!("{path}/"), tags: Tags::new() };
    iam.create_instance_profile(&spec).await.unwrap();
    iam.add_role_to_instance_profile(name, ROLE).await.unwrap();
}

/// A recorded template as the account lists it.
pub(crate) fn summary_of(template: &Value) -> LaunchTemplate {
    let summary = &template["template"];
    LaunchTemplate {
        id: text(summary, "/LaunchTemplateId").into(),
        name: text(summary, "/LaunchTemplateName").to_owned(),
        latest_version: summary["LatestVersionNumber"].as_u64().unwrap(),
        created_at: text(summary, "/CreateTime").parse().unwrap(),
        tags: tags(summary),
    }
}

/// The content of a recorded template.
pub(crate) fn data_of(template: &Value) -> LaunchTemplateData {
    let data = &template["version"]["LaunchTemplateData"];
    let list = |key: &str| data[key].as_array().unwrap();
    let metadata = |key: &str| data["MetadataOptions"][key].as_str().map(str::to_owned);
    LaunchTemplateData {
        image: data["ImageId"].as_str().map(Into::into),
        user_data: Some(Secret::new(user_data(template))),
        instance_profile: data["IamInstanceProfile"]["Name"].as_str().map(str::to_owned),
        detailed_monitoring: data["Monitoring"]["Enabled"].as_bool(),
        block_devices: list("BlockDeviceMappings").iter().map(block_device).collect(),
        metadata: Some(MetadataOptions {
            http_endpoint: metadata("HttpEndpoint"),
            http_protocol_ipv6: metadata("HttpProtocolIpv6"),
            http_put_response_hop_limit: Some(number(&data["MetadataOptions"]["HttpPutResponseHopLimit"])),
            http_tokens: metadata("HttpTokens"),
            instance_metadata_tags: metadata("InstanceMetadataTags"),
        }),
        network_interfaces: list("NetworkInterfaces")
            .iter()
            .map(|interface| NetworkInterface {
                device: number(&interface["DeviceIndex"]),
                security_groups: ids(&interface["Groups"]),
                ..NetworkInterface::default()
            })
            .collect(),
        tags: list("TagSpecifications")
            .iter()
            .map(|one| TagSpecification { kind: tagged(text(one, "/ResourceType")), tags: tags(one) })
            .collect(),
        placement: Some(Placement { tenancy: Some(Tenancy::Default), ..Placement::default() }),
        enclave: data["EnclaveOptions"]["Enabled"].as_bool(),
        capacity_reservation: Some(CapacityReservationTarget {
            preference: CapacityReservationPreference::None,
            id: None,
        }),
        ..LaunchTemplateData::default()
    }
}

fn block_device(device: &Value) -> BlockDevice {
    BlockDevice {
        device: device["DeviceName"].as_str().map(str::to_owned),
        ebs: Some(EbsVolume {
            encrypted: device["Ebs"]["Encrypted"].as_bool(),
            size_gib: Some(number(&device["Ebs"]["VolumeSize"])),
            volume_type: device["Ebs"]["VolumeType"].as_str().map(str::to_owned),
            ..EbsVolume::default()
        }),
    }
}

fn tagged(kind: &str) -> TaggedKind {
    match kind {
        "network-interface" => TaggedKind::NetworkInterface,
        "spot-instances-request" => TaggedKind::SpotInstancesRequest,
        other => panic!("no template tags a {other}"),
    }
}

/// A recorded instance as the account describes it.
pub(crate) fn instance_of(instance: &Value) -> Instance {
    let subnet = text(instance, "/SubnetId");
    let groups: Vec<SecurityGroupId> = instance["SecurityGroups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| text(group, "/GroupId").into())
        .collect();
    Instance {
        id: text(instance, "/InstanceId").into(),
        instance_type: text(instance, "/InstanceType").into(),
        image: text(instance, "/ImageId").into(),
        state: InstanceState::parse(text(instance, "/State/Name")).unwrap(),
        zone: text(instance, "/Placement/AvailabilityZone").into(),
        zone_id: Some(text(instance, "/Placement/AvailabilityZoneId").into()),
        tenancy: Tenancy::Default,
        placement_group: None,
        partition: None,
        lifecycle: instance["InstanceLifecycle"].as_str().map(Into::into),
        spot_request: instance["SpotInstanceRequestId"].as_str().map(str::to_owned),
        reservation: None,
        reservation_preference: Some(CapacityReservationPreference::None),
        launched_at: text(instance, "/LaunchTime").parse().unwrap(),
        subnet: Some(subnet.into()),
        vpc: Some(text(instance, "/VpcId").into()),
        interfaces: vec![InstanceInterface {
            kind: Some(InterfaceKind::Interface),
            subnet: Some(subnet.into()),
            security_groups: groups.clone(),
        }],
        security_groups: groups,
        private_dns: instance["PrivateDnsName"].as_str().map(str::to_owned),
        private_ip: instance["PrivateIpAddress"].as_str().map(str::to_owned),
        instance_profile: Some(text(instance, "/IamInstanceProfile/Arn").to_owned()),
        tags: tags(instance),
    }
}

fn ids<T: for<'a> From<&'a str>>(list: &Value) -> Vec<T> {
    list.as_array().unwrap().iter().map(|id| id.as_str().unwrap().into()).collect()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}
