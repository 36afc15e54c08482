//! Capacity buffers, and the virtual pods they stand for (spec scheduling 23). Only with the feature gate
//! `CapacityBuffer`; without it nothing is ever put in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplate;
use karpenter_api::{CapacityBuffer, convert};
use karpenter_kube_harness::watch::{self, Key, Seen};
use karpenter_model::resources::limit_range::ContainerDefaults;
use karpenter_model::{Buffer, BufferKey, Like, Pod, Target};
use kube::ResourceExt;

use super::{Conditioned, Inner, StatusSeen, View};
use crate::view::store::{Known, Replaced, Store};

/// A buffer as shown and as read; one that cannot be read says why.
pub(crate) type KnownBuffer = Known<CapacityBuffer, Result<Buffer, convert::Error>>;

/// Buffers as far as they are known.
pub(super) struct Buffers {
    store: Store<CapacityBuffer, Result<Buffer, convert::Error>>,
    /// Those whose reference has been followed, or tried to be, since they appeared.
    asked: BTreeSet<BufferKey>,
    listed: bool,
    /// Some plan has said where virtual pods would go.
    counted: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { store: Store::new(|_| None), asked: BTreeSet::new(), listed: false, counted: false }
    }
}

impl Inner {
    fn forget_buffer(&mut self, key: &BufferKey) {
        self.buffers.asked.remove(key);
        self.cluster.set_buffer(key, []);
    }
}

impl View {
    /// Takes in what the watch of buffers said.
    pub fn buffer_seen(&self, seen: Seen<CapacityBuffer>) {
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => self.put_buffer(object),
            Seen::Deleted(object) => self.remove_buffer(&object),
            Seen::Complete(keys) => {
                let mut inner = self.lock();
                inner.buffers.listed = true;
                let gone =
                    inner.buffers.store.iter().filter(|known| !keys.contains(&watch::key(&*known.object)));
                let gone: Vec<_> = gone.map(|known| Arc::clone(&known.object)).collect();
                drop(inner);
                for object in gone {
                    self.remove_buffer(&object);
                }
            }
        }
    }

    /// Takes in what the watch of pod templates said: buffers of theirs are looked at again.
    pub fn pod_template_seen(&self, seen: &Seen<PodTemplate>) {
        let (Seen::Listed(object) | Seen::Applied(object) | Seen::Deleted(object)) = seen else { return };
        let (namespace, name) = watch::key(object);
        for known in self.buffers() {
            let like = known.model.as_ref().as_ref().ok().and_then(|buffer| buffer.like.as_ref());
            let key = key_of(&known.object);
            if key.namespace == namespace.as_str() && like == Some(&Like::PodTemplate(name.clone())) {
                self.subscribers.wake_buffer(&key);
            }
        }
    }

    /// Takes a buffer as the API server shows it. A change of its status alone asks for no new look: we made it.
    pub(crate) fn put_buffer(&self, mut object: CapacityBuffer) {
        object.metadata.managed_fields = None;
        let key = key_of(&object);
        let (model, object) = (Arc::new(convert::buffer(&object)), Arc::new(object));
        let replaced = self.lock().buffers.store.put(Arc::clone(&object), Arc::clone(&model));
        let Some(Replaced(before)) = replaced else { return };
        if let Some(before) = &before {
            let (old, new) = (Arc::clone(&before.object), Arc::clone(&object));
            let (old, new) = (Conditioned::Buffer(old), Conditioned::Buffer(new));
            self.subscribers.tell_status(&StatusSeen::Changed { old, new });
        }
        let leaving = |object: &CapacityBuffer| object.metadata.deletion_timestamp.is_some();
        let same =
            |before: &KnownBuffer| before.model == model && leaving(&before.object) == leaving(&object);
        if !before.as_ref().is_some_and(same) {
            self.subscribers.wake_buffer(&key);
        }
    }

    fn remove_buffer(&self, object: &CapacityBuffer) {
        let (key, name) = (key_of(object), stored_as(&key_of(object)));
        let mut inner = self.lock();
        let Some(gone) = inner.buffers.store.remove(&name, object.uid().as_deref()) else { return };
        inner.forget_buffer(&key);
        drop(inner);
        self.subscribers.tell_status(&StatusSeen::Gone(Conditioned::Buffer(gone.object)));
        self.subscribers.wake_buffer(&key);
    }

    /// The buffer with this key.
    pub(crate) fn buffer(&self, key: &BufferKey) -> Option<KnownBuffer> {
        self.lock().buffers.store.get(&stored_as(key))
    }

    /// Every buffer, in the order of their names.
    pub(crate) fn buffers(&self) -> Vec<KnownBuffer> {
        self.lock().buffers.store.iter().cloned().collect()
    }

    /// Records an attempt to follow the reference of a buffer; `pods` are the result, `None` when the API
    /// server did not answer, so that what was known stays. True when its virtual pods are others than
    /// before.
    pub(crate) fn buffer_asked(&self, key: &BufferKey, pods: Option<Vec<Pod>>) -> bool {
        let mut inner = self.lock();
        if inner.buffers.store.get(&stored_as(key)).is_none() {
            // Gone meanwhile: nothing of it may stay.
            inner.forget_buffer(key);
            return false;
        }
        inner.buffers.asked.insert(key.clone());
        pods.is_some_and(|pods| inner.cluster.set_buffer(key, pods))
    }

    /// Records where a plan would put virtual pods.
    pub(crate) fn buffer_pods_counted(&self, counts: BTreeMap<Target, usize>) {
        let mut inner = self.lock();
        inner.buffers.counted |= inner.buffers.are_asked();
        inner.cluster.set_buffer_counts(counts);
    }

    /// Whether a machine without virtual pods is known to have none: every buffer that was there when we started has
    /// been asked for, and a plan has been made with them unless there is nothing to plan for.
    pub(crate) fn knows_buffers(&self) -> bool {
        let inner = self.lock();
        inner.buffers.counted || (inner.buffers.are_asked() && !inner.cluster.has_buffer_pods())
    }

    /// What limit ranges give containers of a namespace.
    pub(crate) fn container_defaults(&self, namespace: &str) -> Vec<ContainerDefaults> {
        self.lock().limit_ranges.of(namespace)
    }
}

impl Buffers {
    fn are_asked(&self) -> bool {
        self.listed && self.store.iter().all(|known| self.asked.contains(&key_of(&known.object)))
    }
}

/// Namespace and name of a buffer.
pub(crate) fn key_of(object: &CapacityBuffer) -> BufferKey {
    let (namespace, name): Key = watch::key(object);
    BufferKey::new(&namespace, &name)
}

/// What the store calls it.
fn stored_as(key: &BufferKey) -> String {
    key.to_string()
}
