//! The machines of the in-memory account, as the kubelet stand-in wants them.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_cloud::InstanceState;
use karpenter_cloud::memory::Account;
use karpenter_kube_sim::kubelet::{Difference, Machine, MachineState, Machines};
use karpenter_model::Quantity;

/// Machines of an account; their user data is what a provider would have written.
pub(crate) struct InMemory(pub(crate) Arc<Account>);

#[async_trait]
impl Machines for InMemory {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn Error + Send + Sync>> {
        let machine = |instance: karpenter_cloud::Instance| {
            let pool = instance.pool.as_ref().map(ToString::to_string).unwrap_or_default();
            let name = format!("node-{}", instance.instance_id);
            Machine {
                instance_id: instance.instance_id.to_string(),
                provider_id: instance.provider_id.to_string(),
                instance_type: instance.instance_type.to_string(),
                zone: instance.zone.to_string(),
                zone_id: String::new(),
                region: "region".to_owned(),
                private_dns_name: name,
                private_ip: "10.0.0.1".to_owned(),
                architecture: "amd64".to_owned(),
                operating_system: "linux".to_owned(),
                capacity: instance.capacity,
                volumes: BTreeMap::new(),
                local_disks: Quantity::ZERO,
                state: match instance.state {
                    InstanceState::Pending => MachineState::Pending,
                    InstanceState::Running => MachineState::Running,
                    InstanceState::ShuttingDown => MachineState::ShuttingDown,
                    InstanceState::Stopped => MachineState::Stopped,
                    InstanceState::Terminated => MachineState::Terminated,
                },
                launched_at: instance.launched_at,
                reboots: self.0.reboots(&instance.provider_id),
                user_data: user_data(&pool).into_bytes(),
                difference: Difference::default(),
            }
        };
        Ok(self.0.machines().into_iter().map(machine).collect())
    }
}

/// A machine whose claim has no pool, which is an empty name here, says nothing of a pool.
fn user_data(pool: &str) -> String {
    let labels = if pool.is_empty() {
        String::new()
    } else {
        format!("--node-labels=\"karpenter.sh/nodepool={pool}\"")
    };
    format!(
        "#!/bin/bash\n/etc/eks/bootstrap.sh 'memory' --kubelet-extra-args \
         '{labels} --register-with-taints=\"karpenter.sh/unregistered:NoExecute\"'\n"
    )
}
