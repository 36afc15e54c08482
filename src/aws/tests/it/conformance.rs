//! The provider behaves as the port promises.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws::AwsProvider;
use karpenter_aws_sim::{Fault, OfferingSelector};
use karpenter_cloud::conformance::{self, Backend};
use karpenter_cloud::memory::Operation;
use karpenter_cloud::{LaunchRequest, OfferingKey, Provider};
use karpenter_model::names::label;
use karpenter_model::{CapacityType, Pool};

use crate::world::{World, one_of, pool, request_with};

struct Memory;

struct OnMemory {
    world: World,
    again: Arc<AwsProvider>,
}

#[async_trait]
impl Backend for Memory {
    async fn world(&self) -> Box<dyn conformance::World> {
        let world = World::new().await;
        let again = world.restarted().await;
        Box::new(OnMemory { world, again })
    }
}

#[async_trait]
impl conformance::World for OnMemory {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.world.provider) as _
    }

    fn restarted(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.again) as _
    }

    /// On-demand, where EC2 tries the cheapest offering first and reports it when it is exhausted. For spot it
    /// quietly prefers deeper pools, so nothing is there to be learnt.
    fn request(&self, claim: &str) -> LaunchRequest {
        request_with(claim, one_of(label::CAPACITY_TYPE, &["on-demand"]))
    }

    fn pool(&self) -> Pool {
        pool()
    }

    async fn exhaust(&self, offering: &OfferingKey) {
        let spot = offering.capacity_type == CapacityType::Spot;
        let selector =
            OfferingSelector::exactly(offering.instance_type.as_str(), offering.zone.as_str(), spot);
        self.world.account.limit_capacity(selector, 0);
    }

    async fn settle(&self) {
        self.world.settle();
    }

    async fn lose_answer(&self, operation: Operation) {
        self.world.account.inject(Fault::lose_answer(call(operation)).times(1));
    }

    async fn refuse(&self, operation: Operation) {
        self.world.account.inject(Fault::fail(call(operation), "InternalError").times(1));
    }
}

/// The EC2 call that does the work of an operation.
fn call(operation: Operation) -> &'static str {
    match operation {
        Operation::Launch => "CreateFleet",
        Operation::Terminate => "TerminateInstances",
        Operation::Reboot => "RebootInstances",
        Operation::Instance | Operation::MachineOf | Operation::Instances | Operation::Drift => {
            "DescribeInstances"
        }
        Operation::InstanceTypes => "DescribeInstanceTypes",
        Operation::Tag => "CreateTags",
    }
}

#[tokio::test(start_paused = true)]
async fn conforms() {
    let report = conformance::run(&Memory).await;
    assert!(report.conforms(), "{report}");
}
