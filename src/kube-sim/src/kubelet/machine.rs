//! Machines, as the owner of the account describes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_model::{Quantity, Resources};

use super::Difference;

/// The source of machines: an account in memory, an emulator, or a cloud.
#[async_trait]
pub trait Machines: Send + Sync {
    /// All machines of the cluster that are not terminated; complete, or an error.
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn std::error::Error + Send + Sync>>;

    /// Returns all machines, shared: a source that has seen no change returns what it returned before.
    async fn shared(&self) -> Result<Arc<Vec<Arc<Machine>>>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Arc::new(self.list().await?.into_iter().map(Arc::new).collect()))
    }
}

/// One machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Id of the instance, for example `i-0123456789abcdef0`.
    pub instance_id: String,
    /// Name in Kubernetes, for example `aws:///us-east-1a/i-0123456789abcdef0`.
    pub provider_id: String,
    /// Name of the type, for example `m5.large`.
    pub instance_type: String,
    /// Name of the zone, for example `us-east-1a`.
    pub zone: String,
    /// Id of the zone, for example `use1-az1`; empty when unknown.
    pub zone_id: String,
    /// Name of the region, for example `us-east-1`.
    pub region: String,
    /// Name of the Node and value of the hostname label.
    pub private_dns_name: String,
    /// Address of the Node.
    pub private_ip: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// `linux` or `windows`.
    pub operating_system: String,
    /// Resources of the hardware: `cpu`, `memory`, `pods` (what the image computes when the user data says nothing),
    /// `ephemeral-storage` where the image has another disk than usual, and extended resources.
    pub capacity: Resources,
    /// Sizes of the volumes that were asked for, by device; what is absent is as the image has it.
    pub volumes: BTreeMap<String, Quantity>,
    /// Total size of the local disks.
    pub local_disks: Quantity,
    /// State in the life of the machine.
    pub state: MachineState,
    /// Time of the launch.
    pub launched_at: Timestamp,
    /// Number of times it was rebooted since then.
    pub reboots: u32,
    /// Decoded user data.
    pub user_data: Vec<u8>,
    /// Difference of the machine from all this.
    pub difference: Difference,
}

/// State in the life of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineState {
    /// Being started.
    Pending,
    Running,
    /// On its way to stopped or terminated.
    ShuttingDown,
    /// Stopped; it may come back.
    Stopped,
    /// Gone.
    Terminated,
}
