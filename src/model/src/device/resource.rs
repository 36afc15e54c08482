//! Resources that a class of devices stands for (KEP-5004): a node that has the resource counts it, and another one serves it
//! with devices.

use std::sync::Arc;

use crate::id::{DeviceClassName, ResourceName};
use crate::resources::Resources;
use crate::resources::quantity::Quantity;

use super::{DeviceClass, Devices};

/// Prefix of the resource by which every class can be asked for.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// Amount of a resource on a node that serves it with devices: how many there are is for the devices to say.
const UNLIMITED: Quantity = Quantity::from_units(1_000_000_000);

impl Devices {
    /// The class whose devices stand for `resource` on nodes that have none of it; the youngest of several, and the first by
    /// name of those.
    pub fn class_of(&self, resource: &ResourceName) -> Option<&DeviceClassName> {
        if !resource.as_str().contains('/') {
            return None;
        }
        let implicit = resource.as_str().strip_prefix(IMPLICIT);
        let stands = |(name, class): &(&DeviceClassName, &Arc<DeviceClass>)| {
            implicit == Some(name.as_str()) || class.extended_resource.as_ref() == Some(resource)
        };
        let classes = self.classes.iter().filter(stands);
        // The last of equals would count.
        classes.rev().max_by_key(|(_, class)| class.created_at).map(|(name, _)| name)
    }

    /// The resources among `requests` that a class of devices stands for, with the class and how many are asked for.
    pub fn classes_for<'d>(
        &'d self,
        requests: &'d Resources,
    ) -> impl Iterator<Item = (&'d ResourceName, &'d DeviceClassName, Quantity)> {
        let asked = requests.iter().filter(|(_, quantity)| **quantity > Quantity::ZERO);
        asked.filter_map(|(name, quantity)| Some((name, self.class_of(name)?, *quantity)))
    }

    /// Returns `amounts` of a machine without a limit on those of `asked` of which it has none and that devices stand for.
    pub fn without_limit(&self, amounts: Resources, asked: &Resources) -> Resources {
        let mut amounts = amounts;
        for (name, _, _) in self.classes_for(asked) {
            if amounts.amount(name.as_str()) <= Quantity::ZERO {
                amounts.set(name.as_str(), UNLIMITED);
            }
        }
        amounts
    }

    /// Returns those of `requests` that a machine with `amounts` counts, rather than serving them with devices.
    pub fn counted(&self, requests: &Resources, amounts: &Resources) -> Resources {
        let mut counted = requests.clone();
        for (name, _, _) in self.classes_for(requests) {
            if amounts.amount(name.as_str()) <= Quantity::ZERO {
                counted.remove(name.as_str());
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, resource: Option<&str>, created_at: i64) -> (DeviceClassName, Arc<DeviceClass>) {
        let class = DeviceClass {
            selectors: Vec::new(),
            extended_resource: resource.map(Into::into),
            created_at: jiff::Timestamp::from_second(created_at).expect("in range"),
        };
        (name.into(), Arc::new(class))
    }

    #[test]
    fn a_resource_stands_for_the_youngest_class_that_names_it_or_is_named_by_it() {
        let classes = [
            class("b-old", Some("example.com/gpu"), 1),
            class("d-young", Some("example.com/gpu"), 2),
            class("c-young", Some("example.com/gpu"), 2),
            class("none", None, 3),
        ];
        let devices = Devices { classes: classes.into_iter().collect(), ..Devices::default() };
        for (resource, expected) in [
            ("example.com/gpu", Some("c-young")),
            ("example.com/other", None),
            ("deviceclass.resource.kubernetes.io/none", Some("none")),
            ("deviceclass.resource.kubernetes.io/b-old", Some("b-old")),
            ("deviceclass.resource.kubernetes.io/missing", None),
            ("cpu", None),
        ] {
            let class = devices.class_of(&resource.into()).map(DeviceClassName::as_str);
            assert_eq!(class, expected, "{resource}");
        }
    }

    #[test]
    fn a_machine_that_has_the_resource_counts_it_and_another_has_no_limit() {
        let devices = Devices {
            classes: [class("gpu", Some("example.com/gpu"), 1)].into_iter().collect(),
            ..Devices::default()
        };
        let asked = Resources::one_pod().with("example.com/gpu", Quantity::ONE);
        let counting = Resources::one_pod().with("example.com/gpu", Quantity::from_units(4));
        let gone = Resources::one_pod().with("example.com/gpu", Quantity::ZERO);
        assert_eq!(devices.without_limit(counting.clone(), &asked), counting);
        assert_eq!(devices.counted(&asked, &counting), asked);
        for without in [Resources::one_pod(), gone] {
            assert_eq!(devices.counted(&asked, &without), Resources::one_pod());
            assert!(asked.fits(&devices.without_limit(without, &asked)));
        }
    }
}
