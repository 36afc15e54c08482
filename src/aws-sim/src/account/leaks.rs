//! Leftovers: everything in the account that belongs to a cluster.

use super::Account;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::InstanceState;

/// Things that carry a cluster's ownership tag, by kind, in name order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Instances not yet terminated.
    pub instances: Vec<String>,
    pub launch_templates: Vec<String>,
    pub instance_profiles: Vec<String>,
    pub roles: Vec<String>,
    /// Managed policies.
    pub policies: Vec<String>,
    pub queues: Vec<String>,
    /// `EventBridge` rules.
    pub rules: Vec<String>,
    /// Access entries, by principal.
    pub access_entries: Vec<String>,
    /// Pod identity associations, by service account.
    pub associations: Vec<String>,
}

impl Remains {
    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Account {
    /// Everything tagged as owned by a cluster: `kubernetes.io/cluster/<name>` = `owned`, or
    /// `eks:eks-cluster-name` = `<name>`.
    pub fn remains_of(&self, cluster: &str) -> Remains {
        let cluster_tag = format!("kubernetes.io/cluster/{cluster}");
        let owned = |tags: &Tags| {
            tags.get(&cluster_tag).is_some_and(|value| value == "owned")
                || tags.get("eks:eks-cluster-name").is_some_and(|value| value == cluster)
        };
        self.truth(|state, _| {
            let compute = &state.compute;
            let clusters = || state.clusters.clusters.values();
            Remains {
                instances: names(compute.vms.values(), |vm| {
                    (vm.state != InstanceState::Terminated && owned(&vm.tags)).then(|| vm.id.to_string())
                }),
                launch_templates: names(compute.templates.values(), |template| {
                    owned(&template.summary.tags).then(|| template.summary.name.clone())
                }),
                instance_profiles: names(state.directory.profiles.values(), |profile| {
                    owned(&profile.tags).then(|| profile.name.clone())
                }),
                roles: names(state.directory.roles.values(), |entry| {
                    owned(&entry.role.tags).then(|| entry.role.name.clone())
                }),
                policies: names(state.directory.policies.values(), |entry| {
                    owned(&entry.policy.tags).then(|| entry.policy.name.clone())
                }),
                queues: names(&state.queues.by_name, |(name, queue)| {
                    owned(&queue.tags).then(|| name.clone())
                }),
                rules: names(&state.bus.rules, |(name, rule)| owned(&rule.tags).then(|| name.clone())),
                access_entries: names(clusters().flat_map(|entry| entry.entries.values()), |entry| {
                    owned(&entry.tags).then(|| entry.principal.to_string())
                }),
                associations: names(clusters().flat_map(|entry| entry.associations.values()), |found| {
                    owned(&found.tags).then(|| found.service_account.clone())
                }),
            }
        })
    }

    /// Fails the test when instances, launch templates or instance profiles of the cluster are left: what a
    /// controller makes and must clean up itself.
    ///
    /// # Panics
    /// When something is left.
    #[track_caller]
    pub fn assert_no_leaks(&self, cluster: &str) {
        let Remains { instances, launch_templates, instance_profiles, .. } = self.remains_of(cluster);
        assert!(
            instances.is_empty() && launch_templates.is_empty() && instance_profiles.is_empty(),
            "left behind by cluster `{cluster}`: instances {instances:?}, launch templates \
             {launch_templates:?}, instance profiles {instance_profiles:?}"
        );
    }
}

fn names<T>(items: impl IntoIterator<Item = T>, name: impl Fn(T) -> Option<String>) -> Vec<String> {
    items.into_iter().filter_map(name).collect()
}
