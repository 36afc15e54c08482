//! Everything the checks may know, gathered once.
//!
//! Serialises to one file per answer, so that a cluster can be looked at elsewhere: see [`export`] and [`import`].

mod account;
mod answer;
mod cluster;
mod files;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use account::{
    AccessEntry, Account, EksCluster, Endpoint, Queue, Reservation, Right, Role, SecurityGroup, Subnet,
    Volumes,
};
pub use answer::{Answer, Unseen, unseen};
pub use cluster::{Cluster, Words};
pub(crate) use cluster::{label, main_container};
pub use files::{FilesError, export, import};

/// What was asked and what was answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// When the questions were asked.
    pub now: Timestamp,
    /// The AWS account.
    pub account: Account,
    /// The Kubernetes cluster.
    pub cluster: Cluster,
}

impl Facts {
    /// Nobody was asked about a cluster: these are facts from before an installation.
    pub fn is_of_account_only(&self) -> bool {
        let asked = |cluster: &Cluster| serde_json::to_value(cluster).expect("invariant: facts serialise");
        asked(&self.cluster) == asked(&Cluster::default())
    }

    /// Nothing asked yet.
    pub fn new(cluster_name: &str, now: Timestamp) -> Self {
        Self {
            cluster_name: cluster_name.to_owned(),
            now,
            account: Account::default(),
            cluster: Cluster::default(),
        }
    }
}
