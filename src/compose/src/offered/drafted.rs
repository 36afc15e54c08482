//! Launch templates of a pool outside a controller: those that a launch would make, in the same bytes.
//!
//! A node class of a file has no images, no instance profile and no security groups yet, and a plan of files knows no cluster.
//! A text in angle brackets then stands for each of them, and is named in a note.

use std::sync::Arc;

use anyhow::{Result, bail};
use karpenter_api::ec2nodeclass::{AmiFamily, EC2NodeClass, SecurityGroup};
use karpenter_aws::class::store::Lookup;
use karpenter_aws::image::{self, family::family_of};
use karpenter_aws::launch::draft::Drafts;
use karpenter_cloud::LaunchRequest;
use karpenter_cloud::overlay::List;
use karpenter_model::Launch;

use super::OfferingsReader;

impl OfferingsReader {
    /// Returns the launch templates for a machine of `launch`, of `types`.
    ///
    /// # Errors
    /// The node class cannot be read, its user data cannot be merged, or no type has an offering.
    pub async fn drafts(&mut self, launch: Launch, types: &List) -> Result<Drafts> {
        let name = launch.node_class.name.clone();
        let Lookup::Found(class) = self.provider.classes.get(&name) else {
            bail!("cannot render EC2NodeClass `{name}`: it was not found; give the file it is in");
        };
        let mut class = EC2NodeClass::clone(&class);
        let mut unknown = complete(&mut class);
        unknown.extend(self.learn_cluster(family_of(&class.spec)).await);
        if !unknown.is_empty() {
            self.notes.push(format!(
                "EC2NodeClass `{name}`: not known from here: {}; a cluster with --cluster-name has them",
                unknown.join(", ")
            ));
        }
        Ok(self.provider.launcher().draft(&request(launch), &class, types)?)
    }

    /// Learns the facts about the cluster that are in user data; returns the parts that are not known.
    async fn learn_cluster(&mut self, family: AmiFamily) -> Vec<String> {
        let mut unknown = Vec::new();
        // What was learnt for a pool holds for the next.
        let mut settings = karpenter_aws::Settings::clone(&self.provider.launcher().settings);
        if settings.cluster_endpoint.is_empty() {
            let eks = &self.provider.clients().eks;
            let found = eks.describe_cluster(&settings.cluster_name).await.ok();
            settings.cluster_ca_bundle =
                found.as_ref().and_then(|cluster| cluster.certificate_authority.clone());
            let endpoint = found.and_then(|cluster| cluster.endpoint);
            settings.cluster_endpoint =
                endpoint.unwrap_or_else(|| stands_for(&mut unknown, "cluster endpoint"));
            self.provider.launcher_mut().settings = Arc::new(settings);
        }
        // Only nodeadm needs the range of services.
        if family == AmiFamily::AL2023 && self.provider.cluster.resolve_service_cidr().await.is_err() {
            self.provider.cluster.set_service_cidr(&stands_for(&mut unknown, "service CIDR"));
        }
        unknown
    }
}

/// Fills in what no controller has resolved; returns the names of those parts.
fn complete(class: &mut EC2NodeClass) -> Vec<String> {
    let mut unknown = Vec::new();
    let profile = class.spec.instance_profile.clone();
    let status = class.status.get_or_insert_default();
    if status.amis.is_empty() {
        status.amis = image::unresolved(&class.spec);
    }
    if status.amis.iter().any(|ami| ami.id.starts_with('<')) {
        unknown.push("images".to_owned());
    }
    let unresolved = || stands_for(&mut unknown, "instance profile");
    status.instance_profile.get_or_insert_with(|| profile.unwrap_or_else(unresolved));
    if status.security_groups.is_empty() {
        let id = stands_for(&mut unknown, "security groups");
        status.security_groups = vec![SecurityGroup { id, name: None }];
    }
    unknown
}

/// Notes that `part` is not known, and returns the text in its place.
fn stands_for(unknown: &mut Vec<String>, part: &str) -> String {
    unknown.push(part.to_owned());
    format!("<{part}>")
}

/// The request of a claim without pods.
fn request(launch: Launch) -> LaunchRequest {
    LaunchRequest {
        claim: launch.pool.as_str().into(),
        uid: "".into(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        attempt: 0,
        pool: Some(launch.pool),
        pool_hash: Some(launch.pool_hash),
        node_class: launch.node_class,
        requirements: launch.requirements,
        requests: launch.requests,
        labels: launch.labels,
        annotations: launch.annotations,
        taints: launch.taints,
        startup_taints: launch.startup_taints,
        instance_types: launch.instance_types.to_vec(),
        overlays: None,
    }
}
