//! Instances in the port's form: EC2's descriptions, joined with the properties of their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::Instance as Ec2Instance;
use karpenter_cloud::Instance;
use karpenter_cloud::overlay::{List, PoolOverlays};

use super::AwsProvider;
use crate::catalogue::instance_types::named;
use crate::class::store::Lookup;
use crate::instances::view;

/// Joins descriptions. Made for one answer: a `NodeClass` is looked up once, however many of its instances
/// there are.
pub(super) struct Joined<'a> {
    provider: &'a AwsProvider,
    overlays: Option<&'a PoolOverlays>,
    classes: BTreeMap<String, Known>,
}

/// Remembered state of a `NodeClass`.
#[derive(Clone, Default)]
struct Known {
    class: Option<Arc<EC2NodeClass>>,
    annotations: BTreeMap<String, String>,
    types: Option<List>,
}

impl<'a> Joined<'a> {
    /// Sees types through `overlays`.
    pub(super) fn new(provider: &'a AwsProvider, overlays: Option<&'a PoolOverlays>) -> Self {
        Self { provider, overlays, classes: BTreeMap::new() }
    }

    /// An instance and what its type has.
    pub(super) fn view(&mut self, instance: &Ec2Instance) -> Instance {
        let name = instance.tags.get(karpenter_model::names::label::aws::EC2_NODE_CLASS);
        let Known { class, annotations, types } = name.map(|name| self.known(name)).unwrap_or_default();
        let of_type = types.as_ref().and_then(|types| named(types, instance.instance_type.as_str()));
        view::of_described(
            instance,
            of_type,
            class.as_deref(),
            annotations,
            self.provider.settings.reserved_capacity,
        )
    }

    fn known(&mut self, name: &str) -> Known {
        if let Some(known) = self.classes.get(name) {
            return known.clone();
        }
        let class = match self.provider.classes.get(name) {
            Lookup::Found(class) => Some(class),
            Lookup::Absent | Lookup::NotSynced | Lookup::Undecoded => None,
        };
        let types = class.as_ref().and_then(|class| self.provider.types.list(class).ok());
        let seen = |types| match self.overlays {
            Some(overlays) => overlays.lay_over(&types, &self.provider.registry),
            None => types,
        };
        let annotations = class.as_ref().map(|class| view::annotations_of(class, self.provider.ca_bundle()));
        let known = Known { class, annotations: annotations.unwrap_or_default(), types: types.map(seen) };
        self.classes.insert(name.to_owned(), known.clone());
        known
    }
}
