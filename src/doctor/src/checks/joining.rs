//! Permissions of nodes to join the cluster: access entries, and `aws-auth`, as far as the authentication mode has either
//! count.

use serde::Deserialize;

use crate::facts::{AccessEntry, Facts, Unseen};

/// Only `aws-auth` counts, and EKS refuses questions about entries.
const MAP_ONLY: &str = "CONFIG_MAP";
/// Only access entries count.
const ENTRIES_ONLY: &str = "API";

/// Mapping of a role in `aws-auth`.
#[derive(Debug, Deserialize)]
pub(super) struct Mapping {
    rolearn: String,
    #[serde(default)]
    groups: Vec<String>,
}

impl Mapping {
    /// Returns whether it maps the role of this name. EKS leaves roles out that are written with their path.
    pub(super) fn is_of(&self, role: &str) -> bool {
        self.rolearn.rsplit_once(":role/").is_some_and(|(_, name)| name == role)
    }

    /// Returns whether it puts the role into this group.
    pub(super) fn gives(&self, group: &str) -> bool {
        self.groups.iter().any(|given| given == group)
    }
}

/// The mode, if EKS knows the cluster: a cluster from before there were modes has the map.
pub(super) fn mode(facts: &Facts) -> Result<Option<&str>, Unseen> {
    let cluster = facts.account.eks.get()?.as_ref();
    Ok(cluster.map(|cluster| cluster.authentication_mode.as_deref().unwrap_or(MAP_ONLY)))
}

/// Access entries that count.
pub(super) fn entries(facts: &Facts) -> Result<&[AccessEntry], Unseen> {
    if mode(facts)? == Some(MAP_ONLY) {
        return Ok(&[]);
    }
    facts.account.access_entries.get().map(Vec::as_slice)
}

/// Returns the mappings in `aws-auth` where that counts; none where it does not exist.
pub(super) fn mappings(facts: &Facts) -> Result<Vec<Mapping>, Unseen> {
    if mode(facts)? == Some(ENTRIES_ONLY) {
        return Ok(Vec::new());
    }
    let map = facts.cluster.config_map("kube-system", "aws-auth")?;
    let roles = map.and_then(|map| map.data.as_ref()?.get("mapRoles"));
    let Some(roles) = roles.filter(|roles| !roles.trim().is_empty()) else { return Ok(Vec::new()) };
    serde_saphyr::from_str(roles).map_err(|error| {
        Unseen(format!("`mapRoles` of ConfigMap kube-system/aws-auth is not a list of roles: {error}"))
    })
}
