//! A cloud that takes its time to answer a launch: the machine is there long before the caller knows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_cloud::memory::MemoryProvider;
use karpenter_cloud::{
    DriftReason, Instance, LaunchRequest, NodeClassKind, Provider, Read, RegistrationHook, RepairPolicy,
    Result, Termination,
};
use karpenter_model::{Claim, ClaimName, InstanceType, LabelRegistry, NodeName, Pool, ProviderId, Zone};

pub(crate) struct Slow {
    pub(crate) inner: MemoryProvider,
    /// Time from the machine to the answer.
    pub(crate) answer: Duration,
}

#[async_trait]
impl Provider for Slow {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        self.inner.label_registry()
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Instance> {
        let answer = self.inner.launch(request).await;
        tokio::time::sleep(self.answer).await;
        answer
    }

    async fn terminate(&self, id: &ProviderId) -> Result<Termination> {
        self.inner.terminate(id).await
    }

    async fn reboot(&self, id: &ProviderId) -> Result<()> {
        self.inner.reboot(id).await
    }

    async fn instance(&self, id: &ProviderId, read: Read) -> Result<Instance> {
        self.inner.instance(id, read).await
    }

    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>> {
        self.inner.machine_of(claim).await
    }

    async fn instances(&self) -> Result<Vec<Instance>> {
        self.inner.instances().await
    }

    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>> {
        self.inner.instance_types(pool).await
    }

    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        self.inner.drift(claim).await
    }

    async fn registration_hooks(&self, claim: &Claim) -> Vec<RegistrationHook> {
        self.inner.registration_hooks(claim).await
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()> {
        self.inner.tag(id, claim, node).await
    }

    fn zones_away(&self) -> BTreeSet<Zone> {
        self.inner.zones_away()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }
}
