//! A stand-in for the EBS CSI driver on a real control plane: it registers on nodes, makes volumes where the scheduler wants
//! them, says that they are attached, and deletes those that are released.
//!
//! All else is the control plane's: the scheduler selects a node for a claim that waits for its first pod and counts
//! volumes against the limit of a node, the controller manager makes claims of ephemeral volumes, binds, attaches and
//! detaches. No data is kept: machines are played.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_model::names::{annotation, label};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::manifests::apply_json;
use crate::wait;

/// Its name, which storage classes have as their provisioner.
pub const DRIVER: &str = "ebs.csi.aws.com";
/// Label that it puts on nodes, and that its volumes select.
pub const ZONE: &str = "topology.ebs.csi.aws.com/zone";
const EVERY: Duration = Duration::from_millis(250);

/// The driver of a cluster.
#[derive(Clone)]
pub struct Driver {
    client: Client,
    /// Volumes that a node attaches.
    limit: u32,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver of which a node attaches `limit` volumes.
    pub fn new(client: Client, limit: u32) -> Self {
        Self { client, limit }
    }

    /// Serves the cluster until the future is dropped.
    ///
    /// # Errors
    /// When the API server refuses something for good.
    pub async fn serve(&self) -> Result<Infallible> {
        loop {
            match self.pass().await {
                Err(error) if !wait::is_passing(&error) => return Err(error.context("serve volumes")),
                Ok(()) | Err(_) => tokio::time::sleep(EVERY).await,
            }
        }
    }

    async fn pass(&self) -> Result<()> {
        let nodes: Vec<Node> = self.all().await?;
        self.register(&nodes).await?;
        self.provision(&nodes).await?;
        self.attach().await?;
        self.reclaim().await
    }

    /// Tells the scheduler of each new node how many volumes it attaches and where it is.
    async fn register(&self, nodes: &[Node]) -> Result<()> {
        let known: Vec<CSINode> = self.all().await?;
        for node in nodes {
            let (name, zone) = (node.name_any(), node.labels().get(label::ZONE));
            let is_known = known.iter().any(|one| one.name_any() == name);
            let Some(zone) = zone.filter(|_| !is_known && node.metadata.deletion_timestamp.is_none()) else {
                continue;
            };
            let labels = json!({"metadata": {"labels": {ZONE: zone}}});
            let api: Api<Node> = Api::all(self.client.clone());
            let labelled = api.patch(&name, &PatchParams::default(), &Patch::Merge(&labels)).await;
            if gone(labelled).context("label a node")?.is_none() {
                continue;
            }
            let driver = json!({
                "name": DRIVER, "nodeID": node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or(&name),
                "topologyKeys": [ZONE], "allocatable": {"count": self.limit},
            });
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid()});
            let registered = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"drivers": [driver]},
            });
            apply_json(&self.client, registered).await?;
        }
        Ok(())
    }

    /// Makes a volume for each claim that the scheduler has selected a node for.
    async fn provision(&self, nodes: &[Node]) -> Result<()> {
        let classes: Vec<StorageClass> = self.all().await?;
        let claims: Vec<PersistentVolumeClaim> = self.all().await?;
        for claim in claims {
            let Some(spec) = claim.spec.as_ref().filter(|spec| spec.volume_name.is_none()) else { continue };
            let class = classes.iter().find(|class| Some(class.name_any()) == spec.storage_class_name);
            let ours = class.filter(|class| class.provisioner == DRIVER);
            let selected = claim.annotations().get(annotation::SELECTED_NODE);
            let node = selected.and_then(|name| nodes.iter().find(|node| node.name_any() == *name));
            let Some((class, zone)) = ours.zip(node.and_then(|node| node.labels().get(label::ZONE))) else {
                continue;
            };
            let name = format!("pvc-{}", claim.uid().unwrap_or_default());
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "accessModes": spec.access_modes,
                    "capacity": spec.resources.as_ref().and_then(|asked| asked.requests.as_ref()),
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": claim.namespace(), "name": claim.name_any(), "uid": claim.uid(),
                    },
                    "csi": {"driver": DRIVER, "volumeHandle": name},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": ZONE, "operator": "In", "values": [zone]},
                    ]}]}},
                    "persistentVolumeReclaimPolicy": class.reclaim_policy,
                    "storageClassName": spec.storage_class_name,
                },
            });
            apply_json(&self.client, volume).await?;
        }
        Ok(())
    }

    /// Says that what is to be attached is.
    async fn attach(&self) -> Result<()> {
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        for attachment in self.all::<VolumeAttachment>().await? {
            let is_done = attachment.status.as_ref().is_some_and(|status| status.attached);
            if attachment.spec.attacher != DRIVER || is_done {
                continue;
            }
            let attached = json!({"status": {"attached": true}});
            let name = attachment.name_any();
            let patched = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&attached)).await;
            gone(patched).context("attach a volume")?;
        }
        Ok(())
    }

    /// Deletes volumes whose claim is gone.
    async fn reclaim(&self) -> Result<()> {
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        for volume in self.all::<PersistentVolume>().await? {
            let spec = volume.spec.as_ref();
            let ours = spec.and_then(|spec| spec.csi.as_ref()).is_some_and(|csi| csi.driver == DRIVER);
            let deletes =
                spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            if ours && deletes && phase == Some("Released") {
                gone(api.delete(&volume.name_any(), &DeleteParams::default()).await)
                    .context("delete a volume")?;
            }
        }
        Ok(())
    }

    async fn all<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let kind = K::kind(&());
        let api: Api<K> = Api::all(self.client.clone());
        Ok(api
            .list(&ListParams::default())
            .await
            .with_context(|| format!("list objects of kind {kind}"))?
            .items)
    }
}

/// `None` for what is gone by now.
fn gone<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        answer => answer.map(Some),
    }
}
