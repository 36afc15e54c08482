//! The instances of the account, as the kubelet stand-in wants them. They are described again when one has changed: it
//! looks every virtual second.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::instances::provider_id::provider_id;
use karpenter_aws_api::ec2::{Architecture, Instance, InstanceState, InstanceTypeInfo};
use karpenter_aws_api::id::InstanceType;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::kubelet::{Difference, Machine, MachineState, Machines};
use karpenter_model::{Quantity, Resources};
use parking_lot::Mutex;

type Listed = Arc<Vec<Arc<Machine>>>;

pub(crate) struct OnAws {
    account: Account,
    /// Machines listed last, with the instances they were made from.
    listed: Mutex<(Arc<Vec<Arc<Instance>>>, Listed)>,
}

#[async_trait]
impl Machines for OnAws {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn Error + Send + Sync>> {
        Ok(self.shared().await?.iter().map(|machine| Machine::clone(machine)).collect())
    }

    async fn shared(&self) -> Result<Listed, Box<dyn Error + Send + Sync>> {
        let instances = self.account.live();
        {
            let last = self.listed.lock();
            if Arc::ptr_eq(&last.0, &instances) {
                return Ok(Arc::clone(&last.1));
            }
        }
        let types = self.account.clients().ec2.describe_instance_types(&Default::default()).await?.items;
        let types = types.into_iter().map(|info| (info.name.clone(), info)).collect();
        let machine = |instance: &Arc<Instance>| Arc::new(self.machine(instance, &types));
        let listed: Listed = Arc::new(instances.iter().map(machine).collect());
        *self.listed.lock() = (instances, Arc::clone(&listed));
        Ok(listed)
    }
}

impl OnAws {
    pub(crate) fn of(account: Account) -> Self {
        Self { account, listed: Mutex::default() }
    }

    fn machine(&self, instance: &Instance, types: &BTreeMap<InstanceType, InstanceTypeInfo>) -> Machine {
        let info = &types[&instance.instance_type];
        let arm = info.architectures.first() == Some(&Architecture::Arm64);
        let user_data = self.account.user_data(&instance.id).map(|text| text.expose().to_owned());
        Machine {
            instance_id: instance.id.to_string(),
            provider_id: provider_id(instance.zone.as_str(), instance.id.as_str()).to_string(),
            instance_type: instance.instance_type.to_string(),
            zone: instance.zone.to_string(),
            zone_id: instance.zone_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            region: self.account.options().region.clone(),
            private_dns_name: format!("node-{}", instance.id),
            private_ip: "10.0.0.1".to_owned(),
            architecture: if arm { "arm64" } else { "amd64" }.to_owned(),
            operating_system: "linux".to_owned(),
            capacity: hardware(info),
            volumes: BTreeMap::new(),
            local_disks: Quantity::ZERO,
            state: match instance.state {
                InstanceState::Pending => MachineState::Pending,
                InstanceState::Running => MachineState::Running,
                InstanceState::Stopping | InstanceState::Stopped => MachineState::Stopped,
                InstanceState::ShuttingDown => MachineState::ShuttingDown,
                InstanceState::Terminated => MachineState::Terminated,
            },
            launched_at: instance.launched_at,
            reboots: self.account.reboots(&instance.id),
            user_data: user_data.unwrap_or_default().into_bytes(),
            difference: Difference::default(),
        }
    }
}

/// Resources that the operating system finds: a little less memory than advertised.
fn hardware(info: &InstanceTypeInfo) -> Resources {
    let mib = i64::try_from(info.memory_mib).unwrap();
    Resources::new()
        .with("cpu", Quantity::from_units(i64::from(info.vcpus)))
        .with("memory", Quantity::from_bytes((mib - mib / 50) << 20))
        .with("ephemeral-storage", Quantity::from_bytes(20 << 30))
        .with("pods", Quantity::from_units(110))
}
