//! Objects of the API server as tests look at them, every virtual second: read again only when they changed.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::ApiServer;
use super::object::revision;
use super::store::ListQuery;

/// A kind whose objects can be listed.
pub trait Listed: kube::Resource<DynamicType = ()> + Clone + Send + DeserializeOwned + 'static {}

impl<K: kube::Resource<DynamicType = ()> + Clone + Send + DeserializeOwned + 'static> Listed for K {}

/// Objects of each kind as last read, by the revision of their write, which no other write has.
#[derive(Default)]
pub struct Listing {
    kinds: Mutex<HashMap<TypeId, ByRevision>>,
}

type ByRevision = HashMap<u64, Box<dyn Any + Send>>;

impl Listing {
    /// All objects of a kind the server knows, in the order of their names.
    pub fn of<K: Listed>(&self, server: &ApiServer) -> Vec<K> {
        let page = server.read(|store| {
            let kind = store.registry().of_kind(&K::group(&()), &K::version(&()), &K::kind(&()));
            let kind = kind.expect("the server knows the kind");
            store.list(&kind, &ListQuery::default()).expect("a list of everything is served")
        });
        let mut kinds = self.kinds.lock();
        let known = kinds.entry(TypeId::of::<K>()).or_default();
        let mut before = std::mem::take(known);
        let objects = page.items.iter().map(|stored| {
            let read = before.remove(&revision(stored)).and_then(|object| object.downcast::<K>().ok());
            let object = read.unwrap_or_else(|| {
                Box::new(K::deserialize(&**stored).expect("what is stored is of its kind"))
            });
            let copy = (*object).clone();
            known.insert(revision(stored), object);
            copy
        });
        objects.collect()
    }
}
