//! Devices that drivers publish for Nodes; only while resource claims are not ignored (spec scheduling 22.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::resource::v1;
use k8s_openapi::api::resource::v1alpha3::DeviceTaintRule;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::{Key, Seen};
use karpenter_lifecycle::claim::initialization;
use karpenter_model::device::Reach;
use karpenter_model::{NodeName, NodeObject, ResourceSlice};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::View;
use super::follow::{Followed, stamp, version};
use crate::view::read;

impl Followed for v1::ResourceSlice {
    fn applied(self, view: &View) {
        let (name, slice) = (self.name_any(), read::resource_slice(&self).map(Arc::new));
        match slice {
            Some(slice) => {
                view.lock().cluster.put(&name, stamp(&self), Arc::clone(&slice), ());
                view.wake_claims_with(&slice);
            }
            None => drop(view.lock().cluster.remove::<ResourceSlice>(&name, &version(&self).into())),
        }
    }

    fn deleted(self, view: &View) {
        let removed = view.lock().cluster.remove::<ResourceSlice>(&self.name_any(), &stamp(&self));
        if let Some(known) = removed {
            view.wake_claims_with(&known.model);
        }
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        let names = keys.iter().map(|(_, name)| name.clone()).collect();
        view.lock().cluster.finish_list::<ResourceSlice>(&names, began);
    }
}

impl View {
    /// Takes a rule about taints of devices, of whatever version: their fields are the same.
    pub(crate) fn device_taint_rule_seen(&self, seen: Seen<DynamicObject>) {
        let read = |object: DynamicObject| {
            let spec = serde_json::from_value(object.data["spec"].clone());
            let report =
                |error| tracing::warn!(name = object.name_any(), %error, "cannot read DeviceTaintRule");
            let spec = spec.map_err(report).ok()?;
            Some(DeviceTaintRule { metadata: object.metadata, spec, status: None })
        };
        let seen = match seen {
            Seen::Listing => Some(Seen::Listing),
            Seen::Listed(object) => read(object).map(Seen::Listed),
            Seen::Applied(object) => read(object).map(Seen::Applied),
            // Gone, whether its last form could be read or not.
            Seen::Deleted(DynamicObject { metadata, .. }) => {
                Some(Seen::Deleted(DeviceTaintRule { metadata, ..DeviceTaintRule::default() }))
            }
            Seen::Complete(keys) => Some(Seen::Complete(keys)),
        };
        if let Some(seen) = seen {
            self.take::<DeviceTaintRule>(seen);
        }
    }

    /// Slices that the Nodes of a claim have published; `None` while resource claims are ignored. A slice that belongs to
    /// two of them appears twice, which does not matter: a claim that has two is not initialized.
    pub(crate) fn slices_of(&self, nodes: &[&NodeName]) -> Option<Vec<initialization::ResourceSlice>> {
        let inner = self.lock();
        if inner.cluster.settings().ignore_dra_requests {
            return None;
        }
        let local = nodes.iter().flat_map(|node| inner.cluster.slices_of(node));
        let slice = |slice: &Arc<ResourceSlice>| initialization::ResourceSlice {
            driver: slice.driver.to_string(),
            pool: slice.pool.to_string(),
            generation: slice.generation,
            slices: slice.slice_count,
        };
        Some(local.map(slice).collect())
    }

    /// A claim whose Node has published all it waits for may be initialized.
    fn wake_claims_with(&self, slice: &ResourceSlice) {
        let node = match &slice.reach {
            Reach::Node(node) => Some(node),
            // A slice of devices that several Nodes reach names none of them. The Node whose driver publishes
            // it owns it.
            _ => slice.owner.as_ref(),
        };
        let inner = self.lock();
        let known = node.and_then(|node| inner.cluster.get::<NodeObject>(node));
        let id = known.and_then(|known| known.model.provider_id.as_ref());
        let claims = id.into_iter().flat_map(|id| inner.cluster.claims_of(id));
        let names: Vec<_> = claims.map(|known| known.model.name.clone()).collect();
        drop(inner);
        for name in names {
            self.subscribers.wake_claim(&name);
        }
    }
}
