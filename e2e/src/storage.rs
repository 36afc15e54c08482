//! A stand-in for the EBS CSI driver on a real control plane: it registers on nodes, makes volumes where the scheduler wants
//! them and their class allows them, says that they are attached, and deletes those that are released.
//!
//! All else is the control plane's: the scheduler selects a node for a claim that waits for its first pod and counts
//! volumes against the limit of a node, the controller manager makes claims of ephemeral volumes, binds, attaches and
//! detaches. No data is kept: machines are played.
//!
//! As the driver does it, a node that starts with [`NOT_READY`] gets rid of that taint once its limit is known; on one
//! without, pods may be bound before.

use std::collections::BTreeSet;
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
/// Startup taint of nodes whose driver has not registered yet.
pub const NOT_READY: &str = "ebs.csi.aws.com/agent-not-ready";
const EVERY: Duration = Duration::from_millis(250);

/// The driver of a cluster.
#[derive(Clone)]
pub struct Driver {
    client: Client,
    /// Label selector of the nodes that it serves.
    nodes: String,
    /// Volumes that a node attaches.
    limit: u32,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut driver = f.debug_struct("Driver");
        driver.field("nodes", &self.nodes).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver on the nodes that a label selector names, each of which attaches `limit` volumes.
    pub fn new(client: Client, nodes: String, limit: u32) -> Self {
        Self { client, nodes, limit }
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
        let nodes = self.list(&ListParams::default().labels(&self.nodes)).await?;
        self.register(&nodes).await?;
        self.provision(&nodes).await?;
        self.attach().await?;
        self.reclaim().await
    }

    /// Reports to the scheduler how many volumes each new node attaches and where the node is.
    async fn register(&self, nodes: &[Node]) -> Result<()> {
        let known: Vec<CSINode> = self.all().await?;
        for node in nodes {
            let (name, zone) = (node.name_any(), node.labels().get(label::ZONE));
            if known.iter().any(|one| one.name_any() == name) {
                self.open(node).await?;
                continue;
            }
            let Some(zone) = zone.filter(|_| node.metadata.deletion_timestamp.is_none()) else { continue };
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

    /// Takes the startup taint off a node that is registered.
    async fn open(&self, node: &Node) -> Result<()> {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let others: Vec<_> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
        if others.len() == taints.len() {
            return Ok(());
        }
        // Other clients change the list, too; then the next pass tries again.
        let version = &node.metadata.resource_version;
        let change = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": others}});
        let api: Api<Node> = Api::all(self.client.clone());
        match api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            patched => gone(patched).context("take the startup taint off a node").map(drop),
        }
    }

    /// Makes a volume for each claim of a class that binds at once, or that the scheduler has selected a node for.
    async fn provision(&self, nodes: &[Node]) -> Result<()> {
        let classes: Vec<StorageClass> = self.all().await?;
        let claims: Vec<PersistentVolumeClaim> = self.all().await?;
        for claim in claims {
            let Some(spec) = claim.spec.as_ref().filter(|spec| spec.volume_name.is_none()) else { continue };
            let class = classes.iter().find(|class| Some(class.name_any()) == spec.storage_class_name);
            let ours = class.filter(|class| class.provisioner == DRIVER);
            let Some(class) = ours else { continue };
            let Some(zone) = zone_of(&claim, class, nodes) else { continue };
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
        self.list(&ListParams::default()).await
    }

    async fn list<K>(&self, selected: &ListParams) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let kind = K::kind(&());
        let api: Api<K> = Api::all(self.client.clone());
        Ok(api.list(selected).await.with_context(|| format!("list objects of kind {kind}"))?.items)
    }
}

/// Zone in which the volume of a claim is made; `None` while that is open, or where the class does not allow it.
fn zone_of(claim: &PersistentVolumeClaim, class: &StorageClass, nodes: &[Node]) -> Option<String> {
    let allowed = allowed_zones(class);
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    if !waits && allowed.is_some() {
        return allowed?.into_iter().next();
    }
    let selected = claim.annotations().get(annotation::SELECTED_NODE);
    let reached = nodes.iter().filter(|node| !waits || selected == Some(&node.name_any()));
    let zones = reached.filter_map(|node| node.labels().get(label::ZONE));
    zones.filter(|zone| allowed.as_ref().is_none_or(|allowed| allowed.contains(*zone))).min().cloned()
}

/// Zones in which a class allows volumes; `None` where it allows all.
fn allowed_zones(class: &StorageClass) -> Option<BTreeSet<String>> {
    let terms = class.allowed_topologies.as_ref().filter(|terms| !terms.is_empty())?;
    let places = terms.iter().flat_map(|term| term.match_label_expressions.iter().flatten());
    let zones = places.filter(|place| place.key == ZONE || place.key == label::ZONE);
    Some(zones.flat_map(|place| place.values.iter().cloned()).collect())
}

/// `None` for what is gone by now.
fn gone<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        answer => answer.map(Some),
    }
}
