//! The cluster over the SDK.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_eks::types;

use super::call::{Call, each_page};
use super::convert::instant;
use super::meter::{Meter, measured};
use karpenter_aws_api::eks::{
    AccessEntry, AccessEntrySpec, Addon, Cluster, Eks, PodIdentityAssociation, PodIdentitySpec,
};
use karpenter_aws_api::id::{Arn, AssociationId};
use karpenter_aws_api::{Result, Tags};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_eks::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_eks, config, meter))
    }
}

#[async_trait]
impl Eks for Client {
    async fn describe_cluster(&self, cluster: &str) -> Result<Cluster> {
        let call = Call::new("DescribeCluster", cluster);
        let answer =
            self.0.describe_cluster().name(cluster).send().await.map_err(|failure| call.failed(failure))?;
        from_sdk(&call, call.field(answer.cluster, "cluster")?)
    }

    async fn describe_addon(&self, cluster: &str, addon: &str) -> Result<Addon> {
        let call = Call::new("DescribeAddon", format!("{cluster}/{addon}"));
        let answer = self
            .0
            .describe_addon()
            .cluster_name(cluster)
            .addon_name(addon)
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        let addon = call.field(answer.addon, "addon")?;
        Ok(Addon {
            name: call.field(addon.addon_name, "addonName")?,
            status: call.field(addon.status, "status")?.as_str().to_owned(),
            version: addon.addon_version,
        })
    }

    async fn create_access_entry(&self, cluster: &str, spec: &AccessEntrySpec) -> Result<AccessEntry> {
        let call = Call::new("CreateAccessEntry", format!("{cluster}/{}", spec.principal));
        let answer = self
            .0
            .create_access_entry()
            .cluster_name(cluster)
            .principal_arn(spec.principal.as_str())
            .r#type(&spec.kind)
            .set_tags(tags(&spec.tags))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        entry(&call, call.field(answer.access_entry, "accessEntry")?)
    }

    async fn describe_access_entry(&self, cluster: &str, principal: &Arn) -> Result<AccessEntry> {
        let call = Call::new("DescribeAccessEntry", format!("{cluster}/{principal}"));
        let answer = self
            .0
            .describe_access_entry()
            .cluster_name(cluster)
            .principal_arn(principal.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        entry(&call, call.field(answer.access_entry, "accessEntry")?)
    }

    async fn list_access_entries(&self, cluster: &str) -> Result<Vec<Arn>> {
        let call = Call::new("ListAccessEntries", cluster);
        let mut principals = Vec::new();
        let request = self.0.list_access_entries().cluster_name(cluster);
        each_page!(call, request.into_paginator(), next_token, |page| {
            principals.extend(page.access_entries.unwrap_or_default().into_iter().map(Arn::from));
        });
        Ok(principals)
    }

    async fn delete_access_entry(&self, cluster: &str, principal: &Arn) -> Result<()> {
        let call = Call::new("DeleteAccessEntry", format!("{cluster}/{principal}"));
        self.0
            .delete_access_entry()
            .cluster_name(cluster)
            .principal_arn(principal.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn create_pod_identity_association(
        &self,
        cluster: &str,
        spec: &PodIdentitySpec,
    ) -> Result<PodIdentityAssociation> {
        let subject = format!("{cluster}/{}/{}", spec.namespace, spec.service_account);
        let call = Call::new("CreatePodIdentityAssociation", subject);
        let answer = self
            .0
            .create_pod_identity_association()
            .cluster_name(cluster)
            .namespace(&spec.namespace)
            .service_account(&spec.service_account)
            .role_arn(spec.role.as_str())
            .set_tags(tags(&spec.tags))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        association(&call, call.field(answer.association, "association")?)
    }

    async fn find_pod_identity_associations(
        &self,
        cluster: &str,
        namespace: &str,
        service_account: &str,
    ) -> Result<Vec<PodIdentityAssociation>> {
        let call =
            Call::new("ListPodIdentityAssociations", format!("{cluster}/{namespace}/{service_account}"));
        let mut ids = Vec::new();
        let request = self
            .0
            .list_pod_identity_associations()
            .cluster_name(cluster)
            .namespace(namespace)
            .service_account(service_account);
        each_page!(call, request.into_paginator(), next_token, |page| {
            for summary in page.associations.unwrap_or_default() {
                ids.push(call.field(summary.association_id, "associationId")?);
            }
        });
        let mut found = Vec::new();
        for id in ids {
            let call = Call::new("DescribePodIdentityAssociation", format!("{cluster}/{id}"));
            let answer = self
                .0
                .describe_pod_identity_association()
                .cluster_name(cluster)
                .association_id(id)
                .send()
                .await
                .map_err(|failure| call.failed(failure))?;
            found.push(association(&call, call.field(answer.association, "association")?)?);
        }
        Ok(found)
    }

    async fn update_pod_identity_association(
        &self,
        cluster: &str,
        association: &AssociationId,
        role: &Arn,
    ) -> Result<()> {
        let call = Call::new("UpdatePodIdentityAssociation", format!("{cluster}/{association}"));
        self.0
            .update_pod_identity_association()
            .cluster_name(cluster)
            .association_id(association.as_str())
            .role_arn(role.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn delete_pod_identity_association(
        &self,
        cluster: &str,
        association: &AssociationId,
    ) -> Result<()> {
        let call = Call::new("DeletePodIdentityAssociation", format!("{cluster}/{association}"));
        self.0
            .delete_pod_identity_association()
            .cluster_name(cluster)
            .association_id(association.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn tag_resource(&self, resource: &Arn, tags: &Tags) -> Result<()> {
        let call = Call::new("TagResource", resource.as_str());
        self.0
            .tag_resource()
            .resource_arn(resource.as_str())
            .set_tags(Some(tags.clone().into_iter().collect()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn untag_resource(&self, resource: &Arn, keys: &[String]) -> Result<()> {
        let call = Call::new("UntagResource", resource.as_str());
        self.0
            .untag_resource()
            .resource_arn(resource.as_str())
            .set_tag_keys(Some(keys.to_vec()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }
}

fn tags(tags: &Tags) -> Option<HashMap<String, String>> {
    (!tags.is_empty()).then(|| tags.clone().into_iter().collect())
}

fn from_sdk(call: &Call, cluster: types::Cluster) -> Result<Cluster> {
    let network = cluster.kubernetes_network_config;
    let vpc = cluster.resources_vpc_config;
    Ok(Cluster {
        name: call.field(cluster.name, "name")?,
        arn: call.field(cluster.arn, "arn")?.into(),
        version: call.field(cluster.version, "version")?,
        status: call.field(cluster.status, "status")?.as_str().to_owned(),
        endpoint: cluster.endpoint,
        certificate_authority: cluster.certificate_authority.and_then(|authority| authority.data),
        authentication_mode: cluster
            .access_config
            .and_then(|access| access.authentication_mode)
            .map(|mode| mode.as_str().to_owned()),
        service_ipv4_cidr: network.as_ref().and_then(|network| network.service_ipv4_cidr.clone()),
        service_ipv6_cidr: network.as_ref().and_then(|network| network.service_ipv6_cidr.clone()),
        ip_family: network.and_then(|network| network.ip_family).map(|family| family.as_str().to_owned()),
        vpc: vpc.as_ref().and_then(|vpc| vpc.vpc_id.clone()).map(Into::into),
        subnets: list(vpc.as_ref().and_then(|vpc| vpc.subnet_ids.clone())),
        security_groups: list(vpc.as_ref().and_then(|vpc| vpc.security_group_ids.clone())),
        cluster_security_group: vpc.and_then(|vpc| vpc.cluster_security_group_id).map(Into::into),
        zonal_shift: cluster.zonal_shift_config.and_then(|config| config.enabled),
        auto_mode: cluster.compute_config.and_then(|config| config.enabled) == Some(true),
        oidc_issuer: cluster.identity.and_then(|identity| identity.oidc).and_then(|oidc| oidc.issuer),
        tags: cluster.tags.unwrap_or_default().into_iter().collect(),
    })
}

fn list<T: From<String>>(values: Option<Vec<String>>) -> Vec<T> {
    values.unwrap_or_default().into_iter().map(T::from).collect()
}

fn entry(call: &Call, entry: types::AccessEntry) -> Result<AccessEntry> {
    Ok(AccessEntry {
        arn: call.field(entry.access_entry_arn, "accessEntryArn")?.into(),
        principal: call.field(entry.principal_arn, "principalArn")?.into(),
        kind: call.field(entry.r#type, "type")?,
        username: entry.username,
        groups: entry.kubernetes_groups.unwrap_or_default(),
        created_at: instant(entry.created_at.as_ref()),
        tags: entry.tags.unwrap_or_default().into_iter().collect(),
    })
}

fn association(call: &Call, found: types::PodIdentityAssociation) -> Result<PodIdentityAssociation> {
    Ok(PodIdentityAssociation {
        id: call.field(found.association_id, "associationId")?.into(),
        arn: call.field(found.association_arn, "associationArn")?.into(),
        namespace: call.field(found.namespace, "namespace")?,
        service_account: call.field(found.service_account, "serviceAccount")?,
        role: call.field(found.role_arn, "roleArn")?.into(),
        tags: found.tags.unwrap_or_default().into_iter().collect(),
    })
}
