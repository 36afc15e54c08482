//! Complete objects for tests to put into an account. A test changes what it is about and leaves the rest.

use crate::Options;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::CapacityReservation;

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
