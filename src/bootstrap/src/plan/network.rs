//! The tags by which node classes find subnets and security group.
//!
//! A tag has one value, so a subnet that clusters share can be tagged for one of them only. Taking the tag over would leave
//! the other cluster without subnets, at once or when ours is destroyed: what is another cluster's is a conflict.

use karpenter_aws_api::Tags;

use super::Planner;
use crate::desired::{DISCOVERY_TAG, OWNER_TAG};
use crate::settings::Selection;
use crate::step::{Step, Tagged};

impl Planner<'_> {
    /// Tags the subnets and one security group, unless node classes select by something else.
    pub(super) fn discovery(&mut self) {
        if self.settings.selection == Selection::ByTag {
            self.subnets();
            self.security_group();
        }
    }

    fn subnets(&mut self) {
        let observed = self.observed;
        for subnet in &observed.subnets {
            if !self.discovered(&subnet.tags) {
                self.claim("subnet", "--subnet", Tagged::Subnet(subnet.id.to_string()), &subnet.tags);
            }
        }
        if observed.subnets.is_empty() {
            let cluster = &self.settings.cluster;
            self.plan.conflicts.push(format!(
                "no subnet of cluster `{cluster}` or of its VPC is private and has a way out (the tag \
                 kubernetes.io/role/internal-elb, or a default route to a NAT gateway): name subnets with --subnet, or \
                 pass --no-discovery-tags and let node classes select by id"
            ));
        }
    }

    /// One group, unless some group already is the one: several of them break the load balancer controller
    /// (spec aws-operations 1.8).
    fn security_group(&mut self) {
        let (cluster, groups) = (&self.settings.cluster, &self.observed.security_groups);
        let found: Vec<&str> = groups
            .iter()
            .filter(|group| self.discovered(&group.tags))
            .map(|group| group.id.as_str())
            .collect();
        if let (Some(named), [_, ..]) = (self.settings.security_group.as_deref(), found.as_slice())
            && !found.contains(&named)
        {
            return self.plan.conflicts.push(format!(
                "security group {} carries {DISCOVERY_TAG}={cluster} already, and `{named}` would be one too many: take \
                 the tag off there, or leave --security-group out",
                found.join(", ")
            ));
        }
        match (found.len(), groups.first()) {
            (0, Some(group)) => {
                let object = Tagged::SecurityGroup(group.id.to_string());
                self.claim("security group", "--security-group", object, &group.tags);
            }
            (0, None) => self.plan.conflicts.push(format!(
                "cluster `{cluster}` has no security group to tag for discovery: name one with --security-group"
            )),
            (1, _) => {}
            (count, _) => self.plan.notes.push(format!(
                "{count} security groups carry {DISCOVERY_TAG}={cluster}: nodes get all of them, and the load \
                 balancer controller refuses that when more than one also carries {}",
                self.settings.cluster_tag_key()
            )),
        }
    }

    /// Tags what is nobody's yet, or ours and damaged.
    fn claim(&mut self, kind: &str, flag: &str, object: Tagged, existing: &Tags) {
        let cluster = &self.settings.cluster;
        let other = match existing.get(OWNER_TAG) {
            Some(owner) if owner == cluster => None,
            None => existing.get(DISCOVERY_TAG),
            owner => owner,
        };
        if let Some(other) = other {
            return self.plan.conflicts.push(format!(
                "{kind} `{}` is tagged for cluster `{other}`, which would lose it: name another one with {flag}, or pass \
                 --no-discovery-tags and let node classes select by id",
                object.name()
            ));
        }
        let tags = [(DISCOVERY_TAG, cluster), (OWNER_TAG, cluster)];
        let tags = tags.map(|(key, value)| (key.to_owned(), value.clone())).into();
        self.step(Step::Tag { object, tags });
    }

    /// Returns whether node classes of this cluster find it.
    fn discovered(&self, tags: &Tags) -> bool {
        tags.get(DISCOVERY_TAG) == Some(&self.settings.cluster)
    }
}
