//! Everything the checks may know, gathered once.
//!
//! Serialises to one file per answer, so that a cluster can be looked at elsewhere: see [`export`] and [`import`].

mod account;
mod answer;
mod cluster;
mod files;
mod objects;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use account::{
    AccessEntry, Account, EksCluster, Endpoint, Key, Queue, Reservation, Right, Role, SecurityGroup, Subnet,
    Volumes,
};
pub use answer::{Answer, Unseen, unseen};
pub(crate) use cluster::{COMPUTE_TYPE, allows, is_of_auto_mode, label, listed, main_container};
pub use cluster::{Cluster, Words};
pub use files::{FilesError, export, import};
pub use objects::Objects;

/// Questions to AWS and the API server, with their answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// Names of the prerequisites of the cluster.
    pub names: Names,
    /// Time at which the questions were asked.
    pub now: Timestamp,
    /// The AWS account.
    pub account: Account,
    pub cluster: Cluster,
}

/// Names of what bootstrap makes for a cluster, which it cuts where AWS wants them shorter and which an operator may
/// choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Role of the nodes.
    pub node_role: String,
    pub controller_role: String,
    /// Queue of interruption notices.
    pub queue: String,
}

impl Facts {
    /// No cluster was asked: these are facts from before an installation.
    pub fn is_of_account_only(&self) -> bool {
        let asked = |cluster: &Cluster| serde_json::to_value(cluster).expect("invariant: facts serialise");
        asked(&self.cluster) == asked(&Cluster::default())
    }

    /// Returns the facts without the kinds of which an object cannot be decoded; `None` where all can.
    pub(crate) fn without_undecoded(&self) -> Option<Self> {
        let mut rest = self.clone();
        rest.cluster.hide_undecoded().then_some(rest)
    }

    /// Creates facts with nothing asked yet.
    pub fn new(cluster_name: &str, names: Names, now: Timestamp) -> Self {
        Self {
            cluster_name: cluster_name.to_owned(),
            names,
            now,
            account: Account::default(),
            cluster: Cluster::default(),
        }
    }
}
