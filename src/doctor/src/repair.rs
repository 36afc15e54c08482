//! The fixes that are safe to carry out: they change metadata, or make what is missing, and can be repeated.

use std::fmt;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::Clients;
use karpenter_model::names::finalizer::TERMINATION;
use kube::api::{Api, Patch, PatchParams};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Permission that repairs of the account need beyond those for reading.
pub(crate) const PERMISSION: &str = "iam:CreateServiceLinkedRole";

/// One safe fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Repair {
    /// Make the service-linked role for spot.
    CreateSpotRole,
    /// Remove our finalizer from a node that no controller ends any more.
    DropFinalizer { node: String },
    /// Label and annotate a definition as a Helm release's.
    GiveToRelease { definition: String, release: String, namespace: String },
    /// Change an annotation of an EC2NodeClass, so that it is validated again.
    Touch { class: String },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateSpotRole => write!(f, "create the service-linked role for spot"),
            Self::DropFinalizer { node } => write!(f, "remove {TERMINATION} from Node {node}"),
            Self::GiveToRelease { definition, release, namespace } => {
                write!(f, "give CustomResourceDefinition {definition} to release {release} in {namespace}")
            }
            Self::Touch { class } => {
                write!(f, "annotate EC2NodeClass {class}, so that it is validated again")
            }
        }
    }
}

/// Connections for repairs: the clients that were reached.
// No `Debug`: the client has none.
#[derive(Clone, Default)]
pub struct Connections {
    pub kubernetes: Option<kube::Client>,
    pub aws: Option<Clients>,
}

/// A repair that was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("cannot {repair}: no connection, run against the live cluster and account")]
    NotConnected { repair: Repair },
    #[error("cannot {repair}")]
    Kubernetes {
        repair: Repair,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot {repair}")]
    Aws {
        repair: Repair,
        #[source]
        source: karpenter_aws_api::Error,
    },
}

/// Carries out one repair. `stamp` is the value of annotations that only have to change.
pub async fn repair(connections: &Connections, repair: &Repair, stamp: &str) -> Result<(), RepairError> {
    let not_connected = || RepairError::NotConnected { repair: repair.clone() };
    let client = || connections.kubernetes.clone().ok_or_else(not_connected);
    let refused =
        |error: kube::Error| RepairError::Kubernetes { repair: repair.clone(), source: Box::new(error) };
    match repair {
        Repair::CreateSpotRole => {
            let aws = connections.aws.as_ref().ok_or_else(not_connected)?;
            let made = create_spot_role(aws).await;
            made.map_err(|source| RepairError::Aws { repair: repair.clone(), source })
        }
        Repair::DropFinalizer { node } => drop_finalizer(client()?, node).await.map_err(refused),
        Repair::GiveToRelease { definition, release, namespace } => {
            let change = json!({"metadata": {
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {
                    "meta.helm.sh/release-name": release,
                    "meta.helm.sh/release-namespace": namespace,
                },
            }});
            merge::<CustomResourceDefinition>(client()?, definition, change).await.map_err(refused)
        }
        Repair::Touch { class } => {
            let change = json!({"metadata": {"annotations": {"karpenter.k8s.aws/validate-again": stamp}}});
            merge::<EC2NodeClass>(client()?, class, change).await.map_err(refused)
        }
    }
}

/// Another client may have made it since the check.
async fn create_spot_role(aws: &Clients) -> Result<(), karpenter_aws_api::Error> {
    match aws.iam.create_service_linked_role("spot.amazonaws.com").await {
        Err(error) if error.kind != karpenter_aws_api::Kind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Lists are replaced whole, so the node is read first and only patched if it has not changed since.
async fn drop_finalizer(client: kube::Client, node: &str) -> kube::Result<()> {
    let Some(found) = Api::<Node>::all(client.clone()).get_opt(node).await? else { return Ok(()) };
    let kept: Vec<&String> =
        found.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != TERMINATION).collect();
    let change =
        json!({"metadata": {"finalizers": kept, "resourceVersion": found.metadata.resource_version}});
    merge::<Node>(client, node, change).await
}

async fn merge<K>(client: kube::Client, name: &str, change: Value) -> kube::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::<K>::all(client).patch(name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
}
