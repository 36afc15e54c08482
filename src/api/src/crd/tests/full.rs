//! One object of each kind with every field set, built from the Rust types, so that a field added on one
//! side only is noticed. Free map keys are `{}`.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_model::DisruptionReason;
use serde_json::Value;

use crate::ec2nodeclass as ec2;
use crate::nodeclaim::ClaimResources;
use crate::nodepool::{Budget, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMetadata};
use crate::*;

#[expect(clippy::unnecessary_wraps, reason = "every use is a field that may be absent")]
fn map<V>(value: V) -> Option<std::collections::BTreeMap<String, V>> {
    Some([("{}".to_owned(), value)].into())
}

#[expect(clippy::unnecessary_wraps, reason = "every use is a field that may be absent")]
fn text() -> Option<String> {
    Some("x".to_owned())
}

fn now() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}

#[expect(clippy::unnecessary_wraps, reason = "every use is a field that may be absent")]
fn taints() -> Option<Vec<Taint>> {
    Some(vec![Taint { key: "k".into(), effect: "NoSchedule".into(), value: text(), time_added: Some(now()) }])
}

fn requirements() -> Vec<Requirement> {
    vec![Requirement { min_values: Some(1), ..Requirement::new("k", Operator::In, ["v"]) }]
}

fn reference() -> NodeClassRef {
    NodeClassRef { group: "g".into(), kind: "k".into(), name: "n".into() }
}

fn conditions() -> Vec<Condition> {
    vec![Condition {
        kind: "Ready".into(),
        status: ConditionStatus::True,
        last_transition_time: now(),
        reason: "r".into(),
        message: "m".into(),
        observed_generation: Some(1),
    }]
}

pub(super) fn node_pool() -> Value {
    let spec = NodePoolSpec {
        template: NodeClaimTemplate {
            metadata: Some(TemplateMetadata { labels: map("v".into()), annotations: map("v".into()) }),
            spec: NodeClaimTemplateSpec {
                taints: taints(),
                startup_taints: taints(),
                requirements: requirements(),
                node_class_ref: reference(),
                termination_grace_period: Some("1h".into()),
                expire_after: NillableDuration::never(),
            },
        },
        disruption: Disruption {
            budgets: vec![Budget {
                reasons: Some(vec![DisruptionReason::Drifted]),
                schedule: text(),
                duration: Some("1h".into()),
                ..Budget::default()
            }],
            ..Disruption::default()
        },
        limits: map("1".into()),
        weight: Some(1),
        replicas: Some(1),
    };
    let status = NodePoolStatus {
        resources: map(1.into()),
        nodes: 1,
        node_class_observed_generation: Some(1),
        conditions: conditions(),
    };
    serde_json::to_value(NodePool { status: Some(status), ..NodePool::new("x", spec) }).unwrap()
}

pub(super) fn node_claim() -> Value {
    let spec = NodeClaimSpec {
        taints: taints(),
        startup_taints: taints(),
        requirements: requirements(),
        resources: Some(ClaimResources { requests: map("1".into()) }),
        node_class_ref: reference(),
        termination_grace_period: Some("1h".into()),
        expire_after: NillableDuration::never(),
    };
    let status = NodeClaimStatus {
        node_name: text(),
        provider_id: text(),
        image_id: text(),
        capacity: map("1".into()),
        allocatable: map("1".into()),
        conditions: conditions(),
        last_pod_event_time: Some(now()),
    };
    serde_json::to_value(NodeClaim { status: Some(status), ..NodeClaim::new("x", spec) }).unwrap()
}

pub(super) fn node_overlay() -> Value {
    let spec = NodeOverlaySpec {
        requirements: vec![Requirement::new("k", Operator::In, ["v"])],
        price_adjustment: text(),
        price: text(),
        capacity: map("1".into()),
        weight: Some(1),
    };
    let status = NodeOverlayStatus { conditions: conditions() };
    serde_json::to_value(NodeOverlay { status: Some(status), ..NodeOverlay::new("x", spec) }).unwrap()
}

pub(super) fn ec2_node_class() -> Value {
    let class = EC2NodeClass { status: Some(ec2_status()), ..EC2NodeClass::new("x", ec2_spec()) };
    serde_json::to_value(class).unwrap()
}

fn ec2_spec() -> Ec2NodeClassSpec {
    let tags = || map("v".to_owned());
    Ec2NodeClassSpec {
        subnet_selector_terms: vec![ec2::SubnetSelectorTerm { tags: tags(), id: text() }],
        security_group_selector_terms: vec![ec2::SecurityGroupSelectorTerm {
            tags: tags(),
            id: text(),
            name: text(),
        }],
        capacity_reservation_selector_terms: Some(vec![ec2::CapacityReservationSelectorTerm {
            tags: tags(),
            id: text(),
            owner_id: text(),
            instance_match_criteria: Some(ec2::ReservationMatch::Open),
        }]),
        placement_group_selector: Some(ec2::PlacementGroupSelector { name: text(), id: text() }),
        associate_public_ip_address: Some(true),
        ip_prefix_count: Some(1),
        ami_selector_terms: vec![ec2::AmiSelectorTerm {
            alias: text(),
            tags: tags(),
            id: text(),
            name: text(),
            owner: text(),
            ssm_parameter: text(),
        }],
        ami_family: Some(ec2::AmiFamily::Custom),
        user_data: text(),
        role: text(),
        instance_profile: text(),
        tags: tags(),
        // Any object.
        kubelet: Some(ec2::KubeletBlock::default()),
        block_device_mappings: Some(vec![ec2::BlockDeviceMapping {
            device_name: text(),
            ebs: Some(block_device()),
            root_volume: true,
        }]),
        instance_store_policy: Some(ec2::InstanceStorePolicy::RAID0),
        network_interfaces: Some(vec![ec2::NetworkInterface {
            network_card_index: 0,
            device_index: 0,
            interface_type: ec2::InterfaceType::Interface,
        }]),
        detailed_monitoring: Some(true),
        metadata_options: Some(ec2::MetadataOptions {
            http_endpoint: Some(ec2::Toggle::Enabled),
            http_protocol_ipv6: Some(ec2::Toggle::Disabled),
            http_put_response_hop_limit: Some(1),
            http_tokens: Some(ec2::TokenState::Required),
        }),
        connection_tracking: Some(ec2::ConnectionTracking {
            tcp_established_timeout: Some(60),
            udp_stream_timeout: Some(60),
            udp_timeout: Some(30),
        }),
        context: text(),
        cpu_options: Some(ec2::CpuOptions { nested_virtualization: Some(ec2::Toggle::Enabled) }),
        enclave_options: Some(ec2::EnclaveOptions { enabled: true }),
    }
}

fn block_device() -> ec2::BlockDevice {
    ec2::BlockDevice {
        delete_on_termination: Some(true),
        encrypted: Some(true),
        iops: Some(1),
        kms_key_id: text(),
        snapshot_id: text(),
        throughput: Some(1),
        volume_initialization_rate: Some(100),
        volume_size: Some("1Gi".into()),
        volume_type: Some(ec2::VolumeType::Gp3),
    }
}

fn ec2_status() -> Ec2NodeClassStatus {
    Ec2NodeClassStatus {
        subnets: vec![ec2::Subnet { id: "x".into(), zone: "x".into(), zone_id: text() }],
        security_groups: vec![ec2::SecurityGroup { id: "x".into(), name: text() }],
        capacity_reservations: vec![ec2::CapacityReservation {
            availability_zone: "x".into(),
            end_time: Some(now()),
            id: "cr-1".into(),
            instance_match_criteria: ec2::ReservationMatch::Open,
            instance_type: "x".into(),
            owner_id: "x".into(),
            reservation_type: ec2::ReservationType::Default,
            interruptible: true,
            state: ec2::ReservationState::Active,
        }],
        amis: vec![ec2::Ami {
            id: "x".into(),
            deprecated: true,
            name: text(),
            requirements: vec![Requirement::new("k", Operator::In, ["v"])],
        }],
        instance_profile: text(),
        conditions: conditions(),
    }
}
