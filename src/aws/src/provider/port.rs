//! The provider port, operation by operation: each finds its object, calls a part, and puts an error of AWS into the words
//! of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_cloud::{
    DriftReason, Error, Instance, Kind, LaunchRequest, NodeClassKind, Provider, Read, RegistrationHook,
    RepairPolicy, Result, Termination,
};
use karpenter_model::{
    Claim, ClaimName, InstanceType, InstanceTypeName, LabelRegistry, NodeName, Pool, Price, ProviderId, Zone,
};

use super::described::Joined;
use super::{AwsProvider, NODE_CLASS_KIND};
use crate::calls::fault::cloud_error;
use crate::instances::provider_id::{instance_of, provider_id};
use crate::instances::{registration, repair, view};

#[async_trait]
impl Provider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        std::slice::from_ref(&NODE_CLASS_KIND)
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        Arc::clone(&self.registry)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Instance> {
        self.launch_for(request).await
    }

    async fn terminate(&self, id: &ProviderId) -> Result<Termination> {
        const OPERATION: &str = "terminate instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let ended = self.instances.terminate(&instance).await;
        let ended = ended.map_err(|error| cloud_error(OPERATION, id.as_str(), &error))?;
        // A claim that asks again must not be given a machine that ends.
        self.ledger.ended(id);
        // Taken, because Node and claim both ask: the reservation gets one instance back, not two.
        if ended == Termination::AlreadyGone
            && let Some(gone) = self.instances.take_ended(&instance)
            && let Some(reservation) = view::reservation_of(&gone, self.settings.reserved_capacity)
        {
            self.reservations.availability().terminated(reservation.as_str());
        }
        Ok(ended)
    }

    async fn reboot(&self, id: &ProviderId) -> Result<()> {
        const OPERATION: &str = "reboot instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let asked = self.instances.reboot(&instance).await;
        asked.map_err(|error| cloud_error(OPERATION, id.as_str(), &error))
    }

    async fn instance(&self, id: &ProviderId, read: Read) -> Result<Instance> {
        const OPERATION: &str = "read instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let found = self.instances.get(&instance, read).await;
        let found = found.map_err(|error| cloud_error(OPERATION, id.as_str(), &error))?;
        found.map(|instance| Joined::new(self, None).view(&instance)).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                OPERATION,
                id.as_str(),
                "EC2 has no such instance, or it is terminated",
            )
        })
    }

    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>> {
        const OPERATION: &str = "find instance of claim";
        let found = self.instances.of_claim(claim.as_str(), &InstanceState::ALIVE).await;
        let found = found.map_err(|error| cloud_error(OPERATION, claim.as_str(), &error))?;
        let found = found.map(|instance| provider_id(instance.zone.as_str(), instance.id.as_str()));
        // EC2 may not show the machine yet, and without its id the claim would go and leave the machine
        // behind.
        let found = found.or_else(|| self.ledger.machine_of(claim));
        if found.is_none() && self.ledger.may_be_launched(claim) {
            let text = "the answer of its launch was lost, and EC2 may show the machine up to a minute later; asking again";
            return Err(Error::new(Kind::Transient, OPERATION, claim.as_str(), text));
        }
        Ok(found)
    }

    async fn instances(&self) -> Result<Vec<Instance>> {
        let listed = self.instances.list().await;
        let listed =
            listed.map_err(|error| cloud_error("list instances of", &self.settings.cluster_name, &error))?;
        let mut joined = Joined::new(self, None);
        Ok(listed.iter().map(|instance| joined.view(instance)).collect())
    }

    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>> {
        const OPERATION: &str = "list instance types for node class";
        let class = self.class(OPERATION, &pool.template.node_class)?;
        self.list(OPERATION, &class)
    }

    fn preview_prices(&self, prices: BTreeMap<InstanceTypeName, Price>) {
        self.types.preview(prices);
    }

    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        self.drifted(claim).await
    }

    async fn registration_hooks(&self, claim: &Claim) -> Vec<RegistrationHook> {
        vec![registration::placement_group(claim, &self.instances).await]
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()> {
        const OPERATION: &str = "tag instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let tagged = self.instances.tag(&instance, claim.as_str(), node.as_str()).await;
        tagged.map(drop).map_err(|error| cloud_error(OPERATION, id.as_str(), &error))
    }

    fn zones_away(&self) -> BTreeSet<Zone> {
        self.zones_shifted_away()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        repair::declared(self.settings.gates)
    }
}

fn foreign(operation: &'static str, id: &ProviderId) -> Error {
    Error::new(
        Kind::Invalid,
        operation,
        id.as_str(),
        "not a provider id of EC2, expected aws:///<zone>/<instance>",
    )
}
