//! Resolves claim, volume and storage class to a [`Volume`]: one function over slim objects, which the caller
//! that watches Kubernetes passes in (spec scheduling 19).
//!
//! A claim that cannot be used keeps its first problem in the order the reference checks; the pod is then left
//! alone with that reason. A bound claim does not need its class any more.

use std::collections::BTreeSet;

use crate::id::{DriverName, LabelKey, Namespace, NodeName, VolumeClaimName};
use crate::names::label;
use crate::pod::volume::{Access, FreeVolume, Tie, Volume};
use crate::requirement::Expression;
use crate::resources::quantity::Quantity;

/// The provisioner of classes whose volumes people or daemons create.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// CSI drivers whose volumes are in one zone: that of EBS, and of EKS Auto Mode. File systems are reached from every zone.
const ZONAL: [&str; 2] = ["ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com"];

/// A `PersistentVolumeClaim`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimFacts {
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// `status.phase` is `Lost`.
    pub lost: bool,
    /// `spec.volumeName`; an empty name counts as none.
    pub volume: Option<String>,
    /// True if it has the annotation [`BIND_COMPLETED`](crate::names::annotation::BIND_COMPLETED).
    pub bind_completed: bool,
    /// `spec.storageClassName`; an empty name counts as none.
    pub class: Option<String>,
    /// Access that `spec.accessModes` asks for.
    pub access: Access,
    /// The annotation [`SELECTED_NODE`](crate::names::annotation::SELECTED_NODE).
    pub selected_node: Option<NodeName>,
    /// Form that the volume must have.
    pub form: Form,
}

/// Form of a volume, and the form a claim requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// `spec.capacity.storage`, or what is requested of it.
    pub storage: Quantity,
    /// `spec.accessModes`.
    pub modes: BTreeSet<String>,
    /// `spec.volumeMode` is `Block`.
    pub block: bool,
}

impl Form {
    /// Returns whether a claim that requests `asked` may be bound to it.
    pub fn serves(&self, asked: &Self) -> bool {
        self.storage >= asked.storage && self.modes.is_superset(&asked.modes) && self.block == asked.block
    }
}

/// Source of a `PersistentVolume`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    Csi(DriverName),
    /// The in-tree EBS plugin, which is served by its CSI driver.
    AwsElasticBlockStore,
    /// A disk or directory of one host.
    Host,
    /// Anything else; it is not attached by a driver we count.
    #[default]
    Other,
}

/// A `PersistentVolume`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeFacts {
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// Source of the volume.
    pub source: Source,
    /// `spec.nodeAffinity.required`: the expressions of each term.
    pub terms: Vec<Vec<Expression>>,
    /// `spec.storageClassName`; an empty name counts as none.
    pub class: Option<String>,
    /// `spec.claimRef`: the claim it is kept for.
    pub claim: Option<(Namespace, VolumeClaimName)>,
    /// Form of the volume.
    pub form: Form,
}

/// A `StorageClass`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassFacts {
    pub provisioner: String,
    /// `volumeBindingMode` is `WaitForFirstConsumer`.
    pub waits_for_consumer: bool,
    /// `allowedTopologies`: the expressions of each term.
    pub topologies: Vec<Vec<Expression>>,
}

/// Volumes that a provider cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsupported {
    /// Topology keys of storage classes.
    pub topology_keys: BTreeSet<LabelKey>,
    pub drivers: BTreeSet<DriverName>,
}

/// The objects that define what claims mean.
pub trait Objects {
    /// The volume `name`.
    fn volume(&self, name: &str) -> Option<&VolumeFacts>;
    /// The storage class `name`.
    fn class(&self, name: &str) -> Option<&ClassFacts>;
    /// All volumes of the class `name`, by name.
    fn of_class(&self, name: &str) -> Vec<(&str, &VolumeFacts)>;
}

/// Resolves the claim `key`, which is `claim`, for placement; a claim that is `None` does not exist.
pub fn resolve(
    key: &(Namespace, VolumeClaimName),
    claim: Option<&ClaimFacts>,
    objects: &impl Objects,
    unsupported: &Unsupported,
) -> Volume {
    let named = |name: &'_ Option<String>| name.clone().filter(|name| !name.is_empty());
    let problem = |text: &str| Volume { problem: Some(text.to_owned()), ..Volume::default() };
    let Some(claim) = claim else { return problem("it does not exist") };
    if claim.deleting {
        return problem("it is being deleted");
    }
    if claim.lost {
        return problem("its volume is lost");
    }
    let resolved = match (named(&claim.volume), named(&claim.class)) {
        (Some(name), _) => match objects.volume(&name) {
            None => Err(format!("its volume `{name}` does not exist")),
            Some(volume) if volume.deleting => Err(format!("its volume `{name}` is being deleted")),
            Some(_) if !claim.bind_completed => Err(format!("binding to volume `{name}` is not complete")),
            Some(volume) => Ok(bound(volume)),
        },
        (None, None) => Err("it is not bound and has no storage class".to_owned()),
        (None, Some(name)) => match objects.class(&name) {
            None => Err(format!("its storage class `{name}` does not exist")),
            Some(class) if !class.waits_for_consumer => {
                Err("it is not bound and is bound without waiting for a pod".to_owned())
            }
            Some(class) => match &claim.selected_node {
                None if class.provisioner == NO_PROVISIONER => free(key, claim, &name, objects),
                node => unbound(&name, class, unsupported)
                    .map(|volume| Volume { tie: node.clone().map_or(volume.tie, Tie::Node), ..volume }),
            },
        },
    };
    let served = resolved.and_then(|volume| match &volume.driver {
        Some(driver) if unsupported.drivers.contains(driver) => {
            Err(format!("its driver `{driver}` is not supported"))
        }
        _ => Ok(Volume { access: claim.access, ..volume }),
    });
    served.unwrap_or_else(|text| problem(&text))
}

/// A bound volume goes where its node affinity says. That of local volumes names one host.
fn bound(volume: &VolumeFacts) -> Volume {
    let names_host = volume.terms.iter().flatten().any(|expression| expression.key == label::HOSTNAME);
    let tie = if volume.source == Source::Host && names_host { Tie::Disk } else { Tie::None };
    let driver = match &volume.source {
        Source::Csi(driver) => Some(driver.clone()),
        Source::AwsElasticBlockStore => Some("ebs.csi.aws.com".into()),
        Source::Host | Source::Other => None,
    };
    Volume { driver, alternatives: volume.terms.clone(), tie, ..Volume::default() }
}

/// A claim of a class that provisions nothing is bound to a volume that is there. On disks of hosts new ones may come with
/// new nodes; so they may where no volume of the class is known at all.
fn free(
    key: &(Namespace, VolumeClaimName),
    claim: &ClaimFacts,
    class: &str,
    objects: &impl Objects,
) -> Result<Volume, String> {
    let all = objects.of_class(class);
    let is_free = |volume: &VolumeFacts| {
        !volume.deleting
            && volume.claim.as_ref().is_none_or(|kept_for| kept_for == key)
            && volume.form.serves(&claim.form)
    };
    let free: Vec<_> = all.iter().filter(|(_, volume)| is_free(volume)).collect();
    if all.is_empty() || all.iter().any(|(_, volume)| volume.source == Source::Host) {
        let named = |(name, volume): &&(&str, &VolumeFacts)| FreeVolume {
            name: (*name).to_owned(),
            alternatives: volume.terms.clone(),
        };
        return Ok(Volume { tie: Tie::Free(free.iter().map(named).collect()), ..Volume::default() });
    }
    if free.is_empty() {
        return Err(format!("no volume of its storage class `{class}` is free, and nothing provisions one"));
    }
    let everywhere = free.iter().any(|(_, volume)| volume.terms.is_empty());
    let terms = free.iter().filter(|_| !everywhere).flat_map(|(_, volume)| volume.terms.iter().cloned());
    Ok(Volume { alternatives: terms.collect(), ..Volume::default() })
}

fn unbound(name: &str, class: &ClassFacts, unsupported: &Unsupported) -> Result<Volume, String> {
    let keys = class.topologies.iter().flatten().map(|expression| &expression.key);
    if let Some(key) = keys.into_iter().find(|key| unsupported.topology_keys.contains(*key)) {
        return Err(format!("storage class `{name}` restricts `{key}`, which is not supported"));
    }
    let driver = Some(csi_name(&class.provisioner)).filter(|driver| !driver.as_str().is_empty());
    let is_zonal = driver.as_ref().is_some_and(|driver| ZONAL.contains(&driver.as_str()));
    Ok(Volume {
        driver,
        alternatives: class.topologies.clone(),
        tie: if is_zonal { Tie::Zone } else { Tie::None },
        ..Volume::default()
    })
}

/// The CSI driver that took over from an in-tree plugin; other names stand for themselves.
fn csi_name(provisioner: &str) -> DriverName {
    let migrated = [
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
        ("kubernetes.io/azure-file", "file.csi.azure.com"),
        ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
        ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ];
    let driver = migrated.iter().find(|(plugin, _)| *plugin == provisioner).map(|(_, driver)| *driver);
    driver.unwrap_or(provisioner).into()
}

#[cfg(test)]
mod tests;
