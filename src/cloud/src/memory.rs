//! A cloud held in memory: a few instance types, capacity that runs out per offering, machines that take time to
//! boot and to end on an explicit clock, faults per operation, and a log of every call.
//!
//! It is the provider of the controller tests, and it is held to the same [`crate::conformance`] suite as a real cloud. [`Account`] is the cloud side and survives a restart;
//! [`MemoryProvider`] is the client side with its own short memory of exhausted offerings.

mod account;
mod catalogue;
mod faults;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_model::names::{condition, label, tag};
use karpenter_model::repair::RepairAction;
use karpenter_model::{
    Claim, ClaimName, ImageId, InstanceType, LabelKey, LabelRegistry, LabelValue, NodeName, Offering, Pool,
    ProviderId, Zone,
};
use parking_lot::Mutex;

pub use account::{Account, Options};
pub use catalogue::{Catalogue, NODE_CLASS};
pub use faults::{Call, Fault, Operation};

use crate::{
    DriftReason, Error, Instance, InstanceState, Kind, LaunchRequest, NodeClassKind, OfferingKey, Provider,
    Read, RegistrationHook, RepairPolicy, Result, Termination,
};

/// Time for which an offering that lacked capacity is left alone.
pub(crate) const EXHAUSTED_FOR: Duration = Duration::from_mins(3);

/// Tag naming the node of a machine.
pub(crate) const NODE_TAG: &str = "Name";

const REPAIR_POLICIES: &[RepairPolicy] = &[
    repaired(condition::READY, "False", Some(Duration::from_mins(10))),
    repaired(condition::READY, "Unknown", Some(Duration::from_mins(10))),
    // One whose drain has no bound, and one of whose reasons is given less time.
    repaired("KernelReady", "False", None),
    repaired(GPU_READY, "False", Some(Duration::from_mins(10))),
    RepairPolicy {
        reason: Some("XID(48|79)Error"),
        toleration: Duration::from_mins(10),
        termination_grace: Some(Duration::from_mins(5)),
        priority: 50,
        ..repaired(GPU_READY, "False", None)
    },
    // One that a reboot may repair.
    RepairPolicy {
        reason: Some("XID46Error"),
        toleration: Duration::from_mins(10),
        termination_grace: Some(Duration::from_mins(5)),
        action: RepairAction::Reboot,
        ..repaired(GPU_READY, "False", None)
    },
];
const GPU_READY: &str = "AcceleratedHardwareReady";

const fn repaired(condition: &'static str, status: &'static str, grace: Option<Duration>) -> RepairPolicy {
    RepairPolicy {
        condition,
        status,
        reason: None,
        toleration: Duration::from_mins(30),
        termination_grace: grace,
        priority: 0,
        action: RepairAction::Replace,
    }
}

/// The client side of an in-memory [`Account`].
pub struct MemoryProvider {
    account: Arc<Account>,
    catalogue: Arc<Catalogue>,
    /// Offerings that lacked capacity, and until when they are left alone.
    exhausted: Mutex<BTreeMap<OfferingKey, Timestamp>>,
}

impl MemoryProvider {
    /// A provider with nothing remembered.
    pub fn new(account: Arc<Account>, catalogue: Arc<Catalogue>) -> Self {
        Self { account, catalogue, exhausted: Mutex::default() }
    }

    /// Runs one operation through the account's faults and log.
    fn call<T>(&self, operation: Operation, subject: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.account.enter(operation, subject) {
            None => work(),
            Some(Fault::Refused(kind)) => {
                let refused = Error::new(kind, operation.verb(), subject, "refused by an injected fault");
                Err(refused.with_token_spent(operation == Operation::Launch))
            }
            Some(Fault::AnswerLost) => {
                // The work is done for real; whatever came of it is what gets lost.
                let _lost = work();
                Err(Error::new(Kind::Transient, operation.verb(), subject, "the answer was lost"))
            }
        }
    }

    fn adopt(&self, request: &LaunchRequest) -> Option<Instance> {
        self.account
            .machines()
            .into_iter()
            .find(|instance| instance.claim.as_ref() == Some(&request.claim) && instance.state.exists())
    }

    /// Starts a machine from the cheapest offering that has capacity, remembering those that had none.
    fn create(&self, request: &LaunchRequest) -> Result<Instance> {
        for (instance_type, offering) in self.catalogue.candidates(request) {
            let key = offering_key(&instance_type, &offering);
            if self.left_alone(&key) {
                continue;
            }
            if self.account.is_exhausted(&key) {
                let until = self.account.now() + EXHAUSTED_FOR;
                self.exhausted.lock().insert(key, until);
                continue;
            }
            return Ok(self.start(request, &instance_type, &key));
        }
        let verb = Operation::Launch.verb();
        Err(Error::new(
            Kind::NoCapacity,
            verb,
            request.claim.as_str(),
            "no offering of the request has capacity",
        ))
    }

    fn start(&self, request: &LaunchRequest, instance_type: &InstanceType, key: &OfferingKey) -> Instance {
        let launched_at = self.account.now();
        let mut tags = BTreeMap::from([(tag::NODE_CLAIM.to_owned(), request.claim.to_string())]);
        if let Some(pool) = &request.pool {
            tags.insert(label::NODE_POOL.to_owned(), pool.to_string());
        }
        self.account.launch(request.token(), |provider_id, instance_id| Instance {
            provider_id,
            instance_id,
            image_id: Some(ImageId::from("image-1")),
            instance_type: key.instance_type.clone(),
            zone: key.zone.clone(),
            capacity_type: key.capacity_type,
            state: InstanceState::Pending,
            labels: offering_labels(key),
            annotations: BTreeMap::new(),
            capacity: instance_type.capacity.clone(),
            allocatable: instance_type.allocatable(),
            launched_at,
            tags,
            claim: Some(request.claim.clone()),
            pool: request.pool.clone(),
        })
    }

    fn left_alone(&self, key: &OfferingKey) -> bool {
        let now = self.account.now();
        self.account.zones_away().contains(&key.zone)
            || self.exhausted.lock().get(key).is_some_and(|until| now < *until)
    }

    fn missing(operation: Operation, id: &ProviderId) -> Error {
        Error::new(Kind::NotFound, operation.verb(), id.as_str(), "no such machine")
    }
}

#[async_trait]
impl Provider for MemoryProvider {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        std::slice::from_ref(&NODE_CLASS)
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        self.catalogue.registry()
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Instance> {
        self.call(Operation::Launch, request.claim.as_str(), || match self.adopt(request) {
            Some(instance) => Ok(instance),
            None => self.create(request),
        })
    }

    async fn terminate(&self, id: &ProviderId) -> Result<Termination> {
        self.call(Operation::Terminate, id.as_str(), || {
            Ok(if self.account.end(id) { Termination::Started } else { Termination::AlreadyGone })
        })
    }

    async fn reboot(&self, id: &ProviderId) -> Result<()> {
        self.call(Operation::Reboot, id.as_str(), || {
            let found = self.account.machine(id).ok_or_else(|| Self::missing(Operation::Reboot, id))?;
            if found.state == InstanceState::Running {
                self.account.reboot(id);
                return Ok(());
            }
            let text = format!("the machine is {:?} and cannot be rebooted", found.state);
            Err(Error::new(Kind::Transient, Operation::Reboot.verb(), id.as_str(), text))
        })
    }

    async fn instance(&self, id: &ProviderId, _read: Read) -> Result<Instance> {
        self.call(Operation::Instance, id.as_str(), || {
            self.account.machine(id).ok_or_else(|| Self::missing(Operation::Instance, id))
        })
    }

    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>> {
        self.call(Operation::MachineOf, claim.as_str(), || {
            let machines = self.account.machines().into_iter();
            let mut own = machines.filter(|instance| instance.claim.as_ref() == Some(claim));
            Ok(own.next().map(|instance| instance.provider_id))
        })
    }

    async fn instances(&self) -> Result<Vec<Instance>> {
        self.call(Operation::Instances, "", || Ok(self.account.machines()))
    }

    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>> {
        self.call(Operation::InstanceTypes, pool.name.as_str(), || {
            Ok(self.catalogue.with_availability(|key| !self.left_alone(key)))
        })
    }

    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        self.call(Operation::Drift, claim.name.as_str(), || {
            Ok(claim.provider_id.as_ref().and_then(|id| self.account.drift_of(id)))
        })
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()> {
        self.call(Operation::Tag, id.as_str(), || {
            let tags =
                [(tag::NODE_CLAIM.to_owned(), claim.to_string()), (NODE_TAG.to_owned(), node.to_string())];
            if self.account.write_tags(id, tags) { Ok(()) } else { Err(Self::missing(Operation::Tag, id)) }
        })
    }

    async fn registration_hooks(&self, _claim: &Claim) -> Vec<RegistrationHook> {
        self.account.registration_hooks()
    }

    fn zones_away(&self) -> BTreeSet<Zone> {
        self.account.zones_away()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR_POLICIES
    }
}

fn offering_key(instance_type: &InstanceType, offering: &Offering) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
    }
}

fn offering_labels(key: &OfferingKey) -> BTreeMap<LabelKey, LabelValue> {
    BTreeMap::from([
        (LabelKey::from(label::INSTANCE_TYPE), LabelValue::from(key.instance_type.as_str())),
        (LabelKey::from(label::ZONE), LabelValue::from(key.zone.as_str())),
        (LabelKey::from(label::CAPACITY_TYPE), LabelValue::from(key.capacity_type.as_str())),
        (LabelKey::from(label::ARCH), LabelValue::from("amd64")),
        (LabelKey::from(label::OS), LabelValue::from("linux")),
    ])
}
