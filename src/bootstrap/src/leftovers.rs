//! Objects that the controller of a cluster made and removes itself while it runs: machines, launch templates, instance
//! profiles.
//!
//! Without the controller's role none of it is ever removed: machines run on and cost money, and profiles hold the node role,
//! which IAM then does not delete. So `destroy` looks for it first.

use karpenter_aws_api::ec2::{Instance, InstanceQuery, InstanceState, LaunchTemplate, LaunchTemplateQuery};
use karpenter_aws_api::iam::InstanceProfile;
use karpenter_aws_api::{Clients, Filter};
use karpenter_model::names::label;

use crate::Error;
use crate::desired::CLUSTER_TAG;
use crate::settings::Settings;

/// Tag of every machine, and of nothing else of the cluster.
const POOL_TAG: &str = label::NODE_POOL;
/// Tag of every machine and every launch template.
const CLASS_TAG: &str = label::aws::EC2_NODE_CLASS;

/// Leftovers, each kind in order.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// Instances of NodePools that are not terminated.
    pub machines: Vec<Instance>,
    pub templates: Vec<LaunchTemplate>,
    /// Instance profiles made for EC2NodeClasses.
    pub profiles: Vec<InstanceProfile>,
}

/// The path of the profiles that the controller of this cluster makes.
pub fn profile_path(settings: &Settings) -> String {
    format!("/karpenter/{}/{}/", settings.region, settings.cluster)
}

/// Reads what is left, whether or not the cluster still exists.
pub async fn observe(clients: &Clients, settings: &Settings) -> Result<Leftovers, Error> {
    let of_cluster = || Filter::tag(CLUSTER_TAG, &settings.cluster);
    let alive = InstanceState::ALIVE.map(InstanceState::as_str);
    let query = InstanceQuery {
        ids: Vec::new(),
        filters: vec![
            of_cluster(),
            Filter::tag_key(POOL_TAG),
            Filter::tag_key(CLASS_TAG),
            Filter::new("instance-state-name", alive),
        ],
    };
    let machines = clients.ec2.describe_instances(&query).await;
    let mut machines = machines.map_err(Error::observing("the machines of the cluster"))?;
    machines.sort_by(|a, b| a.id.cmp(&b.id));
    let query =
        LaunchTemplateQuery { names: Vec::new(), filters: vec![of_cluster(), Filter::tag_key(CLASS_TAG)] };
    let templates = clients.ec2.describe_launch_templates(&query).await;
    let mut templates = templates.map_err(Error::observing("the launch templates of the cluster"))?;
    templates.sort_by(|a, b| a.name.cmp(&b.name));
    let path = profile_path(settings);
    let profiles = clients.iam.list_instance_profiles(&path).await;
    let mut profiles = profiles.map_err(Error::observing(format!("the instance profiles under `{path}`")))?;
    profiles.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Leftovers { machines, templates, profiles })
}

impl Leftovers {
    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.templates.is_empty() && self.profiles.is_empty()
    }

    /// A line for each thing, and the sum.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for machine in &self.machines {
            let tag = |key: &str| machine.tags.get(key).map_or("-", String::as_str);
            out.push_str(&format!(
                "  instance {} {} {} {} of NodePool {}, NodeClaim {}\n",
                machine.id,
                machine.instance_type,
                machine.zone,
                machine.state.as_str(),
                tag(POOL_TAG),
                tag(karpenter_model::names::tag::NODE_CLAIM),
            ));
        }
        for template in &self.templates {
            out.push_str(&format!("  launch template {} ({})\n", template.name, template.id));
        }
        for profile in &self.profiles {
            let role = profile.role.as_deref().unwrap_or("none");
            out.push_str(&format!("  instance profile {}{} with role {role}\n", profile.path, profile.name));
        }
        out.push_str(&format!(
            "{} instance(s), {} launch template(s), {} instance profile(s) are left\n",
            self.machines.len(),
            self.templates.len(),
            self.profiles.len()
        ));
        out
    }
}
