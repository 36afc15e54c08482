//! Drift of one claim, in the order of the reasons (spec aws-provider 13). The rules are in [`crate::instances::drift`].

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::Instance as Ec2Instance;
use karpenter_aws_api::id::InstanceId;
use karpenter_cloud::{DriftReason, Error, Kind, Read, Result};
use karpenter_model::Claim;

use super::classes::{NOT_READ, UNDECODED};
use super::{AwsProvider, NODE_CLASS_KIND};
use crate::calls::fault::cloud_error;
use crate::catalogue::instance_types::named;
use crate::class::store::Lookup;
use crate::instances::drift::{self, Network};
use crate::instances::provider_id::instance_of;

const OPERATION: &str = "compare instance of claim";

fn open(claim: &Claim, text: &'static str) -> Error {
    Error::new(Kind::Transient, OPERATION, claim.name.as_str(), text)
}

impl AwsProvider {
    pub(super) async fn drifted(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        if claim.pool.is_none() || !NODE_CLASS_KIND.owns(&claim.node_class) {
            return Ok(None);
        }
        let class = match self.classes.get(&claim.node_class.name) {
            Lookup::Found(class) => class,
            // There is nothing to compare with, and nothing that could replace the machine.
            Lookup::Absent => return Ok(None),
            Lookup::NotSynced => return Err(open(claim, NOT_READ)),
            Lookup::Undecoded => return Err(open(claim, UNDECODED)),
        };
        if class.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        // Without the list the question about the image stays open.
        let types = self.types.list(&class).ok();
        let name = claim.instance_type();
        let of_type = types.as_ref().zip(name.as_ref()).and_then(|(types, name)| named(types, name.as_str()));
        let reason = drift::of_claim(claim, &class, of_type, &self.registry);
        if let Some(reason) = reason.map_err(|drift::Open(text)| open(claim, text))? {
            return Ok(Some(reason));
        }
        match claim.provider_id.as_ref().and_then(instance_of) {
            Some(instance) => self.instance_drifted(claim, &class, &instance).await,
            None => Ok(None),
        }
    }

    async fn instance_drifted(
        &self,
        claim: &Claim,
        class: &EC2NodeClass,
        instance: &InstanceId,
    ) -> Result<Option<DriftReason>> {
        let Some(described) = self.described(claim, instance, Read::Cached).await? else { return Ok(None) };
        // What network and reservation lack is an error before either of them is a reason (spec aws-provider
        // 13).
        let network = drift::of_network(&described, class).map_err(|drift::Open(text)| open(claim, text))?;
        let outside = |described: &Ec2Instance| {
            let outside = drift::outside_reservations(described, class, self.settings.reserved_capacity);
            outside.map_err(|drift::Open(text)| open(claim, text))
        };
        let suspected = outside(&described)?;
        if let Some(reason) = self.left_network(claim, class, network).await? {
            return Ok(Some(reason));
        }
        if suspected {
            // It may have become an on-demand instance meanwhile, which is no drift.
            let fresh = self.described(claim, instance, Read::Consistent).await?;
            let Some(described) = fresh else { return Ok(None) };
            if outside(&described)? {
                return self.left_reservation(claim, class, &described).await.map(Some);
            }
        }
        let group = self.placement_group(OPERATION, claim.name.as_str(), class).await?;
        Ok(drift::of_placement(claim, group.as_ref()))
    }

    /// The drift of an instance whose network is not what the status of its class names: for certain only if it lacks
    /// something, or EC2 has what it has too much and the class does not select it. Else the answer the status was made from
    /// was not complete.
    async fn left_network(
        &self,
        claim: &Claim,
        class: &EC2NodeClass,
        network: Network,
    ) -> Result<Option<DriftReason>> {
        let failed = |error| cloud_error(OPERATION, claim.name.as_str(), &error);
        match network {
            Network::Same => Ok(None),
            Network::LacksGroups => Ok(Some(drift::SECURITY_GROUP)),
            Network::OtherGroups(groups) => {
                for group in &groups {
                    if self.security_groups.is_deselected(class, group).await.map_err(failed)? {
                        return Ok(Some(drift::SECURITY_GROUP));
                    }
                }
                Err(open(claim, "a security group it has is still selected, and EC2 did not name it"))
            }
            Network::OtherSubnet(subnet) => {
                if self.subnets.is_deselected(class, &subnet).await.map_err(failed)? {
                    return Ok(Some(drift::SUBNET));
                }
                Err(open(claim, "the subnet it is in is still selected, and EC2 did not name it"))
            }
        }
    }

    /// The drift of an instance in a reservation that the status of its class does not name: for certain only while EC2 has
    /// the reservation and the class does not select it. Else the answer the status was made from was not complete, or the
    /// reservation has ended and the instance is about to be an on-demand one.
    async fn left_reservation(
        &self,
        claim: &Claim,
        class: &EC2NodeClass,
        described: &Ec2Instance,
    ) -> Result<DriftReason> {
        let id = described.reservation.as_ref().map_or("", |id| id.as_str());
        let deselected = self.reservations.is_deselected(class, id).await;
        if deselected.map_err(|error| cloud_error(OPERATION, claim.name.as_str(), &error))? {
            return Ok(drift::CAPACITY_RESERVATION);
        }
        Err(open(
            claim,
            "the capacity reservation it is in is still selected, or has ended: EC2's answers differ",
        ))
    }

    async fn described(
        &self,
        claim: &Claim,
        instance: &InstanceId,
        read: Read,
    ) -> Result<Option<Ec2Instance>> {
        let found = self.instances.get(instance, read).await;
        found.map_err(|error| cloud_error(OPERATION, claim.name.as_str(), &error))
    }
}
