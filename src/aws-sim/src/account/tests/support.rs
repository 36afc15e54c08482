//! An account with a template ready to launch from.

use std::sync::Arc;
use std::time::Duration;

use crate::{Account, Options};
use karpenter_aws_api::ec2::{
    CapacityKind, FleetConfig, FleetOverride, FleetRequest, FleetResult, LaunchTemplateData,
    LaunchTemplateSpec, OnDemandAllocation, SpotAllocation, TagSpecification, TaggedKind,
};
use karpenter_aws_api::id::{ImageId, InstanceId, SecurityGroupId, SubnetId};
use karpenter_aws_api::{Clients, Tags};
use karpenter_model::{Clock, ManualClock};

pub(super) const SPOT: CapacityKind = CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized);
pub(super) const ON_DEMAND: CapacityKind = CapacityKind::OnDemand(OnDemandAllocation::LowestPrice);

/// An image that nodes can start from.
pub(super) async fn image(clients: &Clients) -> ImageId {
    let name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id";
    clients.ssm.get_parameter(name).await.unwrap().into()
}

/// An account, its clock, its clients, and one launch template named `template`.
pub(super) struct World {
    pub(super) account: Account,
    pub(super) clock: Arc<ManualClock>,
    pub(super) clients: Clients,
}

impl World {
    pub(super) async fn new(options: Options) -> Self {
        let clock = Arc::new(ManualClock::default());
        let account = Account::with_clock(options, Arc::clone(&clock) as Arc<dyn Clock>);
        let clients = account.clients();
        let spec = LaunchTemplateSpec {
            name: "template".to_owned(),
            client_token: None,
            tags: Tags::new(),
            data: LaunchTemplateData { image: Some(image(&clients).await), ..LaunchTemplateData::default() },
        };
        clients.ec2.create_launch_template(&spec).await.unwrap();
        Self { account, clock, clients }
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Launches from `(type, zone number)` offerings.
    pub(super) async fn launch(
        &self,
        capacity: CapacityKind,
        target: u32,
        offerings: &[(&str, usize)],
    ) -> FleetResult {
        self.clients.ec2.create_fleet(&self.request(capacity, target, offerings)).await.unwrap()
    }

    pub(super) fn request(
        &self,
        capacity: CapacityKind,
        target: u32,
        offerings: &[(&str, usize)],
    ) -> FleetRequest {
        let overrides = offerings
            .iter()
            .zip(0_i64..)
            .map(|((instance_type, zone), priority)| FleetOverride {
                instance_type: (*instance_type).into(),
                subnet: subnet(&self.account, *zone),
                zone: None,
                image: None,
                priority_nanos: Some(priority),
            })
            .collect();
        let tags = Tags::from([("kubernetes.io/cluster/demo".to_owned(), "owned".to_owned())]);
        FleetRequest {
            client_token: None,
            capacity,
            target,
            configs: vec![FleetConfig { launch_template: "template".to_owned(), overrides }],
            tags: vec![TagSpecification { kind: TaggedKind::Instance, tags }],
            context: None,
        }
    }

    pub(super) async fn launch_one(&self, capacity: CapacityKind, instance_type: &str) -> InstanceId {
        let fleet = self.launch(capacity, 1, &[(instance_type, 0)]).await;
        fleet.instance_ids().next().unwrap_or_else(|| panic!("{:?}", fleet.errors)).clone()
    }

    pub(super) async fn terminate(&self, ids: &[InstanceId]) {
        self.clients.ec2.terminate_instances(ids).await.unwrap();
    }
}

/// Type and zone letter of every group of a fleet.
pub(super) fn taken(fleet: &FleetResult) -> Vec<(String, usize)> {
    fleet.instances.iter().map(|group| (group.instance_type.to_string(), group.ids.len())).collect()
}

/// Codes of a fleet's errors.
pub(super) fn codes(fleet: &FleetResult) -> Vec<&str> {
    fleet.errors.iter().map(|error| error.code.as_str()).collect()
}

pub(super) fn subnet(account: &Account, zone: usize) -> SubnetId {
    account.truth(|state, _| state.compute.network.subnets.keys().nth(zone).unwrap().clone())
}

pub(super) fn group(account: &Account) -> SecurityGroupId {
    account.truth(|state, _| state.compute.network.groups.keys().next().unwrap().clone())
}
