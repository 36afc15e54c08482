//! Node classes and registration health: the little the view knows beyond the cluster index.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_kube_harness::watch::Seen;
use karpenter_lifecycle::pool::status::health::Tracker;
use karpenter_lifecycle::pool::status::readiness::NodeClass;
use karpenter_lifecycle::step::{RegistrationOutcome, Verdict};
use karpenter_model::{ConditionStatus, NodeClassRef, Pool, PoolUid};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::View;

/// A node class of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub state: NodeClass,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`: every change of the class may change what its machines should be.
    version: Option<String>,
}

/// Node classes by kind and name, and the kinds that have been listed.
#[derive(Default)]
pub(super) struct Classes {
    known: BTreeMap<(String, String), Class>,
    listed: BTreeSet<String>,
    registrations: BTreeMap<PoolUid, Tracker>,
}

impl View {
    /// The node class, if it exists.
    pub fn class(&self, reference: &NodeClassRef) -> Option<Class> {
        self.lock().node_classes.known.get(&(reference.kind.clone(), reference.name.clone())).cloned()
    }

    /// True once every kind of node class has been listed, so that an absent one does not exist.
    pub(crate) fn classes_listed(&self) -> bool {
        self.lock().node_classes.listed.len() >= self.classes.len()
    }

    /// Takes in what the watch of one kind of node class said.
    pub(crate) fn class_seen(&self, kind: &str, seen: Seen<DynamicObject>) {
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => {
                let (key, class) = ((kind.to_owned(), object.name_any()), read(&object));
                let before = self.lock().node_classes.known.insert(key, class.clone());
                if before.as_ref() != Some(&class) {
                    self.class_changed(kind, &object.name_any());
                }
            }
            Seen::Deleted(object) => {
                self.lock().node_classes.known.remove(&(kind.to_owned(), object.name_any()));
                self.class_changed(kind, &object.name_any());
            }
            Seen::Complete(keys) => {
                let mut inner = self.lock();
                let classes = &mut inner.node_classes;
                classes.listed.insert(kind.to_owned());
                let listed = |name: &str| keys.contains(&(String::new(), name.to_owned()));
                classes.known.retain(|(known, name), _| known != kind || listed(name));
                drop(inner);
                for pool in self.pools() {
                    self.subscribers.wake_pool(&pool.model.name);
                }
                self.subscribers.tell_specs();
            }
        }
    }

    /// Asks for passes over the pools and claims of a class, because it is not what it was. Providers that keep
    /// classes themselves call it once they have the new one.
    pub fn class_changed(&self, kind: &str, name: &str) {
        let of_class = |class: &NodeClassRef| class.kind == kind && class.name == name;
        for pool in self.pools().into_iter().filter(|pool| of_class(&pool.model.template.node_class)) {
            self.subscribers.wake_pool(&pool.model.name);
        }
        for claim in self.claims().into_iter().filter(|claim| of_class(&claim.model.node_class)) {
            self.subscribers.wake_claim(&claim.model.name);
        }
        self.subscribers.tell_specs();
    }

    /// Notes how a registration went, and says what the pool's condition becomes, if it changes. A pool that has gone
    /// has no condition.
    pub(crate) fn note_registration(
        &self,
        pool: &PoolUid,
        outcome: &RegistrationOutcome,
        condition: Option<ConditionStatus>,
    ) -> Option<Verdict> {
        let mut inner = self.lock();
        if !inner.cluster.all::<Pool>().any(|known| known.model.uid == *pool) {
            return None;
        }
        let trackers = &mut inner.node_classes.registrations;
        trackers.entry(pool.clone()).or_insert_with(|| Tracker::seeded(condition)).note(outcome, condition)
    }

    /// Forgets how earlier registrations of a pool went.
    pub(crate) fn forget_registrations(&self, pool: &PoolUid) {
        self.lock().node_classes.forget_registrations(pool);
    }
}

impl Classes {
    /// Forgets how registrations of a pool went.
    pub(super) fn forget_registrations(&mut self, pool: &PoolUid) {
        self.registrations.remove(pool);
    }
}

fn read(object: &DynamicObject) -> Class {
    let generation = object.metadata.generation.unwrap_or_default();
    let version = object.resource_version();
    if object.metadata.deletion_timestamp.is_some() {
        return Class { state: NodeClass::Terminating, generation, version };
    }
    let conditions = object.data.pointer("/status/conditions").and_then(serde_json::Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let verdict = ready.map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let status = match condition["status"].as_str() {
            Some("True") => ConditionStatus::True,
            Some("False") => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        Verdict { status, reason: text("reason"), message: text("message") }
    });
    Class { state: NodeClass::Present(verdict), generation, version }
}
