//! Limits that the EC2 API does not report: branch network interfaces per type, and addresses of one interface.
//!
//! The table is data of the VPC resource controller, the component that attaches branch interfaces; types it
//! does not have get none (spec aws-provider 3.3, 3.11).

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../data/vpc-limits.txt");

static LIMITS: LazyLock<BTreeMap<&'static str, VpcLimits>> =
    LazyLock::new(|| TABLE.lines().filter_map(parse).collect());

/// Limits of one instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VpcLimits {
    /// Branch interfaces for pods with their own security groups; 0 when the type cannot trunk.
    pub branch_interfaces: u32,
    /// IPv4 addresses of one interface, the primary included; 0 when unknown.
    pub ipv4_per_interface: u32,
}

/// The limits of a type; zeros when the table does not have it.
pub(crate) fn vpc_limits(instance_type: &str) -> VpcLimits {
    LIMITS.get(instance_type).copied().unwrap_or_default()
}

fn parse(line: &'static str) -> Option<(&'static str, VpcLimits)> {
    let mut fields = line.split(' ');
    let name = fields.next().filter(|name| !name.starts_with('#'))?;
    let branch_interfaces = fields.next()?.parse().ok()?;
    let ipv4_per_interface = fields.next()?.parse().ok()?;
    Some((name, VpcLimits { branch_interfaces, ipv4_per_interface }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(LIMITS.len(), lines);
        assert!(lines > 1_300);
    }

    #[test]
    fn trunking_follows_the_hardware() {
        assert_eq!(vpc_limits("m5.large"), VpcLimits { branch_interfaces: 9, ipv4_per_interface: 10 });
        assert_eq!(vpc_limits("t3.large").branch_interfaces, 0, "burstable types do not trunk");
        assert_eq!(vpc_limits("none.such"), VpcLimits::default());
    }
}
