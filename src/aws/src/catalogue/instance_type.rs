//! Turns EC2's description of a type into the planner's: labels, capacity, overhead (spec aws-provider 3.2).

pub mod capacity;
pub mod compatibility;
pub mod devices;
pub mod kubelet;
pub mod labels;
pub mod overhead;
pub mod storage;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_aws_api::ec2::InstanceTypeInfo;
use karpenter_aws_api::id::Zone;
use karpenter_model::resources;
use karpenter_model::{InstanceType, LabelRegistry, Overlaid, Quantity};

use crate::class::view::ClassView;
use crate::settings::Settings;

/// Inputs that are the same for all types.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub view: &'a ClassView<'a>,
    pub settings: &'a Settings,
    pub region: &'a str,
    /// Label keys every type must have an opinion about.
    pub registry: &'a LabelRegistry,
}

/// Joins a type with a `NodeClass`; offerings are left empty.
///
/// `memory` is what a real node of this type and image reported, when one was seen; it replaces the estimate.
pub fn build(
    info: &InstanceTypeInfo,
    zones: &BTreeSet<Zone>,
    memory: Option<Quantity>,
    context: Context<'_>,
) -> InstanceType {
    let Context { view, settings, region, registry } = context;
    let kubelet = kubelet::settings_of(info, view, settings);
    let mut capacity = capacity::capacity(info, view, &kubelet, settings);
    // Before the overhead: the kubelet takes thresholds in percent of what the node really has (aws#8367).
    if let Some(memory) = memory {
        capacity.set(resources::MEMORY, memory);
    }
    let overhead = overhead::of_type(info, view, &kubelet, &capacity);
    // Interfaces that a class sets up itself are not known to the driver as adapters.
    let adapters = if view.class.spec.network_interfaces.is_some() {
        0
    } else {
        u32::try_from(capacity.amount(capacity::EFA).as_units_ceil()).unwrap_or_default()
    };
    let annotations = view.class.metadata.annotations.as_ref();
    let devices = devices::devices(info, adapters, annotations, settings.gates).map(Arc::new);
    InstanceType {
        name: info.name.as_str().into(),
        requirements: labels::requirements(info, view, region, zones, registry),
        capacity,
        overhead,
        offerings: Vec::new(),
        overlaid: Overlaid::default(),
        devices,
    }
}

#[cfg(test)]
mod tests;
