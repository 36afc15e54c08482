//! Lists of built-in kinds that are maps or sets in disguise.
//!
//! The Kubernetes types carry this as struct tags; what matters to the objects of this simulator is small enough
//! for a table keyed by field name. A list that is not named here is replaced as a whole.

use serde_json::Value;

/// Way in which the entries of a list are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is one value.
    Atomic,
    /// Entries are maps with this identifying field.
    Keyed(&'static str),
    /// Entries are scalars that occur once.
    Set,
}

/// Kind of the list under `field`, judged by its name and the form of an entry.
pub(crate) fn kind_of(field: &str, entries: &[Value]) -> ListKind {
    let keyed_by = |key: &'static str| {
        let identified = entries.iter().all(|e| e.get(key).is_some() || e.get("$patch").is_some());
        if identified { ListKind::Keyed(key) } else { ListKind::Atomic }
    };
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "schedulingGates"
        | "resourceClaims" => keyed_by("name"),
        "conditions" | "addresses" => keyed_by("type"),
        "ownerReferences" => keyed_by("uid"),
        "volumeMounts" => keyed_by("mountPath"),
        "volumeDevices" => keyed_by("devicePath"),
        "topologySpreadConstraints" => keyed_by("topologyKey"),
        "hostAliases" => keyed_by("ip"),
        "ports" if entries.iter().all(|e| e.get("containerPort").is_some()) => keyed_by("containerPort"),
        "ports" => keyed_by("port"),
        "finalizers" | "podCIDRs" => ListKind::Set,
        _ => ListKind::Atomic,
    }
}
