//! Selections of Services and of owners of pods, by which the scheduler groups pods. Only the default spread uses
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{Namespace, OwnerUid};
use crate::label::Labels;
use crate::label::selector::LabelSelector;
use crate::pod::Pod;

/// Selectors that find pods of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selections {
    /// Selectors of Services by namespace and name; those without a selector are not here.
    services: BTreeMap<Namespace, BTreeMap<Arc<str>, Labels>>,
    owners: BTreeMap<OwnerUid, OwnedBy>,
}

/// Selector by which the owner of a pod finds its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedBy {
    /// A `ReplicationController`: labels, which a Service of the same key overwrites or is overwritten by.
    Labels(Labels),
    /// A `ReplicaSet` or `StatefulSet`: a selector, all of which has to hold besides.
    Selector(LabelSelector),
}

impl Selections {
    /// Sets what the Service of this name selects; `None` once it is gone or selects nothing.
    pub fn set_service(&mut self, namespace: &Namespace, name: &str, selector: Option<Labels>) {
        let of_namespace = self.services.entry(namespace.clone()).or_default();
        match selector {
            Some(selector) => drop(of_namespace.insert(name.into(), selector)),
            None => drop(of_namespace.remove(name)),
        }
        if of_namespace.is_empty() {
            self.services.remove(namespace);
        }
    }

    /// Sets what an owner selects; `None` once it is gone.
    pub fn set_owner(&mut self, uid: &OwnerUid, selects: Option<OwnedBy>) {
        match selects {
            Some(selects) => drop(self.owners.insert(uid.clone(), selects)),
            None => drop(self.owners.remove(uid)),
        }
    }

    /// Returns the selector of an owner, if that is known.
    pub fn owner(&self, uid: &OwnerUid) -> Option<&OwnedBy> {
        self.owners.get(uid)
    }

    /// Returns the selector of the Service with this name.
    pub fn service(&self, namespace: &Namespace, name: &str) -> Option<&Labels> {
        self.services.get(namespace)?.get(name)
    }

    /// Namespace and name of every Service that selects something.
    pub fn services(&self) -> impl Iterator<Item = (&Namespace, &str)> {
        let all = self.services.iter();
        all.flat_map(|(namespace, names)| names.keys().map(move |name| (namespace, name.as_ref())))
    }

    /// The pods that belong together with `pod`: those that the Services in front of it and its controller select. Where
    /// Services want different values of one label, that of the last by name counts. `None` where nothing selects it.
    pub fn of(&self, pod: &Pod) -> Option<LabelSelector> {
        let mut labels = Labels::new();
        let services = self.services.get(&pod.key.namespace).into_iter().flat_map(BTreeMap::values);
        for service in services {
            let matches = service.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
            if matches {
                labels.extend(service.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let owner = pod.owner_uid.as_ref().and_then(|uid| self.owners.get(uid));
        if let Some(OwnedBy::Labels(own)) = owner {
            labels.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let mut selector = LabelSelector::from_labels(&labels);
        if let Some(OwnedBy::Selector(own)) = owner {
            selector.expressions.extend(own.expressions.iter().cloned());
        }
        (!selector.expressions.is_empty()).then_some(selector)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::PodKey;
    use crate::label::selector::{SelectorExpression, SelectorOperator};

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn pod(owner: Option<&str>) -> Pod {
        Pod::pending(PodKey::new("shop", "web-1"), "uid", Timestamp::UNIX_EPOCH).with(|pod| {
            pod.labels = labels(&[("app", "web"), ("tier", "front"), ("hash", "1")]);
            pod.owner_uid = owner.map(Into::into);
        })
    }

    fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
        LabelSelector::from_labels(&labels(pairs))
    }

    #[test]
    fn services_that_match_and_the_owner_select_together() {
        let mut known = Selections::default();
        assert_eq!(known.of(&pod(Some("set"))), None, "nothing is known");
        let shop = Namespace::from("shop");
        known.set_service(&shop, "a", Some(labels(&[("app", "web")])));
        known.set_service(&shop, "b", Some(labels(&[("tier", "front")])));
        known.set_service(&shop, "other", Some(labels(&[("app", "api")])));
        known.set_service(&"elsewhere".into(), "c", Some(labels(&[("hash", "1")])));
        assert_eq!(known.of(&pod(None)), Some(selector(&[("app", "web"), ("tier", "front")])), "a bare pod");
        let set = OwnedBy::Selector(selector(&[("hash", "1")]));
        known.set_owner(&"set".into(), Some(set));
        let all = Some(selector(&[("app", "web"), ("tier", "front"), ("hash", "1")]));
        assert_eq!(known.of(&pod(Some("set"))), all, "per revision");
        assert_eq!(known.of(&pod(Some("job"))), Some(selector(&[("app", "web"), ("tier", "front")])));
        known.set_service(&shop, "a", None);
        known.set_service(&shop, "b", None);
        assert_eq!(known.of(&pod(Some("set"))), Some(selector(&[("hash", "1")])));
        known.set_owner(&"set".into(), None);
        assert_eq!(known.of(&pod(Some("set"))), None);
    }

    #[test]
    fn expressions_of_an_owner_count() {
        let mut known = Selections::default();
        let expression = SelectorExpression {
            key: "app".into(),
            operator: SelectorOperator::In,
            values: ["web".into(), "api".into()].into(),
        };
        let own = LabelSelector { expressions: [expression].into() };
        known.set_owner(&"set".into(), Some(OwnedBy::Selector(own.clone())));
        assert_eq!(known.of(&pod(Some("set"))), Some(own));
    }

    #[test]
    fn labels_of_a_replication_controller_overwrite_those_of_services() {
        let mut known = Selections::default();
        known.set_service(&"shop".into(), "a", Some(labels(&[("app", "web")])));
        known.set_owner(&"old".into(), Some(OwnedBy::Labels(labels(&[("app", "later"), ("hash", "1")]))));
        assert_eq!(known.of(&pod(Some("old"))), Some(selector(&[("app", "later"), ("hash", "1")])));
    }

    #[test]
    fn a_service_without_labels_selects_all_pods_and_says_nothing() {
        let mut known = Selections::default();
        known.set_service(&"shop".into(), "all", Some(Labels::new()));
        assert_eq!(known.of(&pod(None)), None);
    }
}
