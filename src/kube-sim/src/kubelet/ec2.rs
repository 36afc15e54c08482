//! The machines of an AWS account, for the [`kubelet`](super): any account that speaks EC2, in memory,
//! emulated or real.
//!
//! Constant properties of a machine (its type, its user data) are asked for once.

use std::collections::BTreeMap;

use async_trait::async_trait;
use karpenter_aws_api::ec2::{
    Architecture, BlockDevice, Instance, InstanceQuery, InstanceState, InstanceTypeInfo, InstanceTypeQuery,
};
use karpenter_aws_api::id::{InstanceId, InstanceType};
use karpenter_aws_api::{Clients, Filter};
use karpenter_model::{Quantity, Resources};
use parking_lot::Mutex;

use super::{Difference, Machine, MachineState, Machines};

/// Share of the advertised memory that firmware and kernel keep, in thousandths; real machines lose two to four percent.
const MEMORY_LOST_PER_MILLE: u64 = 30;

/// The machines of one cluster.
pub struct Ec2Machines {
    clients: Clients,
    cluster: String,
    volumes: Box<Volumes>,
    reboots: Box<Reboots>,
    known: Mutex<Known>,
}

/// The volumes an instance was launched with. EC2 lists them with the volumes of the account, which is not asked.
type Volumes = dyn Fn(&InstanceId) -> Vec<BlockDevice> + Send + Sync;

/// The number of reboots of an instance, of which EC2 shows nothing.
type Reboots = dyn Fn(&InstanceId) -> u32 + Send + Sync;

#[derive(Default)]
struct Known {
    types: BTreeMap<String, InstanceTypeInfo>,
    user_data: BTreeMap<String, Vec<u8>>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Ec2Machines {
    /// The machines that carry the tag of `cluster`.
    pub fn new(clients: Clients, cluster: &str) -> Self {
        Self {
            clients,
            cluster: cluster.to_owned(),
            volumes: Box::new(|_| Vec::new()),
            reboots: Box::new(|_| 0),
            known: Mutex::default(),
        }
    }

    /// Returns the machines with the volumes of their launch templates; without, all have those of their image.
    #[must_use]
    pub fn with_volumes(
        self,
        volumes: impl Fn(&InstanceId) -> Vec<BlockDevice> + Send + Sync + 'static,
    ) -> Self {
        Self { volumes: Box::new(volumes), ..self }
    }

    /// Returns the machines with the reboots that their account knows of; without, none of them ever reboots.
    #[must_use]
    pub fn with_reboots(self, reboots: impl Fn(&InstanceId) -> u32 + Send + Sync + 'static) -> Self {
        Self { reboots: Box::new(reboots), ..self }
    }

    /// A machine as its node sees it.
    pub async fn machine(&self, instance: &Instance) -> Result<Machine, BoxError> {
        let info = self.type_info(&instance.instance_type).await?;
        Ok(Machine {
            instance_id: instance.id.to_string(),
            provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
            instance_type: instance.instance_type.to_string(),
            zone: instance.zone.to_string(),
            zone_id: instance.zone_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            region: self.clients.region.clone(),
            private_dns_name: instance.private_dns.clone().unwrap_or_else(|| instance.id.to_string()),
            private_ip: instance.private_ip.clone().unwrap_or_default(),
            architecture: architecture(&info).to_owned(),
            operating_system: "linux".to_owned(),
            capacity: capacity(&info),
            volumes: (self.volumes)(&instance.id).into_iter().filter_map(size).collect(),
            local_disks: local_disks(&info),
            state: state(instance.state),
            launched_at: instance.launched_at,
            reboots: (self.reboots)(&instance.id),
            user_data: self.user_data(instance).await?,
            difference: Difference::default(),
        })
    }

    async fn type_info(&self, name: &InstanceType) -> Result<InstanceTypeInfo, BoxError> {
        if let Some(info) = self.known(|known| known.types.get(name.as_str()).cloned()) {
            return Ok(info);
        }
        let query = InstanceTypeQuery { types: vec![name.clone()], filters: Vec::new() };
        let listing = self.clients.ec2.describe_instance_types(&query).await?;
        let info =
            listing.items.into_iter().next().ok_or_else(|| format!("EC2 says nothing about `{name}`"))?;
        self.known(|known| known.types.insert(name.to_string(), info.clone()));
        Ok(info)
    }

    async fn user_data(&self, instance: &Instance) -> Result<Vec<u8>, BoxError> {
        if let Some(data) = self.known(|known| known.user_data.get(instance.id.as_str()).cloned()) {
            return Ok(data);
        }
        let data = self.clients.ec2.describe_user_data(&instance.id).await?;
        let data = data.map(|secret| secret.expose().as_bytes().to_vec()).unwrap_or_default();
        self.known(|known| known.user_data.insert(instance.id.to_string(), data.clone()));
        Ok(data)
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock())
    }
}

#[async_trait]
impl Machines for Ec2Machines {
    async fn list(&self) -> Result<Vec<Machine>, BoxError> {
        let query = InstanceQuery {
            ids: Vec::new(),
            filters: vec![
                Filter::tag(&format!("kubernetes.io/cluster/{}", self.cluster), "owned"),
                Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
            ],
        };
        let instances = self.clients.ec2.describe_instances(&query).await?;
        let mut machines = Vec::with_capacity(instances.len());
        for instance in &instances {
            machines.push(self.machine(instance).await?);
        }
        Ok(machines)
    }
}

fn state(state: InstanceState) -> MachineState {
    match state {
        InstanceState::Pending => MachineState::Pending,
        InstanceState::Running => MachineState::Running,
        InstanceState::Stopping | InstanceState::ShuttingDown => MachineState::ShuttingDown,
        InstanceState::Stopped => MachineState::Stopped,
        InstanceState::Terminated => MachineState::Terminated,
    }
}

fn architecture(info: &InstanceTypeInfo) -> &'static str {
    if info.architectures.contains(&Architecture::Arm64) { "arm64" } else { "amd64" }
}

/// Device and size of a volume that has one.
fn size(volume: BlockDevice) -> Option<(String, Quantity)> {
    Some((volume.device?, Quantity::from_bytes(i64::from(volume.ebs?.size_gib?) << 30)))
}

fn local_disks(info: &InstanceTypeInfo) -> Quantity {
    let gigabytes = info.instance_storage.as_ref().map_or(0, |disks| disks.total_gb);
    Quantity::from_units(i64::try_from(gigabytes).unwrap_or(i64::MAX).saturating_mul(1_000_000_000))
}

fn capacity(info: &InstanceTypeInfo) -> Resources {
    let memory = (info.memory_mib << 20) / 1000 * (1000 - MEMORY_LOST_PER_MILLE);
    let pods = info.maximum_network_interfaces * info.ipv4_addresses_per_interface.saturating_sub(1) + 2;
    let mut capacity = Resources::new()
        .with("cpu", Quantity::from_units(i64::from(info.vcpus)))
        .with("memory", Quantity::from_bytes(i64::try_from(memory).unwrap_or(i64::MAX)))
        .with("pods", Quantity::from_units(i64::from(pods)));
    let gpus: u32 = info.gpus.iter().filter(|gpu| gpu.manufacturer == "NVIDIA").map(|gpu| gpu.count).sum();
    if gpus > 0 {
        capacity.set("nvidia.com/gpu", Quantity::from_units(i64::from(gpus)));
    }
    capacity
}
