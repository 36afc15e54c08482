//! Answers of the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{Condition, EC2NodeClass, NodeClaim, NodePool, convert};
use karpenter_model::names;
use karpenter_model::{LabelRegistry, Operator};
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::objects::AUTO_MODE_GROUP;
use super::{Answer, Objects, Unseen};

/// A leader renews its Lease every few seconds. Clocks of two machines differ by less than this, and an API server that is
/// upgraded is back earlier.
const LEASE_STALE: SignedDuration = SignedDuration::from_mins(5);

/// The label by which EKS says what a node runs on.
pub(crate) const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";

/// Answers of the API server: each list is of the whole cluster unless it says otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    pub nodes: Answer<Vec<Node>>,
    /// Pods without environment variables, which may hold secrets.
    pub pods: Answer<Vec<Pod>>,
    pub deployments: Answer<Vec<Deployment>>,
    pub daemon_sets: Answer<Vec<DaemonSet>>,
    pub budgets: Answer<Vec<PodDisruptionBudget>>,
    pub volumes: Answer<Vec<PersistentVolume>>,
    pub volume_claims: Answer<Vec<PersistentVolumeClaim>>,
    pub storage_classes: Answer<Vec<StorageClass>>,
    pub definitions: Answer<Vec<CustomResourceDefinition>>,
    pub node_pools: Answer<Objects<NodePool>>,
    pub node_claims: Answer<Objects<NodeClaim>>,
    pub node_classes: Answer<Objects<EC2NodeClass>>,
    pub events: Answer<Vec<Event>>,
    /// `ConfigMaps` of `kube-system`, and those that the controller takes variables from.
    pub config_maps: Answer<Vec<ConfigMap>>,
    pub service_accounts: Answer<Vec<ServiceAccount>>,
    pub flow_schemas: Answer<Vec<FlowSchema>>,
    pub cluster_roles: Answer<Vec<ClusterRole>>,
    pub cluster_role_bindings: Answer<Vec<ClusterRoleBinding>>,
    /// Without those of nodes.
    pub leases: Answer<Vec<Lease>>,
    /// The last lines of the controller's log, none older than an hour.
    pub log: Answer<Vec<String>>,
}

/// Text that was reported, and the object or log that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub object: String,
    pub text: String,
}

impl Cluster {
    /// The controller's Deployment, if it is installed.
    pub fn controller(&self) -> Result<Option<&Deployment>, Unseen> {
        Ok(self.deployments.get()?.iter().find(|deployment| is_controller(deployment)))
    }

    /// Returns whether a controller holds its Lease: it may run outside of the cluster, or as something else than a Deployment.
    /// The name of the Lease is a setting, which is not known of such a controller, so every name of ours counts.
    pub(crate) fn is_led(&self, now: Timestamp) -> Result<bool, Unseen> {
        let is_ours =
            |lease: &&Lease| lease.metadata.name.as_deref().is_some_and(|name| name.contains("karpenter"));
        let is_renewed = |lease: &Lease| {
            let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
            renewed.is_some_and(|renewed| now.duration_since(renewed.0) < LEASE_STALE)
        };
        Ok(self.leases.get()?.iter().filter(is_ours).any(is_renewed))
    }

    /// Namespace and name of the controller's service account; those of the chart when it is not known.
    pub fn service_account(&self) -> (&str, &str) {
        let Some(deployment) = self.controller().ok().flatten() else { return ("kube-system", "karpenter") };
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or("default");
        let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        (namespace, spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default"))
    }

    /// Returns whether a cluster role that is bound to the controller's service account lets it `verb` all objects of
    /// `resource` in `group`.
    pub(crate) fn grants(&self, group: &str, resource: &str, verb: &str) -> Result<bool, Unseen> {
        let (namespace, name) = self.service_account();
        let bindings = self.cluster_role_bindings.get()?.iter().filter(|binding| {
            binding.subjects.iter().flatten().any(|subject| {
                subject.kind == "ServiceAccount"
                    && subject.name == name
                    && subject.namespace.as_deref() == Some(namespace)
            })
        });
        let bound: Vec<&str> = bindings.map(|binding| binding.role_ref.name.as_str()).collect();
        let roles = self.cluster_roles.get()?.iter();
        let roles =
            roles.filter(|role| role.metadata.name.as_deref().is_some_and(|name| bound.contains(&name)));
        let mut rules = roles.flat_map(|role| role.rules.iter().flatten());
        let lists = |list: Option<&Vec<String>>, wanted: &str| {
            list.is_some_and(|list| list.iter().any(|one| one == wanted || one == "*"))
        };
        Ok(rules.any(|rule: &PolicyRule| {
            rule.resource_names.as_ref().is_none_or(Vec::is_empty)
                && lists(rule.api_groups.as_ref(), group)
                && lists(rule.resources.as_ref(), resource)
                && lists(Some(&rule.verbs), verb)
        }))
    }

    /// Returns whether the controller's list of feature gates in `variable` opens `gate`.
    pub(crate) fn opens(&self, variable: &str, gate: &str) -> Result<bool, Unseen> {
        let list = self.setting(variable)?.unwrap_or_default();
        let mut written = list.split(',').filter_map(|entry| entry.trim().split_once('='));
        // Of several entries the last one counts.
        let value = written.rfind(|(name, _)| *name == gate);
        Ok(value.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")))
    }

    /// ARN of the role that the controller's service account names, to be taken on by web identity.
    pub(crate) fn annotated_role(&self) -> Result<Option<&str>, Unseen> {
        if self.deployments.if_asked()?.is_none() || self.controller()?.is_none() {
            return Ok(None);
        }
        let (namespace, name) = self.service_account();
        let own = self.service_accounts.get()?.iter().find(|found| {
            found.metadata.namespace.as_deref() == Some(namespace)
                && found.metadata.name.as_deref() == Some(name)
        });
        let annotations = own.and_then(|own| own.metadata.annotations.as_ref());
        Ok(label(annotations, "eks.amazonaws.com/role-arn"))
    }

    /// An environment variable of the controller; `None` when it is not set or there is no controller. What stands in
    /// `ConfigMaps` counts as the kubelet would count it; what stands in Secrets is nobody's business here, so a
    /// variable that may come from one was not seen.
    pub fn setting(&self, name: &str) -> Result<Option<String>, Unseen> {
        let Some(deployment) = self.controller()? else { return Ok(None) };
        let Some(container) = main_container(deployment) else { return Ok(None) };
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or("default");
        // A variable of its own goes before those of whole maps.
        let own = container.env.iter().flatten().rfind(|variable| variable.name == name);
        let value = match own {
            Some(variable) => self.value_of(variable, namespace)?,
            None => self.value_from_maps(container, namespace, name)?,
        };
        Ok(value.filter(|value| !value.is_empty()))
    }

    fn value_of(&self, variable: &EnvVar, namespace: &str) -> Result<Option<String>, Unseen> {
        let source = variable.value_from.as_ref();
        if let Some(secret) = source.and_then(|source| source.secret_key_ref.as_ref()) {
            return Err(in_secret(&variable.name, namespace, &secret.name));
        }
        match source.and_then(|source| source.config_map_key_ref.as_ref()) {
            Some(wanted) => self.entry(namespace, &wanted.name, &wanted.key),
            None => Ok(variable.value.clone()),
        }
    }

    /// Value of a variable from `ConfigMaps`. Of several sources the last one that has the variable decides.
    fn value_from_maps(
        &self,
        container: &Container,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, Unseen> {
        for source in container.env_from.iter().flatten().rev() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let Some(key) = name.strip_prefix(prefix) else { continue };
            if let Some(secret) = &source.secret_ref {
                return Err(in_secret(name, namespace, &secret.name));
            }
            let Some(map) = &source.config_map_ref else { continue };
            if let Some(value) = self.entry(namespace, &map.name, key)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn entry(&self, namespace: &str, map: &str, key: &str) -> Result<Option<String>, Unseen> {
        let map = self.config_map(namespace, map)?;
        Ok(map.and_then(|map| map.data.as_ref()?.get(key).cloned()))
    }

    /// A `ConfigMap`, if it exists.
    pub fn config_map(&self, namespace: &str, name: &str) -> Result<Option<&ConfigMap>, Unseen> {
        Ok(self.config_maps.get()?.iter().find(|map| {
            map.metadata.namespace.as_deref() == Some(namespace) && map.metadata.name.as_deref() == Some(name)
        }))
    }

    /// Nodes that the controller launched.
    pub(crate) fn managed_nodes(&self) -> Result<Vec<&Node>, Unseen> {
        Ok(self.nodes_of_pools()?.into_iter().filter(|node| !is_of_auto_mode(node)).collect())
    }

    /// Nodes of NodePools, also of those that EKS Auto Mode works on.
    pub(crate) fn nodes_of_pools(&self) -> Result<Vec<&Node>, Unseen> {
        let of_pool = |node: &&Node| label(node.metadata.labels.as_ref(), names::label::NODE_POOL).is_some();
        Ok(self.nodes.get()?.iter().filter(of_pool).collect())
    }

    /// NodePools that the controller works on.
    pub(crate) fn own_pools(&self) -> Result<Vec<&NodePool>, Unseen> {
        Ok(own_pools(self.node_pools.get()?.decoded()))
    }

    /// NodePools that the controller works on, unless there is one that cannot be decoded.
    pub(crate) fn all_own_pools(&self) -> Result<Vec<&NodePool>, Unseen> {
        Ok(own_pools(self.node_pools.get()?.all()?))
    }

    /// NodeClaims that the controller works on.
    pub(crate) fn own_claims(&self) -> Result<Vec<&NodeClaim>, Unseen> {
        let is_own = |claim: &&NodeClaim| claim.spec.node_class_ref.group != AUTO_MODE_GROUP;
        Ok(self.node_claims.get()?.decoded().iter().filter(is_own).collect())
    }

    /// NodePools that launch by this class.
    pub(crate) fn pools_of(&self, class: &EC2NodeClass) -> Result<Vec<&NodePool>, Unseen> {
        let pools = self.own_pools()?.into_iter();
        let name = class.metadata.name.as_deref();
        Ok(pools.filter(|pool| Some(pool.spec.template.spec.node_class_ref.name.as_str()) == name).collect())
    }

    /// Instance types that machines of this class have, and those its NodePools list.
    pub fn types_of(&self, class: &EC2NodeClass) -> Result<BTreeSet<String>, Unseen> {
        let pools = self.pools_of(class)?;
        let names: Vec<&str> = pools.iter().filter_map(|pool| pool.metadata.name.as_deref()).collect();
        let nodes = self.managed_nodes()?.into_iter().filter(|node| {
            let pool = label(node.metadata.labels.as_ref(), names::label::NODE_POOL);
            pool.is_some_and(|pool| names.contains(&pool))
        });
        let of_nodes =
            nodes.filter_map(|node| label(node.metadata.labels.as_ref(), names::label::INSTANCE_TYPE));
        let listed = pools.iter().flat_map(|pool| listed(pool, names::label::INSTANCE_TYPE));
        Ok(of_nodes.chain(listed).map(str::to_owned).collect())
    }

    /// Everything that was reported: conditions that are not `True`, warnings, the controller's log. The second
    /// part says what could not be read.
    pub fn words(&self) -> (Vec<Words>, Option<Unseen>) {
        let mut words = Vec::new();
        let mut unseen = None;
        let mut note = |why: Unseen| unseen = Some(why);
        match self.node_claims.get() {
            Ok(claims) => claims.decoded().iter().for_each(|claim| {
                let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice());
                words.extend(complaints("NodeClaim", claim.metadata.name.as_deref(), conditions));
            }),
            Err(why) => note(why),
        }
        match self.node_classes.get() {
            Ok(classes) => classes.decoded().iter().for_each(|class| {
                let conditions = class.status.as_ref().map(|status| status.conditions.as_slice());
                words.extend(complaints("EC2NodeClass", class.metadata.name.as_deref(), conditions));
            }),
            Err(why) => note(why),
        }
        match self.events.get() {
            Ok(events) => words.extend(events.iter().map(event_words)),
            Err(why) => note(why),
        }
        match self.log.get() {
            Ok(lines) => words.extend(
                lines.iter().map(|line| Words { object: "controller's log".to_owned(), text: line.clone() }),
            ),
            Err(why) => note(why),
        }
        (words, unseen)
    }

    /// Makes the kinds of which an object cannot be decoded unseen; returns whether there are any.
    pub(crate) fn hide_undecoded(&mut self) -> bool {
        fn hide<K: Resource<DynamicType = ()>>(answer: &mut Answer<Objects<K>>) -> bool {
            let Ok(Err(Unseen(why))) = answer.get().map(Objects::all) else { return false };
            *answer = Answer::Unseen(why);
            true
        }
        let hidden = [hide(&mut self.node_pools), hide(&mut self.node_claims), hide(&mut self.node_classes)];
        hidden.contains(&true)
    }
}

fn own_pools(pools: &[NodePool]) -> Vec<&NodePool> {
    pools.iter().filter(|pool| pool.spec.template.spec.node_class_ref.group != AUTO_MODE_GROUP).collect()
}

fn in_secret(variable: &str, namespace: &str, secret: &str) -> Unseen {
    Unseen(format!("{variable} may be set by Secret {namespace}/{secret}, which is not read"))
}

/// Values that a NodePool lists for a label with `In`.
pub(crate) fn listed<'a>(pool: &'a NodePool, key: &str) -> Vec<&'a str> {
    let requirements = pool.spec.template.spec.requirements.iter();
    let ours = requirements.filter(|found| found.key == key && found.operator == Operator::In);
    ours.flat_map(|found| found.values().iter().map(String::as_str)).collect()
}

/// Returns whether the requirements of a NodePool let a label of its nodes have this value.
pub(crate) fn allows(pool: &NodePool, key: &str, value: &str) -> bool {
    let requirements = convert::requirements(&LabelRegistry::core(), &pool.spec.template.spec.requirements);
    requirements.get(key).is_none_or(|requirement| requirement.allows(value))
}

fn complaints(kind: &str, name: Option<&str>, conditions: Option<&[Condition]>) -> Vec<Words> {
    let object = format!("{kind} {}", name.unwrap_or_default());
    conditions
        .unwrap_or_default()
        .iter()
        .filter(|condition| condition.status.as_str() != "True")
        .map(|condition| Words {
            object: object.clone(),
            text: format!(
                "{} is {}: {} {}",
                condition.kind,
                condition.status.as_str(),
                condition.reason,
                condition.message
            ),
        })
        .collect()
}

fn event_words(event: &Event) -> Words {
    let about = &event.involved_object;
    let (kind, name) = (about.kind.as_deref().unwrap_or("?"), about.name.as_deref().unwrap_or("?"));
    Words {
        object: match about.namespace.as_deref() {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        },
        text: format!(
            "{}: {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        ),
    }
}

/// Returns whether EKS Auto Mode launched the node. Its controller is outside of the cluster, holds no Lease in it, and works
/// on kinds of the same names and with the same finalizers.
pub(crate) fn is_of_auto_mode(node: &Node) -> bool {
    label(node.metadata.labels.as_ref(), COMPUTE_TYPE) == Some("auto")
}

/// The value of a label or annotation.
pub(crate) fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

/// Charts of the reference and ours give it this label; others are known by the one variable every Karpenter needs.
fn is_controller(deployment: &Deployment) -> bool {
    label(deployment.metadata.labels.as_ref(), "app.kubernetes.io/name") == Some("karpenter")
        || main_container(deployment).is_some_and(|container| {
            let image = container.image.as_deref().unwrap_or_default();
            image.contains("karpenter")
                && container.env.iter().flatten().any(|variable| variable.name == "CLUSTER_NAME")
        })
}

/// The container of the controller.
pub(crate) fn main_container(deployment: &Deployment) -> Option<&Container> {
    let containers = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
    let has_cluster = |container: &&Container| {
        container.env.iter().flatten().any(|variable| variable.name == "CLUSTER_NAME")
    };
    containers.iter().find(has_cluster).or_else(|| containers.first())
}
