//! Devices: what drivers publish, classes, and claims for them; only while resource claims are not ignored
//! (spec scheduling 22.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::resource::v1;
use karpenter_api::convert;
use karpenter_cluster::Cluster;
use karpenter_kube_harness::watch::{Key, Seen, key};
use karpenter_lifecycle::claim::initialization;
use karpenter_model::device::{Consumer, DeviceClass, Reach};
use karpenter_model::{
    DeviceClassName, Devices as Model, NodeName, PodKey, PodUid, ResourceClaim, ResourceClaimKey,
    ResourceSlice,
};
use kube::ResourceExt;

use super::View;
use crate::view::read;

/// Kinds without which pods would be refused because of their claims, and machines be taken for complete.
const NEEDED: [&str; 3] = ["ResourceSlice", "DeviceClass", "ResourceClaim"];

/// Everything about devices.
pub(super) struct Devices {
    /// Claims are not ignored, so the kinds are watched.
    wanted: bool,
    slices: BTreeMap<String, Arc<ResourceSlice>>,
    classes: BTreeMap<DeviceClassName, Arc<DeviceClass>>,
    claims: BTreeMap<ResourceClaimKey, KnownClaim>,
    listed: BTreeSet<&'static str>,
}

/// A claim with the pods that use it.
struct KnownClaim {
    claim: Arc<ResourceClaim>,
    pods: Vec<(PodKey, PodUid)>,
}

impl Devices {
    /// Nothing yet; `wanted` says whether anything will come.
    pub(super) fn new(wanted: bool) -> Self {
        let (slices, classes, claims, listed) = Default::default();
        Self { wanted, slices, classes, claims, listed }
    }

    /// The needed kinds that have never been listed.
    pub(super) fn unlisted(&self) -> impl Iterator<Item = &'static str> {
        NEEDED.into_iter().filter(|kind| self.wanted && !self.listed.contains(kind))
    }

    /// The devices as a pass sees them. A pod that uses a claim and is not in `cluster` is no more.
    pub(super) fn model(&self, cluster: &Cluster) -> Arc<Model> {
        if !self.wanted {
            return Arc::default();
        }
        let exists = |(key, uid): &(PodKey, PodUid)| cluster.pod(key).is_some_and(|pod| pod.uid == *uid);
        let claim = |(key, known): (&ResourceClaimKey, &KnownClaim)| {
            let gone: BTreeSet<&PodUid> =
                known.pods.iter().filter(|pod| !exists(pod)).map(|(_, uid)| uid).collect();
            let mut claim = Arc::clone(&known.claim);
            if !gone.is_empty() {
                for consumer in &mut Arc::make_mut(&mut claim).reserved_for {
                    if let Consumer::Pod(uid) = consumer
                        && gone.contains(uid)
                    {
                        *consumer = Consumer::Gone(uid.clone());
                    }
                }
            }
            (key.clone(), claim)
        };
        Arc::new(Model {
            slices: self.slices.values().cloned().collect(),
            classes: self.classes.clone(),
            claims: self.claims.iter().map(claim).collect(),
            // No provider says what its machines bring along.
            templates: BTreeMap::new(),
        })
    }

    /// What `nodes` have published; `None` while claims are ignored.
    pub(super) fn local_to(&self, nodes: &[&NodeName]) -> Option<Vec<initialization::ResourceSlice>> {
        let local = self.slices.values().filter(|slice| nodes.iter().any(|node| is_local(slice, node)));
        let slice = |slice: &Arc<ResourceSlice>| initialization::ResourceSlice {
            driver: slice.driver.to_string(),
            pool: slice.pool.to_string(),
            generation: slice.generation,
            slices: slice.slice_count,
        };
        self.wanted.then(|| local.map(slice).collect())
    }

    fn forget_claims(&mut self, listed: &BTreeSet<Key>) {
        self.claims.retain(|key, _| listed.contains(&(key.namespace.to_string(), key.name.to_string())));
    }
}

/// Whether `slice` belongs to `node`: it is of that Node only, or the Node owns it.
fn is_local(slice: &ResourceSlice, node: &NodeName) -> bool {
    slice.owner.as_ref() == Some(node) || matches!(&slice.reach, Reach::Node(name) if name == node)
}

impl View {
    /// What the Nodes of a claim have published; `None` while claims are ignored.
    pub fn slices_of(&self, nodes: &[&NodeName]) -> Option<Vec<initialization::ResourceSlice>> {
        self.lock().devices.local_to(nodes)
    }

    /// Takes in what the watch of resource slices said.
    pub fn resource_slice_seen(&self, seen: Seen<v1::ResourceSlice>) {
        let mut inner = self.lock();
        let slices = &mut inner.devices.slices;
        let changed = match seen {
            Seen::Listing => return,
            Seen::Listed(object) | Seen::Applied(object) => {
                let slice = read::resource_slice(&object).map(Arc::new);
                match &slice {
                    Some(slice) => slices.insert(object.name_any(), Arc::clone(slice)),
                    None => slices.remove(&object.name_any()),
                };
                slice
            }
            Seen::Deleted(object) => slices.remove(&object.name_any()),
            Seen::Complete(keys) => {
                slices.retain(|name, _| keys.contains(&(String::new(), name.clone())));
                inner.devices.listed.insert("ResourceSlice");
                return;
            }
        };
        let node = changed.and_then(|slice| match &slice.reach {
            Reach::Node(node) => Some(node.clone()),
            _ => slice.owner.clone(),
        });
        let known = node.and_then(|node| inner.nodes.get(node.as_str()));
        let id = known.and_then(|known| known.model.provider_id.clone());
        let claims = id.map_or_else(Vec::new, |id| inner.claims.of(&id));
        drop(inner);
        for claim in claims {
            self.subscribers.wake_claim(&claim.model.name);
        }
    }

    /// Takes in what the watch of device classes said.
    pub fn device_class_seen(&self, seen: Seen<v1::DeviceClass>) {
        let devices = &mut self.lock().devices;
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => {
                let class = Arc::new(convert::device_class(&object));
                devices.classes.insert(object.name_any().into(), class);
            }
            Seen::Deleted(object) => {
                devices.classes.remove(object.name_any().as_str());
            }
            Seen::Complete(keys) => {
                devices.classes.retain(|name, _| keys.contains(&(String::new(), name.to_string())));
                devices.listed.insert("DeviceClass");
            }
        }
    }

    /// Takes in what the watch of resource claims said.
    pub fn resource_claim_seen(&self, seen: Seen<v1::ResourceClaim>) {
        let devices = &mut self.lock().devices;
        let of = |(namespace, name): Key| ResourceClaimKey { namespace: namespace.into(), name: name.into() };
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => match read::resource_claim(&object) {
                Some((claim, pods)) => {
                    let known = KnownClaim { claim: Arc::new(claim), pods };
                    devices.claims.insert(known.claim.key.clone(), known);
                }
                None => {
                    devices.claims.remove(&of(key(&object)));
                }
            },
            Seen::Deleted(object) => {
                devices.claims.remove(&of(key(&object)));
            }
            Seen::Complete(keys) => {
                devices.forget_claims(&keys);
                devices.listed.insert("ResourceClaim");
            }
        }
    }
}
