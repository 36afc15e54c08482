//! Meaning of an EC2NodeClass for instance types: its family and the zones its subnets are in.

use std::collections::BTreeMap;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{AmiFamily, CapacityReservation, Ec2NodeClassStatus, KubeletConfiguration};
use karpenter_aws_api::id::SubnetId;
use karpenter_model::names::annotation::aws::EXPLICIT_RESERVATIONS;

use crate::class::expressions::Expressions;
use crate::image::family::family_of;
use crate::network::placement_groups::Group;
use crate::userdata::reserved::{self, Effective};

/// One zone the `NodeClass` has subnets in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// Zone id, if the status has it.
    pub zone_id: Option<String>,
    /// Subnets there, in status order.
    pub subnets: Vec<SubnetId>,
}

/// A `NodeClass` reduced to what the catalogue is joined with.
#[derive(Clone, Debug)]
pub struct ClassView<'a> {
    pub class: &'a EC2NodeClass,
    /// The family in effect.
    pub family: AmiFamily,
    /// The kubelet settings in effect, what the user data reserves included, expressions not.
    pub kubelet: KubeletConfiguration,
    /// True if the local disks of a node are its ephemeral storage.
    pub stripes_disks: bool,
    /// True if user data states what a node reserves for Kubernetes, instead of leaving it to the image.
    pub reserves_explicitly: bool,
    /// Expressions of the kubelet block; none unless they are evaluated.
    pub expressions: Expressions,
    /// Zones by name.
    pub zones: BTreeMap<&'a str, ZoneView>,
    /// The placement group it launches into, when it selects one.
    pub placement: Option<Group>,
    /// True if its capacity reservations count: the `ReservedCapacity` gate.
    pub reserved_capacity: bool,
}

impl<'a> ClassView<'a> {
    /// Reads the object.
    pub fn new(class: &'a EC2NodeClass) -> Self {
        let mut zones: BTreeMap<&str, ZoneView> = BTreeMap::new();
        for subnet in class.status.iter().flat_map(|status| &status.subnets) {
            let zone = zones.entry(&subnet.zone).or_default();
            zone.subnets.push(subnet.id.as_str().into());
            if zone.zone_id.is_none() {
                zone.zone_id.clone_from(&subnet.zone_id);
            }
        }
        let family = family_of(&class.spec);
        let spec = &class.spec;
        let Effective { kubelet, stripes_disks } = reserved::effective(family, spec);
        let annotation = class.metadata.annotations.as_ref().and_then(|all| all.get(EXPLICIT_RESERVATIONS));
        let reserves_explicitly = annotation.is_some_and(|value| value == "true");
        let expressions = Expressions::default();
        Self {
            class,
            family,
            kubelet,
            stripes_disks,
            reserves_explicitly,
            expressions,
            zones,
            placement: None,
            reserved_capacity: true,
        }
    }

    /// Sets the placement group that the selector means at the moment.
    #[must_use]
    pub fn placed(mut self, placement: Option<Group>) -> Self {
        self.placement = placement;
        self
    }

    /// Sets whether its reservations count.
    #[must_use]
    pub(crate) fn reserving(mut self, reserved_capacity: bool) -> Self {
        self.reserved_capacity = reserved_capacity;
        self
    }

    /// Sets whether its expressions are evaluated: the `NodeClassCEL` gate.
    #[must_use]
    pub fn evaluating(mut self, evaluates: bool) -> Self {
        let block = self.class.spec.kubelet.as_ref().filter(|_| evaluates);
        self.expressions = block.map(|block| Expressions::of(block).0).unwrap_or_default();
        self
    }

    /// The object's name.
    pub fn name(&self) -> &'a str {
        self.class.metadata.name.as_deref().unwrap_or_default()
    }

    /// The resolved status, when there is one.
    pub fn status(&self) -> Option<&'a Ec2NodeClassStatus> {
        self.class.status.as_ref()
    }

    /// Reservations of one instance type.
    pub fn reservations<'b>(
        &'b self,
        instance_type: &'b str,
    ) -> impl Iterator<Item = &'a CapacityReservation> + use<'a, 'b> {
        self.class
            .status
            .iter()
            .flat_map(|status| &status.capacity_reservations)
            .filter(move |reservation| self.reserved_capacity && reservation.instance_type == instance_type)
    }

    /// Interfaces the `NodeClass` sets up for EFA traffic only, on card 0 and in total.
    pub(crate) fn efa_only(&self) -> (u32, u32) {
        use karpenter_api::ec2nodeclass::InterfaceType;
        let all = self.class.spec.network_interfaces.iter().flatten();
        all.filter(|nic| nic.interface_type == InterfaceType::EfaOnly)
            .fold((0, 0), |(card_0, total), nic| (card_0 + u32::from(nic.network_card_index == 0), total + 1))
    }
}
