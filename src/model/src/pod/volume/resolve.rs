//! From claim, volume and storage class to a [`Volume`]: one function over slim objects, which the caller
//! that watches Kubernetes passes in (spec scheduling 19).
//!
//! A claim that cannot be used keeps its first problem in the order the reference checks; the pod is then left
//! alone with that reason. A bound claim does not need its class any more.

use std::collections::BTreeSet;

use crate::id::{DriverName, LabelKey};
use crate::names::label;
use crate::pod::volume::{Access, Volume};
use crate::requirement::Expression;

/// A `PersistentVolumeClaim`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimFacts {
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// `status.phase` is `Lost`.
    pub lost: bool,
    /// `spec.volumeName`; an empty name counts as none.
    pub volume: Option<String>,
    /// It has the annotation [`BIND_COMPLETED`](crate::names::annotation::BIND_COMPLETED).
    pub bind_completed: bool,
    /// `spec.storageClassName`; an empty name counts as none.
    pub class: Option<String>,
    /// By `spec.accessModes`.
    pub access: Access,
}

/// Where a `PersistentVolume` comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A CSI driver.
    Csi(DriverName),
    /// The in-tree EBS plugin, which is served by its CSI driver.
    AwsElasticBlockStore,
    /// A disk or directory of one host.
    Host,
    /// Anything else; it is not attached by a driver we count.
    Other,
}

/// A `PersistentVolume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Where it comes from.
    pub source: Source,
    /// `spec.nodeAffinity.required`: the expressions of each term.
    pub terms: Vec<Vec<Expression>>,
}

/// A `StorageClass`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassFacts {
    /// `provisioner`.
    pub provisioner: String,
    /// `volumeBindingMode` is `WaitForFirstConsumer`.
    pub waits_for_consumer: bool,
    /// `allowedTopologies`: the expressions of each term.
    pub topologies: Vec<Vec<Expression>>,
}

/// What a provider cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsupported {
    /// Topology keys of storage classes.
    pub topology_keys: BTreeSet<LabelKey>,
    /// Drivers.
    pub drivers: BTreeSet<DriverName>,
}

/// What `claim` means for placement. `volume` and `class` look objects up by name; a claim that is `None` does
/// not exist.
pub fn resolve<'o>(
    claim: Option<&ClaimFacts>,
    volume: impl Fn(&str) -> Option<&'o VolumeFacts>,
    class: impl Fn(&str) -> Option<&'o ClassFacts>,
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
        (Some(name), _) => match volume(&name) {
            None => Err(format!("its volume `{name}` does not exist")),
            Some(volume) if volume.deleting => Err(format!("its volume `{name}` is being deleted")),
            Some(_) if !claim.bind_completed => Err(format!("binding to volume `{name}` is not complete")),
            Some(volume) => Ok(bound(volume)),
        },
        (None, None) => Err("it is not bound and has no storage class".to_owned()),
        (None, Some(name)) => match class(&name) {
            None => Err(format!("its storage class `{name}` does not exist")),
            Some(class) if !class.waits_for_consumer => {
                Err("it is not bound and is bound without waiting for a pod".to_owned())
            }
            Some(class) => unbound(&name, class, unsupported),
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

/// A bound volume goes where its node affinity says. That of local volumes names one host, which cannot be
/// launched again, so host names are dropped from them.
fn bound(volume: &VolumeFacts) -> Volume {
    let kept = |expression: &&Expression| volume.source != Source::Host || expression.key != label::HOSTNAME;
    let terms = volume.terms.iter().map(|term| term.iter().filter(kept).cloned().collect());
    let driver = match &volume.source {
        Source::Csi(driver) => Some(driver.clone()),
        Source::AwsElasticBlockStore => Some("ebs.csi.aws.com".into()),
        Source::Host | Source::Other => None,
    };
    Volume { driver, alternatives: terms.collect(), ..Volume::default() }
}

fn unbound(name: &str, class: &ClassFacts, unsupported: &Unsupported) -> Result<Volume, String> {
    let keys = class.topologies.iter().flatten().map(|expression| &expression.key);
    if let Some(key) = keys.into_iter().find(|key| unsupported.topology_keys.contains(*key)) {
        return Err(format!("storage class `{name}` restricts `{key}`, which is not supported"));
    }
    Ok(Volume {
        driver: Some(csi_name(&class.provisioner)).filter(|driver| !driver.as_str().is_empty()),
        alternatives: class.topologies.clone(),
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
