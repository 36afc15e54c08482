//! Status checks and scheduled events. Like EC2, only running instances are reported.

use super::Compute;
use super::filters::matches;
use karpenter_aws_api::ec2::{InstanceHealth, InstanceState};
use karpenter_aws_api::{Filter, Result};

impl Compute {
    pub(super) fn health(&self, filters: &[Filter]) -> Result<Vec<InstanceHealth>> {
        let mut found = Vec::new();
        for vm in self.vms.values().filter(|vm| vm.state == InstanceState::Running) {
            let fits = matches("DescribeInstanceStatus", filters, &vm.tags, |name| match name {
                "instance-status.status" => Some(vec![vm.instance_health.status.clone()]),
                "system-status.status" => Some(vec![vm.system_health.status.clone()]),
                "event.code" => Some(vm.events.iter().map(|event| event.code.clone()).collect()),
                "availability-zone" => Some(vec![vm.zone.to_string()]),
                _ => None,
            })?;
            if fits {
                found.push(InstanceHealth {
                    id: vm.id.clone(),
                    zone: Some(vm.zone.clone()),
                    instance: vm.instance_health.clone(),
                    system: vm.system_health.clone(),
                    events: vm.events.clone(),
                });
            }
        }
        Ok(found)
    }
}
