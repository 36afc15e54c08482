//! The cluster itself, the spot role, and what nodes are launched into.

use std::collections::BTreeSet;

use karpenter_aws_api::Tags;

use super::Findings;
use crate::desired::DISCOVERY_TAG;
use crate::observe::{Observed, SPOT_ROLE};
use crate::settings::{Selection, Settings};

/// The cluster is active, spot instances can be launched.
pub(super) fn check(settings: &Settings, observed: &Observed, findings: &mut Findings) {
    let status = observed.cluster.as_ref().map_or("gone", |cluster| cluster.status.as_str());
    let evidence = format!("cluster `{}` is {status}", settings.cluster);
    if status == "ACTIVE" {
        findings.ready("cluster", evidence);
    } else {
        findings.missing("cluster", evidence, "wait until EKS says ACTIVE".to_owned());
    }
    if observed.spot_role {
        findings.ready("spot-role", format!("role `{SPOT_ROLE}` exists"));
    } else {
        findings.warn(
            "spot-role",
            format!("role `{SPOT_ROLE}` does not exist: no spot instance can be launched"),
            "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com".to_owned(),
        );
    }
}

/// Subnets and one security group carry the tag that node classes conventionally select by (spec aws-operations 1.8).
/// Node classes may select by something else, so nothing here is more than a warning.
pub(super) fn discovery(settings: &Settings, observed: &Observed, findings: &mut Findings) {
    if settings.selection == Selection::ByOthers {
        return findings.ready("subnets", "node classes select by something else than our tag".to_owned());
    }
    let carries = |tags: &Tags| tags.get(DISCOVERY_TAG) == Some(&settings.cluster);
    let tag = format!("{DISCOVERY_TAG}={}", settings.cluster);
    let zones: BTreeSet<_> = observed
        .subnets
        .iter()
        .filter(|subnet| carries(&subnet.tags))
        .map(|subnet| subnet.zone.to_string())
        .collect();
    // A tag that another cluster's node classes select by must not be taken over.
    let ids: Vec<_> = observed
        .subnets
        .iter()
        .filter(|subnet| !subnet.tags.contains_key(DISCOVERY_TAG))
        .map(|subnet| subnet.id.to_string())
        .collect();
    let tag_them = |ids: &str| {
        format!("aws ec2 create-tags --tags Key={DISCOVERY_TAG},Value={} --resources {ids}", settings.cluster)
    };
    let listed = zones.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match zones.len() {
        0 if ids.is_empty() && !observed.subnets.is_empty() => findings.warn(
            "subnets",
            format!("no subnet carries {tag}, all are tagged for other clusters"),
            "select subnets by id in the node classes, or by a tag of your own".to_owned(),
        ),
        0 => findings.warn("subnets", format!("no subnet carries {tag}"), tag_them(&ids.join(" "))),
        1 => findings.warn(
            "subnets",
            format!("only subnets in {listed} carry {tag}"),
            "tag subnets in a second zone, or nodes have nowhere to go when this one is full".to_owned(),
        ),
        _ => findings.ready("subnets", format!("subnets in {listed} carry {tag}")),
    }
    let groups: Vec<_> =
        observed.security_groups.iter().filter(|group| carries(&group.tags)).map(|group| &group.id).collect();
    match groups.as_slice() {
        [group] => findings.ready("security-group", format!("{group} carries {tag}")),
        [] => {
            let mut free =
                observed.security_groups.iter().filter(|group| !group.tags.contains_key(DISCOVERY_TAG));
            let group = free.next().map_or("<group>", |group| group.id.as_str());
            findings.warn("security-group", format!("no security group carries {tag}"), tag_them(group));
        }
        several => findings.warn(
            "security-group",
            format!("{} security groups carry {tag}", several.len()),
            format!(
                "the load balancer controller refuses nodes with two groups that carry {}: tag one only",
                settings.cluster_tag_key()
            ),
        ),
    }
}
