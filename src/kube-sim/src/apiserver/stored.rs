//! Writes of tests that play another client: objects with a namespace are in `default`.

use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::listing::Listed;

/// A kind whose objects can be written.
pub trait Stored: Listed + Debug {
    /// Returns the API of the kind.
    fn api(client: &Client) -> Api<Self>;
}

impl<K: Listed + Debug + Resource<Scope: Scoped<K>>> Stored for K {
    fn api(client: &Client) -> Api<Self> {
        K::Scope::api(client.clone())
    }
}

/// A scope, with the API of a kind that has it.
pub trait Scoped<K> {
    /// Returns the API of a kind.
    fn api(client: Client) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = ClusterResourceScope>> Scoped<K> for ClusterResourceScope {
    fn api(client: Client) -> Api<K> {
        Api::all(client)
    }
}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Scoped<K> for NamespaceResourceScope {
    fn api(client: Client) -> Api<K> {
        Api::namespaced(client, "default")
    }
}

/// Asks for the deletion of an object.
pub async fn delete<K: Stored>(client: &Client, name: &str) -> kube::Result<()> {
    K::api(client).delete(name, &DeleteParams::default()).await.map(drop)
}

/// Merges `change` into an object.
pub async fn patch<K: Stored>(client: &Client, name: &str, change: Value) -> kube::Result<K> {
    K::api(client).patch(name, &PatchParams::default(), &Patch::Merge(change)).await
}

/// Merges `status` into the status of an object.
pub async fn patch_status<K: Stored>(client: &Client, name: &str, status: Value) -> kube::Result<K> {
    let change = Patch::Merge(json!({"status": status}));
    K::api(client).patch_status(name, &PatchParams::default(), &change).await
}
