//! Volumes: bound ones in a zone, and claims that wait for their first consumer.

use fastrand::Rng;
use karpenter_model::names::{annotation, label};
use serde_json::{Value, json};

use super::{happens, one};
use crate::catalogue::ZONES;

const DRIVER: &str = "ebs.csi.aws.com";

/// Storage classes of every world.
pub(super) fn classes() -> Vec<Value> {
    let class = |name: &str, mode: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": DRIVER, "volumeBindingMode": mode, "reclaimPolicy": "Delete"})
    };
    let mut zonal = class("zonal", "WaitForFirstConsumer");
    zonal["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": label::ZONE, "values": ZONES[1..]}]}]);
    let mut default = class("gp3", "WaitForFirstConsumer");
    default["metadata"]["annotations"] = json!({(annotation::DEFAULT_CLASS): "true"});
    vec![default, zonal, class("now", "Immediate")]
}

/// Kind of the volumes of an app.
pub(super) struct Kind {
    /// In which of these zones bound volumes are; claims wait where there is none.
    zones: Vec<&'static str>,
    class: &'static str,
    /// All pods mount one claim.
    shared: bool,
    /// Pods bring their claim.
    ephemeral: bool,
    mode: &'static str,
}

/// The volumes of an app; most have none.
pub(super) fn kind(rng: &mut Rng) -> Option<Kind> {
    happens(rng, 30).then(|| {
        let bound = happens(rng, 60);
        let shared = happens(rng, 20);
        let mode = match rng.u32(0..10) {
            0 => "ReadWriteOncePod",
            1 if shared => "ReadWriteMany",
            _ => "ReadWriteOnce",
        };
        let zones = match (bound, happens(rng, 50)) {
            (true, true) => ZONES.to_vec(),
            (true, false) => vec![*one(rng, &ZONES)],
            (false, _) => Vec::new(),
        };
        let class = *one(rng, &["gp3", "gp3", "gp3", "zonal"]);
        Kind { zones, class, shared, ephemeral: happens(rng, 15), mode }
    })
}

/// The volume of a pod, what distinguishes pods of one app by it, and objects that are not there yet.
pub(super) fn volume(
    kind: &Kind,
    app: usize,
    number: usize,
    namespace: &str,
    rng: &mut Rng,
) -> (Value, String, Vec<Value>) {
    if kind.ephemeral {
        let mut spec =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        if kind.class != "gp3" {
            spec["storageClassName"] = json!(kind.class);
        }
        let volume = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
        return (volume, kind.class.to_owned(), Vec::new());
    }
    let (claim, distinction, made) = claim(kind, app, number, namespace, rng);
    (json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}}), distinction, made)
}

/// The claim of a pod, with its volume if it is bound: its name, what distinguishes pods of one app by it, and objects that
/// are not there yet.
fn claim(
    kind: &Kind,
    app: usize,
    number: usize,
    namespace: &str,
    rng: &mut Rng,
) -> (String, String, Vec<Value>) {
    let name = if kind.shared { format!("claim-a{app}") } else { format!("claim-a{app}-{number}") };
    let made = !kind.shared || number == 0;
    let zone = (!kind.zones.is_empty()).then(|| *one(rng, &kind.zones));
    let distinction = if kind.shared { "shared".to_owned() } else { zone.unwrap_or(kind.class).to_owned() };
    if !made {
        return (name, distinction, Vec::new());
    }
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "annotations": {}},
        "spec": {"accessModes": [kind.mode], "storageClassName": kind.class,
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    let Some(zone) = zone else { return (name, distinction, vec![claim]) };
    let volume_name = format!("pv-{name}");
    claim["spec"]["volumeName"] = json!(volume_name);
    claim["status"]["phase"] = json!("Bound");
    claim["metadata"]["annotations"] = json!({
        (annotation::BIND_COMPLETED): "yes", "pv.kubernetes.io/bound-by-controller": "yes",
    });
    let in_zone = json!({"key": label::ZONE, "operator": "In", "values": [zone]});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume_name, "uid": volume_name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": [kind.mode], "storageClassName": kind.class,
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": name,
                "uid": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        },
        "status": {"phase": "Bound"},
    });
    (name, distinction, vec![volume, claim])
}
