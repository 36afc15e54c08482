//! Complete objects for tests to put into an account. A test changes what it is about and leaves the rest.

use crate::Options;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::CapacityReservation;
use karpenter_aws_api::iam::{PolicySpec, RoleSpec};

/// Lets EC2 instances take a role.
const TRUST: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;

/// A role that EC2 instances may take.
pub fn role(name: &str) -> RoleSpec {
    RoleSpec {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        trust: TRUST.to_owned(),
        permissions_boundary: None,
        tags: Tags::new(),
    }
}

/// A policy with this document.
pub fn policy(name: &str, document: &str) -> PolicySpec {
    PolicySpec {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        document: document.to_owned(),
        tags: Tags::new(),
    }
}

/// An active, targeted reservation of two `m5.large` in the first zone of a default account; both can be had.
pub fn capacity_reservation(id: &str) -> CapacityReservation {
    let Options { account, region, .. } = Options::default();
    CapacityReservation {
        id: id.into(),
        owner: account,
        instance_type: "m5.large".into(),
        zone: format!("{region}a").as_str().into(),
        match_criteria: "targeted".to_owned(),
        kind: None,
        state: "active".to_owned(),
        total: 2,
        available: 2,
        ends_at: None,
        interruptible: None,
        platform: Some("Linux/UNIX".to_owned()),
        tenancy: Some("default".to_owned()),
        tags: Tags::new(),
    }
}
