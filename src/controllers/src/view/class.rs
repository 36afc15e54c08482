//! Node classes and registration health: the little the view holds beyond the cluster index.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_kube_harness::watch::Seen;
use karpenter_lifecycle::pool::status::health::Tracker;
use karpenter_lifecycle::pool::status::readiness::NodeClass;
use karpenter_lifecycle::step::{ConditionValue, RegistrationOutcome};
use karpenter_model::names::condition;
use karpenter_model::{ConditionStatus, NodeClassRef, Pool, PoolUid};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::View;

/// A node class of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub state: NodeClass,
    /// `metadata.generation`.
    pub generation: i64,
}

impl Class {
    /// State of a class of which this is the content, its metadata aside.
    pub fn state_of(is_deleting: bool, content: &Value) -> NodeClass {
        if is_deleting {
            return NodeClass::Terminating;
        }
        let conditions = content.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|one| one["type"] == condition::READY);
        NodeClass::Present(ready.map(|ready| {
            let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
            let status = ConditionStatus::parse(&text("status"));
            ConditionValue { status, reason: text("reason"), message: text("message") }
        }))
    }
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

    /// Takes in an event of the watch of one kind of node class. Claims are left to the provider: they are compared with
    /// its state of the class, which it may receive later than this view.
    pub(crate) fn class_seen(&self, kind: &str, seen: Seen<DynamicObject>) {
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => {
                let key = (kind.to_owned(), object.name_any());
                let is_deleting = object.metadata.deletion_timestamp.is_some();
                let class = Class {
                    state: Class::state_of(is_deleting, &object.data),
                    generation: object.metadata.generation.unwrap_or_default(),
                };
                let mut inner = self.lock();
                let before = inner.node_classes.known.insert(key, class.clone());
                if before.as_ref().is_some_and(|before| before.generation != class.generation) {
                    inner.cluster.class_changed(kind, &object.name_any());
                }
                // Listeners run on this task and look at the view: the lock must be free.
                drop(inner);
                if before.as_ref() != Some(&class) {
                    self.wake_pools_of_class(kind, &object.name_any());
                }
            }
            Seen::Deleted(object) => {
                self.lock().node_classes.known.remove(&(kind.to_owned(), object.name_any()));
                self.wake_pools_of_class(kind, &object.name_any());
            }
            Seen::Complete(keys) => {
                let mut inner = self.lock();
                let classes = &mut inner.node_classes;
                classes.listed.insert(kind.to_owned());
                let listed = |name: &str| keys.contains(&(String::new(), name.to_owned()));
                classes.known.retain(|(known, name), _| known != kind || listed(name));
                drop(inner);
                // Only now is it known of a class that was not listed that it does not exist.
                for pool in self.pools() {
                    self.subscribers.wake_pool(&pool.model.name);
                }
                self.subscribers.notify_specs();
            }
        }
    }

    /// Asks for passes over the pools and claims of a class, because it is not what it was or has gone. The provider's
    /// controllers call it once the provider has the change.
    pub fn class_changed(&self, kind: &str, name: &str) {
        for claim in self.claims().into_iter().filter(|claim| is_of(&claim.model.node_class, kind, name)) {
            self.subscribers.wake_claim(&claim.model.name);
        }
        self.wake_pools_of_class(kind, name);
    }

    fn wake_pools_of_class(&self, kind: &str, name: &str) {
        for pool in self.pools().into_iter().filter(|pool| is_of(&pool.model.template.node_class, kind, name))
        {
            self.subscribers.wake_pool(&pool.model.name);
        }
        self.subscribers.notify_specs();
    }

    /// Records the outcome of a registration, and returns the pool's new condition, if it changes. A pool that has gone
    /// has no condition.
    pub(crate) fn note_registration(
        &self,
        pool: &PoolUid,
        outcome: &RegistrationOutcome,
        condition: Option<ConditionStatus>,
    ) -> Option<ConditionValue> {
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

fn is_of(class: &NodeClassRef, kind: &str, name: &str) -> bool {
    class.kind == kind && class.name == name
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use karpenter_model::{ClaimName, PoolName};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{World, pool, woken};

    const KIND: &str = "MemoryNodeClass";

    /// Pool `web` and claim `web-1`, both of class `default`, and which of them were woken.
    struct Woken {
        view: Arc<View>,
        pools: Arc<Mutex<Vec<PoolName>>>,
        claims: Arc<Mutex<Vec<ClaimName>>>,
    }

    impl Woken {
        fn new() -> Self {
            let World { context, .. } = World::new();
            let view = Arc::clone(&context.view);
            let woken = Self {
                pools: woken(&context, |queue| view.subscribers().pools(queue)),
                claims: woken(&context, |queue| view.subscribers().claims(queue)),
                view,
            };
            let class = json!({"group": "karpenter.memory", "kind": KIND, "name": "default"});
            let claim = json!({
                "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": "1"},
                "spec": {"nodeClassRef": class, "requirements": []},
            });
            woken.view.put_pool(pool("web"));
            woken.view.put_claim(serde_json::from_value(claim).unwrap());
            woken
        }

        /// Objects woken since the last call, pools first.
        async fn take(&self) -> Vec<String> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let pools = std::mem::take(&mut *self.pools.lock());
            let claims = std::mem::take(&mut *self.claims.lock());
            let names = pools.iter().map(ToString::to_string);
            names.chain(claims.iter().map(ToString::to_string)).collect()
        }

        fn applied(&self, version: u32, generation: u32, status: &str, more: &Value) {
            let ready = json!({"type": "Ready", "status": status, "reason": "Ready", "message": ""});
            let class = json!({
                "apiVersion": "karpenter.memory/v1", "kind": KIND,
                "metadata": {"name": "default", "resourceVersion": version.to_string(), "generation": generation},
                "status": {"conditions": [ready], "more": more},
            });
            self.view.class_seen(KIND, Seen::Applied(serde_json::from_value(class).unwrap()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_wakes_its_pools_when_it_becomes_ready_or_another_and_no_claims() {
        let world = Woken::new();
        world.take().await;
        let steps = [
            (1, "False", json!(null), true),
            (1, "False", json!("rank of subnets"), false),
            (1, "True", json!("rank of subnets"), true),
            (2, "True", json!("rank of subnets"), true),
            (2, "True", json!(null), false),
        ];
        for (version, (generation, status, more, wakes)) in (1..).zip(&steps) {
            world.applied(version, *generation, status, more);
            let expected: &[&str] = if *wakes { &["web"] } else { &[] };
            assert_eq!(world.take().await, expected, "step {version}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_the_provider_calls_changed_wakes_pools_and_claims() {
        let world = Woken::new();
        world.take().await;
        world.view.class_changed(KIND, "default");
        assert_eq!(world.take().await, ["web", "web-1"]);
        world.view.class_changed(KIND, "other");
        assert_eq!(world.take().await, Vec::<String>::new());
    }
}
