//! Clusters, access entries and pod identity associations.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::Account;
use crate::options::Options;
use karpenter_aws_api::eks::{
    AccessEntry, AccessEntrySpec, Addon, Cluster, Eks, PodIdentityAssociation, PodIdentitySpec,
};
use karpenter_aws_api::id::{Arn, AssociationId, SubnetId};
use karpenter_aws_api::{Error, Partition, Result, Tags};

/// Clusters of the account by name.
#[derive(Debug)]
pub(super) struct Clusters {
    pub(super) clusters: BTreeMap<String, ClusterEntry>,
}

#[derive(Debug)]
pub(super) struct ClusterEntry {
    pub(super) cluster: Cluster,
    pub(super) addons: BTreeMap<String, Addon>,
    pub(super) entries: BTreeMap<Arn, AccessEntry>,
    pub(super) associations: BTreeMap<AssociationId, PodIdentityAssociation>,
}

impl ClusterEntry {
    pub(super) fn new(cluster: Cluster) -> Self {
        let agent = Addon {
            name: "eks-pod-identity-agent".to_owned(),
            status: "ACTIVE".to_owned(),
            version: Some("v1.3.8-eksbuild.2".to_owned()),
        };
        Self {
            cluster,
            addons: BTreeMap::from([(agent.name.clone(), agent)]),
            entries: BTreeMap::new(),
            associations: BTreeMap::new(),
        }
    }

    /// The tags of whatever has this ARN.
    fn tags(&mut self, arn: &Arn) -> Option<&mut Tags> {
        if self.cluster.arn == *arn {
            return Some(&mut self.cluster.tags);
        }
        let entry = self.entries.values_mut().find(|entry| entry.arn == *arn).map(|entry| &mut entry.tags);
        entry.or_else(|| {
            self.associations.values_mut().find(|found| found.arn == *arn).map(|found| &mut found.tags)
        })
    }
}

impl Clusters {
    /// One cluster, whose control plane and nodes share `subnets`.
    pub(super) fn new(options: &Options, partition: Partition, subnets: Vec<SubnetId>) -> Self {
        let (region, account, name) = (&options.region, &options.account, &options.cluster);
        let issuer = format!("https://oidc.eks.{region}.{}/id/EXAMPLE", partition.dns_suffix());
        let cluster = Cluster {
            name: name.clone(),
            arn: format!("arn:{}:eks:{region}:{account}:cluster/{name}", partition.arn_prefix()).into(),
            version: options.kubernetes_version.clone(),
            status: "ACTIVE".to_owned(),
            endpoint: Some(format!("https://EXAMPLE.gr7.{region}.eks.{}", partition.dns_suffix())),
            certificate_authority: Some("Y2VydGlmaWNhdGU=".to_owned()),
            authentication_mode: Some("API_AND_CONFIG_MAP".to_owned()),
            service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
            service_ipv6_cidr: None,
            ip_family: Some("ipv4".to_owned()),
            vpc: Some("vpc-0a0a0a0a0a0a0a0a0".into()),
            subnets,
            security_groups: Vec::new(),
            cluster_security_group: Some("sg-0a0a0a0a0a0a0a0a0".into()),
            zonal_shift: Some(false),
            auto_mode: false,
            oidc_issuer: Some(issuer),
            tags: Tags::new(),
        };
        Self { clusters: BTreeMap::from([(name.clone(), ClusterEntry::new(cluster))]) }
    }

    fn find(&mut self, operation: &'static str, name: &str) -> Result<&mut ClusterEntry> {
        self.clusters.get_mut(name).ok_or_else(|| {
            let text = format!("No cluster found for name: {name}.");
            Error::answered(operation, name, "ResourceNotFoundException", text)
        })
    }

    fn tags(&mut self, operation: &'static str, arn: &Arn) -> Result<&mut Tags> {
        self.clusters.values_mut().find_map(|entry| entry.tags(arn)).ok_or_else(|| {
            Error::answered(operation, arn.as_str(), "NotFoundException", "Resource was not found.")
        })
    }
}

impl ClusterEntry {
    /// A cluster of the `ConfigMap` `aws-auth` alone refuses every call about access entries, reading included.
    fn with_access_entries(&mut self, operation: &'static str, subject: &str) -> Result<&mut Self> {
        if self.cluster.authentication_mode.as_deref().is_none_or(|mode| mode == "CONFIG_MAP") {
            let text = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to \
                        perform this operation.";
            return Err(Error::answered(operation, subject, "InvalidRequestException", text));
        }
        Ok(self)
    }

    fn add_entry(&mut self, arn: Arn, spec: &AccessEntrySpec, now: Timestamp) -> Result<AccessEntry> {
        let refuse = |code: &str, text: &str| {
            Err(Error::answered("CreateAccessEntry", spec.principal.as_str(), code, text))
        };
        if self.entries.contains_key(&spec.principal) {
            let text = "The specified access entry resource is already in use on this cluster.";
            return refuse("ResourceInUseException", text);
        }
        let (username, groups) = match spec.kind.as_str() {
            "EC2_LINUX" => ("system:node:{{EC2PrivateDNSName}}".to_owned(), vec!["system:nodes".to_owned()]),
            "EC2_WINDOWS" => (
                "system:node:{{EC2PrivateDNSName}}".to_owned(),
                vec!["eks:kube-proxy-windows".to_owned(), "system:nodes".to_owned()],
            ),
            "STANDARD" | "FARGATE_LINUX" | "EC2" | "HYBRID_LINUX" => (spec.principal.to_string(), Vec::new()),
            _ => return refuse("InvalidParameterException", "The specified type is invalid."),
        };
        let entry = AccessEntry {
            arn,
            principal: spec.principal.clone(),
            kind: spec.kind.clone(),
            username: Some(username),
            groups,
            created_at: Some(now),
            tags: spec.tags.clone(),
        };
        self.entries.insert(spec.principal.clone(), entry.clone());
        Ok(entry)
    }

    fn associate(
        &mut self,
        id: AssociationId,
        arn: Arn,
        spec: &PodIdentitySpec,
    ) -> Result<PodIdentityAssociation> {
        let taken = self
            .associations
            .values()
            .any(|found| found.namespace == spec.namespace && found.service_account == spec.service_account);
        if taken {
            let text = format!(
                "Association already exists: namespace {}, service account {}",
                spec.namespace, spec.service_account
            );
            let subject = &spec.service_account;
            return Err(Error::answered(
                "CreatePodIdentityAssociation",
                subject,
                "ResourceInUseException",
                text,
            ));
        }
        let association = PodIdentityAssociation {
            id: id.clone(),
            arn,
            namespace: spec.namespace.clone(),
            service_account: spec.service_account.clone(),
            role: spec.role.clone(),
            tags: spec.tags.clone(),
        };
        self.associations.insert(id, association.clone());
        Ok(association)
    }

    fn association(
        &mut self,
        operation: &'static str,
        id: &AssociationId,
    ) -> Result<&mut PodIdentityAssociation> {
        self.associations.get_mut(id).ok_or_else(|| {
            let text = format!("The specified association ID cannot be found: {id}");
            Error::answered(operation, id.as_str(), "ResourceNotFoundException", text)
        })
    }
}

fn no_entry(operation: &'static str, principal: &Arn) -> Error {
    let text = format!("The specified principalArn could not be found: {principal}");
    Error::answered(operation, principal.as_str(), "ResourceNotFoundException", text)
}

#[async_trait]
impl Eks for Account {
    async fn describe_cluster(&self, cluster: &str) -> Result<Cluster> {
        self.call("DescribeCluster", cluster, |state, _| {
            Ok(state.clusters.find("DescribeCluster", cluster)?.cluster.clone())
        })
        .await
    }

    async fn describe_addon(&self, cluster: &str, addon: &str) -> Result<Addon> {
        self.call("DescribeAddon", addon, |state, _| {
            let entry = state.clusters.find("DescribeAddon", cluster)?;
            entry.addons.get(addon).cloned().ok_or_else(|| {
                let text = format!("No addon: {addon} found in cluster: {cluster}");
                Error::answered("DescribeAddon", addon, "ResourceNotFoundException", text)
            })
        })
        .await
    }

    async fn create_access_entry(&self, cluster: &str, spec: &AccessEntrySpec) -> Result<AccessEntry> {
        self.call("CreateAccessEntry", spec.principal.as_str(), |state, now| {
            if !state.directory.knows_principal(&spec.principal) {
                let text = "The specified principalArn is invalid: invalid principal.";
                let subject = spec.principal.as_str();
                return Err(Error::answered("CreateAccessEntry", subject, "InvalidParameterException", text));
            }
            let id = state.ids.next("entry");
            let role = spec.principal.as_str().rsplit('/').next().unwrap_or_default();
            let account = &state.account;
            let arn = state.arn("eks", &format!("access-entry/{cluster}/role/{account}/{role}/{id}"));
            let entry = state.clusters.find("CreateAccessEntry", cluster)?;
            entry.with_access_entries("CreateAccessEntry", spec.principal.as_str())?.add_entry(
                arn.into(),
                spec,
                now,
            )
        })
        .await
    }

    async fn describe_access_entry(&self, cluster: &str, principal: &Arn) -> Result<AccessEntry> {
        self.call("DescribeAccessEntry", principal.as_str(), |state, _| {
            let entry = state.clusters.find("DescribeAccessEntry", cluster)?;
            let entry = entry.with_access_entries("DescribeAccessEntry", principal.as_str())?;
            entry.entries.get(principal).cloned().ok_or_else(|| no_entry("DescribeAccessEntry", principal))
        })
        .await
    }

    async fn list_access_entries(&self, cluster: &str) -> Result<Vec<Arn>> {
        self.call("ListAccessEntries", cluster, |state, _| {
            let entry = state.clusters.find("ListAccessEntries", cluster)?;
            let entry = entry.with_access_entries("ListAccessEntries", cluster)?;
            Ok(entry.entries.keys().cloned().collect())
        })
        .await
    }

    async fn delete_access_entry(&self, cluster: &str, principal: &Arn) -> Result<()> {
        self.call("DeleteAccessEntry", principal.as_str(), |state, _| {
            let entry = state.clusters.find("DeleteAccessEntry", cluster)?;
            let entry = entry.with_access_entries("DeleteAccessEntry", principal.as_str())?;
            let removed = entry.entries.remove(principal);
            removed.map(|_| ()).ok_or_else(|| no_entry("DeleteAccessEntry", principal))
        })
        .await
    }

    async fn create_pod_identity_association(
        &self,
        cluster: &str,
        spec: &PodIdentitySpec,
    ) -> Result<PodIdentityAssociation> {
        self.call("CreatePodIdentityAssociation", &spec.service_account, |state, _| {
            let id = state.ids.next("a");
            let arn = state.arn("eks", &format!("podidentityassociation/{cluster}/{id}"));
            let entry = state.clusters.find("CreatePodIdentityAssociation", cluster)?;
            entry.associate(id.into(), arn.into(), spec)
        })
        .await
    }

    async fn find_pod_identity_associations(
        &self,
        cluster: &str,
        namespace: &str,
        service_account: &str,
    ) -> Result<Vec<PodIdentityAssociation>> {
        self.call("ListPodIdentityAssociations", service_account, |state, _| {
            let entry = state.clusters.find("ListPodIdentityAssociations", cluster)?;
            let found = entry.associations.values();
            let found = found
                .filter(|found| found.namespace == namespace && found.service_account == service_account);
            Ok(found.cloned().collect())
        })
        .await
    }

    async fn update_pod_identity_association(
        &self,
        cluster: &str,
        association: &AssociationId,
        role: &Arn,
    ) -> Result<()> {
        self.call("UpdatePodIdentityAssociation", association.as_str(), |state, _| {
            let entry = state.clusters.find("UpdatePodIdentityAssociation", cluster)?;
            entry.association("UpdatePodIdentityAssociation", association)?.role = role.clone();
            Ok(())
        })
        .await
    }

    async fn delete_pod_identity_association(
        &self,
        cluster: &str,
        association: &AssociationId,
    ) -> Result<()> {
        self.call("DeletePodIdentityAssociation", association.as_str(), |state, _| {
            let entry = state.clusters.find("DeletePodIdentityAssociation", cluster)?;
            entry.association("DeletePodIdentityAssociation", association)?;
            entry.associations.remove(association);
            Ok(())
        })
        .await
    }

    async fn tag_resource(&self, resource: &Arn, tags: &Tags) -> Result<()> {
        self.call("TagResource", resource.as_str(), |state, _| {
            state.clusters.tags("TagResource", resource)?.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn untag_resource(&self, resource: &Arn, keys: &[String]) -> Result<()> {
        self.call("UntagResource", resource.as_str(), |state, _| {
            state.clusters.tags("UntagResource", resource)?.retain(|key, _| !keys.contains(key));
            Ok(())
        })
        .await
    }
}
