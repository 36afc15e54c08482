//! The in-memory provider against the conformance suite, and what is particular to it.

mod defects;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_model::{CapacityType, ManualClock, NodeClassRef, NodeName, Pool, Requirements, Resources};

use super::*;
use crate::conformance::{self, Backend, World};

const ZONES: [&str; 2] = ["zone-a", "zone-b"];

struct Memory {
    clock: Arc<ManualClock>,
    account: Arc<Account>,
    catalogue: Arc<Catalogue>,
    provider: Arc<MemoryProvider>,
}

impl Memory {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::UNIX_EPOCH));
        let account = Account::new(clock.clone(), Options::default());
        let catalogue = Arc::new(Catalogue::small(&ZONES));
        let provider = Arc::new(MemoryProvider::new(account.clone(), catalogue.clone()));
        Self { clock, account, catalogue, provider }
    }
}

#[async_trait]
impl World for Memory {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn restarted(&self) -> Arc<dyn Provider> {
        Arc::new(MemoryProvider::new(self.account.clone(), self.catalogue.clone()))
    }

    fn request(&self, claim: &str) -> LaunchRequest {
        LaunchRequest {
            claim: claim.into(),
            uid: format!("uid-{claim}").into(),
            created_at: Timestamp::UNIX_EPOCH,
            attempt: 0,
            pool: Some("web".into()),
            pool_hash: None,
            node_class: NodeClassRef {
                group: NODE_CLASS.group.into(),
                kind: NODE_CLASS.kind.into(),
                name: "default".into(),
            },
            requirements: Requirements::default(),
            requests: Resources::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            instance_types: vec!["small".into(), "medium".into()],
            overlays: None,
        }
    }

    fn pool(&self) -> Pool {
        Pool::bare("web")
    }

    async fn exhaust(&self, offering: &OfferingKey) {
        self.account.exhaust(offering.clone());
    }

    async fn settle(&self) {
        self.clock.advance(Duration::from_mins(1));
    }

    async fn lose_answer(&self, operation: Operation) {
        self.account.fail(operation, Fault::AnswerLost);
    }

    async fn refuse(&self, operation: Operation) {
        self.account.fail(operation, Fault::Refused(Kind::Transient));
    }
}

struct Backends;

#[async_trait]
impl Backend for Backends {
    async fn world(&self) -> Box<dyn World> {
        Box::new(Memory::new())
    }
}

#[tokio::test]
async fn conforms() {
    let report = conformance::run(&Backends).await;
    assert!(report.conforms(), "\n{report}");
    assert_eq!(report.outcomes.len(), conformance::CHECKS.len());
}

#[test]
fn names_of_checks_are_distinct() {
    let names: std::collections::BTreeSet<_> = conformance::CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), conformance::CHECKS.len());
}

#[tokio::test]
async fn launches_the_cheapest_offering_that_fits() {
    let world = Memory::new();
    let instance = world.provider.launch(&world.request("web-1")).await.expect("capacity");
    assert_eq!((instance.instance_type.as_str(), instance.zone.as_str()), ("small", "zone-a"));
    assert_eq!(instance.capacity_type, CapacityType::Spot);
}

#[tokio::test]
async fn state_follows_the_clock() {
    let world = Memory::new();
    let id = world.provider.launch(&world.request("web-1")).await.expect("capacity").provider_id;
    let state = || async { world.provider.instance(&id, Read::Consistent).await.map(|one| one.state) };
    assert_eq!(state().await, Ok(InstanceState::Pending));
    world.clock.advance(Duration::from_secs(20));
    assert_eq!(state().await, Ok(InstanceState::Running));
    world.provider.terminate(&id).await.expect("terminates");
    assert_eq!(state().await, Ok(InstanceState::ShuttingDown));
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(state().await.map_err(|error| error.kind), Err(Kind::NotFound));
}

#[tokio::test]
async fn an_exhausted_offering_is_tried_again_after_its_time() {
    let world = Memory::new();
    let cheapest = OfferingKey {
        instance_type: "small".into(),
        zone: "zone-a".into(),
        capacity_type: CapacityType::Spot,
    };
    world.account.exhaust(cheapest.clone());
    let second = world.provider.launch(&world.request("web-1")).await.expect("another offering");
    assert_eq!(second.zone, "zone-b");
    world.account.restock(&cheapest);
    let still = world.provider.launch(&world.request("web-2")).await.expect("another offering");
    assert_eq!(still.zone, "zone-b", "remembered as exhausted");
    world.clock.advance(EXHAUSTED_FOR);
    let back = world.provider.launch(&world.request("web-3")).await.expect("capacity is back");
    assert_eq!(back.zone, "zone-a");
}

#[tokio::test]
async fn calls_are_logged_with_their_faults() {
    let world = Memory::new();
    world.account.fail(Operation::Launch, Fault::Refused(Kind::Throttled));
    let error = world.provider.launch(&world.request("web-1")).await.expect_err("refused");
    assert_eq!(error.kind, Kind::Throttled);
    let missing = world.provider.tag(&"memory:///i-0".into(), &"web-1".into(), &NodeName::from("n")).await;
    assert_eq!(missing.map_err(|error| error.kind), Err(Kind::NotFound));
    let calls: Vec<_> =
        world.account.calls().into_iter().map(|call| (call.operation, call.subject)).collect();
    assert_eq!(
        calls,
        [(Operation::Launch, "web-1".to_owned()), (Operation::Tag, "memory:///i-0".to_owned())]
    );
}
