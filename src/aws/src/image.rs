//! Images: which AMI a node of a given type is started from (spec aws-provider 6).

pub mod alias;
pub mod family;
pub mod parameters;
pub mod resolve;
pub mod select;

use karpenter_api::convert::requirements;
use karpenter_api::ec2nodeclass::Ami;
use karpenter_model::{LabelRegistry, Requirements, Undefined};

/// The image a node of a type is started from: the first one of the status that accepts it.
pub fn image_for<'a>(amis: &'a [Ami], of_type: &Requirements, registry: &LabelRegistry) -> Option<&'a Ami> {
    amis.iter().find(|ami| {
        of_type.compatible(&requirements(registry, &ami.requirements), Undefined::WellKnown(registry)).is_ok()
    })
}
