//! What the API server says.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Event, Node, PersistentVolume, Pod, ServiceAccount};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{Condition, EC2NodeClass, NodeClaim, NodePool};
use serde::{Deserialize, Serialize};

use super::{Answer, Unseen};

/// Answers of the API server: each list is of the whole cluster unless it says otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    pub nodes: Answer<Vec<Node>>,
    /// Without environment variables, which may hold secrets.
    pub pods: Answer<Vec<Pod>>,
    pub deployments: Answer<Vec<Deployment>>,
    pub daemon_sets: Answer<Vec<DaemonSet>>,
    pub budgets: Answer<Vec<PodDisruptionBudget>>,
    pub volumes: Answer<Vec<PersistentVolume>>,
    pub storage_classes: Answer<Vec<StorageClass>>,
    pub definitions: Answer<Vec<CustomResourceDefinition>>,
    pub node_pools: Answer<Vec<NodePool>>,
    pub node_claims: Answer<Vec<NodeClaim>>,
    pub node_classes: Answer<Vec<EC2NodeClass>>,
    pub events: Answer<Vec<Event>>,
    /// Of `kube-system`.
    pub config_maps: Answer<Vec<ConfigMap>>,
    pub service_accounts: Answer<Vec<ServiceAccount>>,
    pub flow_schemas: Answer<Vec<FlowSchema>>,
    /// The last lines of the controller's log.
    pub log: Answer<Vec<String>>,
}

/// Something that was said, and by whom.
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

    /// An environment variable of the controller; `None` when it is not set or there is no controller.
    pub fn setting(&self, name: &str) -> Result<Option<String>, Unseen> {
        let container = self.controller()?.and_then(main_container);
        let variables = container.iter().flat_map(|container| container.env.iter().flatten());
        let found = variables.filter(|variable| variable.name == name).find_map(|found| found.value.clone());
        Ok(found.filter(|value| !value.is_empty()))
    }

    /// Nodes that Karpenter launched.
    pub fn managed_nodes(&self) -> Result<Vec<&Node>, Unseen> {
        Ok(self.nodes.get()?.iter().filter(|node| is_managed(node)).collect())
    }

    /// Everything that was reported: conditions that are not `True`, warnings, the controller's log. The second
    /// part says what could not be read.
    pub fn words(&self) -> (Vec<Words>, Option<Unseen>) {
        let mut words = Vec::new();
        let mut unseen = None;
        let mut note = |why: Unseen| unseen = Some(why);
        match self.node_claims.get() {
            Ok(claims) => claims.iter().for_each(|claim| {
                let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice());
                words.extend(complaints("NodeClaim", claim.metadata.name.as_deref(), conditions));
            }),
            Err(why) => note(why),
        }
        match self.node_classes.get() {
            Ok(classes) => classes.iter().for_each(|class| {
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
    Words {
        object: format!("{} {}", about.kind.as_deref().unwrap_or("?"), about.name.as_deref().unwrap_or("?")),
        text: format!(
            "{}: {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        ),
    }
}

/// Whether Karpenter launched the node.
pub(crate) fn is_managed(node: &Node) -> bool {
    label(node.metadata.labels.as_ref(), "karpenter.sh/nodepool").is_some()
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
