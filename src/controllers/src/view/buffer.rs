//! Capacity buffers, and the virtual pods they stand for (spec scheduling 23). Only with the feature gate
//! `CapacityBuffer`; without it nothing is ever put in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplate;
use karpenter_api::CapacityBuffer;
use karpenter_api::convert::{self, Admission};
use karpenter_cluster::{Epoch, Known, Stamp, Store};
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model::{Buffer, BufferKey, Like, Pod, Target};
use kube::Resource;

use super::follow::{Followed, stamp};
use super::{Conditioned, Inner, StatusSeen, View};

/// A buffer as shown and as read; one that cannot be read has the reason.
pub(crate) type KnownBuffer = Known<Result<Buffer, convert::Error>, Arc<CapacityBuffer>>;

/// Buffers as far as they are known.
#[derive(Default)]
pub(super) struct Buffers {
    store: Store<BufferKey, Result<Buffer, convert::Error>, Arc<CapacityBuffer>>,
    /// Buffers whose reference has been followed, or tried to be, since they appeared.
    asked: BTreeSet<BufferKey>,
    /// Some plan has placed its virtual pods or found no place.
    counted: bool,
}

impl Inner {
    fn buffers_are_asked(&self) -> bool {
        let Buffers { store, asked, .. } = &self.buffers;
        self.lists.has(&CapacityBuffer::kind(&())) && store.iter().all(|(key, _)| asked.contains(key))
    }

    fn forget_buffer(&mut self, key: &BufferKey) {
        self.buffers.asked.remove(key);
        self.cluster.set_buffer(key, []);
    }
}

impl Followed for CapacityBuffer {
    fn applied(self, view: &View) {
        view.put_buffer(self);
    }

    fn deleted(self, view: &View) {
        view.forget_buffer(&key_of(&self), &stamp(&self));
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        let keys = keys.iter().map(|(namespace, name)| BufferKey::new(namespace, name)).collect();
        let gone = view.lock().buffers.store.remove_unlisted(&keys, began);
        for (key, known) in gone {
            view.buffer_gone(&key, known);
        }
    }
}

/// Buffers of a pod template are looked at again when it changes.
impl Followed for PodTemplate {
    fn applied(self, view: &View) {
        view.wake_buffers_like(&self);
    }

    fn deleted(self, view: &View) {
        view.wake_buffers_like(&self);
    }

    fn complete(_: &View, _: &BTreeSet<Key>, _: Epoch) {}
}

impl View {
    fn wake_buffers_like(&self, template: &PodTemplate) {
        let (namespace, name) = watch::key(template);
        for known in self.buffers() {
            let like = known.model.as_ref().as_ref().ok().and_then(|buffer| buffer.like.as_ref());
            let key = key_of(&known.object);
            if key.namespace == namespace.as_str() && like == Some(&Like::PodTemplate(name.clone())) {
                self.subscribers.wake_buffer(&key);
            }
        }
    }

    /// Takes a buffer as the API server shows it. A change of its status alone triggers no new look: we made it.
    pub(crate) fn put_buffer(&self, mut object: CapacityBuffer) {
        object.metadata.managed_fields = None;
        let key = key_of(&object);
        let (model, object) = (convert::buffer(&object), Arc::new(object));
        let put = {
            let mut inner = self.lock();
            let (epoch, stamp) = (inner.cluster.epoch(), stamp(&*object));
            inner.buffers.store.put(key.clone(), stamp, model, Arc::clone(&object), epoch)
        };
        let Some(put) = put else { return };
        if let Some(before) = &put.before {
            self.notify_changed(Conditioned::Buffer, &before.object, &object);
        }
        let leaving = |object: &CapacityBuffer| object.metadata.deletion_timestamp.is_some();
        let left = |before: KnownBuffer| leaving(&before.object) != leaving(&object);
        if put.changed || put.before.is_some_and(left) {
            self.subscribers.wake_buffer(&key);
        }
    }

    /// Forgets a buffer that is gone or takes no part.
    pub(super) fn forget_buffer(&self, key: &BufferKey, stamp: &Stamp) {
        let removed = self.lock().buffers.store.remove(key, stamp);
        if let Some(known) = removed {
            self.buffer_gone(key, known);
        }
    }

    fn buffer_gone(&self, key: &BufferKey, known: KnownBuffer) {
        self.lock().forget_buffer(key);
        self.subscribers.notify_status(&StatusSeen::Gone(Conditioned::Buffer(known.object)));
        self.subscribers.wake_buffer(key);
    }

    /// The buffer with this key.
    pub(crate) fn buffer(&self, key: &BufferKey) -> Option<KnownBuffer> {
        self.lock().buffers.store.get(key).cloned()
    }

    /// Every buffer, in the order of their names.
    pub(crate) fn buffers(&self) -> Vec<KnownBuffer> {
        self.lock().buffers.store.iter().map(|(_, known)| known.clone()).collect()
    }

    /// Records an attempt to follow the reference of a buffer; `pods` are the result, `None` when the API
    /// server did not answer, so that what was known stays. True when its virtual pods are others than
    /// before.
    pub(crate) fn buffer_asked(&self, key: &BufferKey, pods: Option<Vec<Pod>>) -> bool {
        let mut inner = self.lock();
        if inner.buffers.store.get(key).is_none() {
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
        inner.buffers.counted |= inner.buffers_are_asked();
        inner.cluster.set_buffer_counts(counts);
    }

    /// Returns whether a machine without virtual pods is known to have none: every buffer that was there when we started has
    /// been asked for, and a plan has been made with them unless there is nothing to plan for.
    pub(crate) fn knows_buffers(&self) -> bool {
        let inner = self.lock();
        inner.buffers.counted || (inner.buffers_are_asked() && !inner.cluster.has_buffer_pods())
    }

    /// Admission that templates go through.
    pub(crate) fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.lock().admission)
    }
}

/// Namespace and name of a buffer.
pub(crate) fn key_of(object: &CapacityBuffer) -> BufferKey {
    let (namespace, name): Key = watch::key(object);
    BufferKey::new(&namespace, &name)
}
