//! Objects of the API server as tests look at them, every virtual second: read again only when they changed.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_kube_sim::apiserver::object::revision;
use karpenter_kube_sim::apiserver::store::ListQuery;
use serde::de::DeserializeOwned;

/// What was read last of each kind, by the revision of its write, which no other write has.
#[derive(Default)]
pub(super) struct Listing {
    kinds: Mutex<HashMap<TypeId, ByRevision>>,
}

type ByRevision = HashMap<u64, Box<dyn Any + Send>>;

impl Listing {
    /// All objects of a kind.
    pub(super) fn of<K>(&self, server: &ApiServer) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Send + DeserializeOwned + 'static,
    {
        let page = server.read(|store| {
            let kind = store.registry().of_kind(&K::group(&()), &K::version(&()), &K::kind(&()));
            store.list(&kind.expect("the server knows the kind"), &ListQuery::default()).unwrap()
        });
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kinds.entry(TypeId::of::<K>()).or_default();
        let mut before = std::mem::take(known);
        let objects = page.items.iter().map(|stored| {
            let read = before.remove(&revision(stored)).and_then(|object| object.downcast::<K>().ok());
            let object = read.unwrap_or_else(|| Box::new(K::deserialize(&**stored).unwrap()));
            let copy = (*object).clone();
            known.insert(revision(stored), object);
            copy
        });
        objects.collect()
    }
}
