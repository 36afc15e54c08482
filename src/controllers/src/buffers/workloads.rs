//! Watches of the workloads that buffers name, each of one object: a buffer is looked at as soon as its workload appears,
//! is scaled, gets other pods, or goes. A watch of all workloads would hold every Deployment of the cluster in memory
//! for the sake of a few. (Pod templates are few, and watched as a kind.)

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use karpenter_kube_harness::watch::{Seen, follow_one_if_allowed};
use karpenter_lifecycle::buffer::{self, Source};
use karpenter_model::BufferKey;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Context;
use crate::view::KnownBuffer;

/// Effect of a missing right.
const WITHOUT: &str = "buffers of workloads are looked at every 30 seconds";

/// The watches, by buffer.
#[derive(Default)]
pub(super) struct Workloads(Mutex<BTreeMap<BufferKey, Watched>>);

/// A workload that is watched until this is dropped.
struct Watched {
    kind: &'static str,
    name: String,
    _watch: AbortOnDropHandle<()>,
}

impl Workloads {
    /// Watches the workload `known` names, and no other for it.
    pub(super) fn follow(&self, context: &Context, key: &BufferKey, known: &KnownBuffer) {
        let source = known.model.as_ref().as_ref().ok().and_then(|buffer| buffer::source(buffer).ok());
        let wanted = source.filter(|source| !matches!(source, Source::PodTemplate(_))).map(Source::named);
        let mut watched = self.0.lock();
        let present = watched.get(key).map(|present| (present.kind, present.name.as_str()));
        if present == wanted {
            return;
        }
        let Some((kind, name)) = wanted else {
            watched.remove(key);
            return;
        };
        let watch = match kind {
            "Deployment" => watch::<Deployment>(context, key, name),
            "StatefulSet" => watch::<StatefulSet>(context, key, name),
            _ => watch::<ReplicaSet>(context, key, name),
        };
        watched.insert(key.clone(), Watched { kind, name: name.to_owned(), _watch: watch });
    }

    /// Watches nothing for a buffer that is gone.
    pub(super) fn forget(&self, key: &BufferKey) {
        self.0.lock().remove(key);
    }
}

/// Wakes the buffer whenever the workload is not the one it was. Its status does not matter and changes all the time.
fn watch<K>(context: &Context, key: &BufferKey, name: &str) -> AbortOnDropHandle<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), key.namespace.as_str());
    let (view, key, name) = (Arc::clone(&context.view), key.clone(), name.to_owned());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut last = None;
        let mut listed = None;
        let listener = |seen: Seen<K>| {
            let now = match seen {
                // The watch begins again with a list, and only the end of that shows whether the object is
                // still there.
                Seen::Listing => {
                    listed = None;
                    return;
                }
                Seen::Listed(object) => {
                    listed = shape(&object);
                    return;
                }
                Seen::Complete(_) => listed.take(),
                Seen::Applied(object) => shape(&object),
                Seen::Deleted(_) => None,
            };
            if last != now {
                last = now;
                view.subscribers().wake_buffer(&key);
            }
        };
        follow_one_if_allowed(&K::kind(&()), WITHOUT, api, &name, CancellationToken::new(), listener).await;
    }))
}

/// Fields that distinguish one state of a workload from another as far as buffers are concerned.
fn shape<K: ResourceExt>(object: &K) -> Option<(String, i64)> {
    Some((object.uid()?, object.meta().generation.unwrap_or_default()))
}
