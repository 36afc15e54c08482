//! The watches of a process. They may run before it leads, so that it has the cluster's state when it does; until
//! then there are no listeners, and nothing is reported.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
    ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use karpenter_kube_harness::watch::{Logged, Readable, Seen, follow, follow_if_allowed};
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::buffers;
use crate::publish::status::Classes;
use crate::view::{Followed, View, Widened};

/// Name of the watches where work under way is listed.
const NAME: &str = "watch";

/// Running watches, and what they keep besides the view.
pub struct Watching {
    pub(crate) context: Context,
    pub(crate) classes: Classes,
    pub(crate) tasks: JoinSet<()>,
    /// Ends the watches.
    pub(crate) stop: CancellationToken,
}

impl Watching {
    /// Starts every watch; they end with `shutdown`.
    pub fn start(context: &Context, shutdown: &CancellationToken) -> Self {
        let (mut tasks, classes) = (JoinSet::new(), Classes::default());
        let stop = shutdown.child_token();
        spawn_watches(&mut tasks, context, &classes, &stop);
        Self { context: context.clone(), classes, tasks, stop }
    }

    /// Waits until everything has been listed once.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<> {
        let view = Arc::clone(&self.context.view);
        async move {
            while !view.unlisted().is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Starts watches as tasks. What each of them is applying is work under way.
struct Watches<'a> {
    tasks: &'a mut JoinSet<()>,
    context: &'a Context,
    shutdown: &'a CancellationToken,
}

impl Watches<'_> {
    /// Calls `apply` for every event about objects behind `api`.
    fn follow<K>(
        &mut self,
        kind: Cow<'static, str>,
        api: Api<K>,
        mut apply: impl FnMut(&View, Seen<K>) + Send + 'static,
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let (view, stopped) = (Arc::clone(&self.context.view), self.shutdown.clone());
        let progress = self.context.metrics.progress.clone();
        self.tasks.spawn(async move {
            let listener = |seen| {
                let _applying = progress.begin(NAME, kind.clone());
                apply(&view, seen);
            };
            follow(&kind, api, view.troubles(), stopped, listener).await;
        });
    }

    /// Lets the view take in all objects of a kind, wherever they are.
    fn all<K>(&mut self)
    where
        K: Followed + Clone + Debug + DeserializeOwned + Send,
    {
        self.follow::<K>(K::kind(&()), Api::all(self.context.client.clone()), View::take);
    }

    /// Follows a kind that other releases write too.
    fn readable<K>(&mut self)
    where
        K: Widened + Clone + Debug + DeserializeOwned + Send,
    {
        let (api, kind, mut logged) =
            (Api::all(self.context.client.clone()), K::kind(&()), Logged::default());
        self.follow::<Readable<K>>(kind.clone(), api, move |view, seen| {
            logged.note(&kind, &seen);
            view.take_readable(seen);
        });
    }
}

fn spawn_watches(
    tasks: &mut JoinSet<()>,
    context: &Context,
    classes: &Classes,
    shutdown: &CancellationToken,
) {
    let mut watches = Watches { tasks, context, shutdown };
    watches.readable::<NodePool>();
    watches.readable::<NodeClaim>();
    watches.all::<Node>();
    watches.all::<Pod>();
    watches.all::<DaemonSet>();
    watches.all::<PodDisruptionBudget>();
    watches.all::<Namespace>();
    watches.all::<VolumeAttachment>();
    watches.all::<PersistentVolumeClaim>();
    watches.all::<PersistentVolume>();
    watches.all::<StorageClass>();
    watches.all::<CSINode>();
    if !context.settings.decisions.default_spread.is_empty() {
        let constraints = context.settings.decisions.default_spread.len();
        tracing::info!(constraints, "pods without topology spread constraints get those of the scheduler");
        watches.all::<Service>();
        watches.all::<ReplicaSet>();
        watches.all::<StatefulSet>();
        watches.all::<ReplicationController>();
    }
    if !context.settings.decisions.ignore_dra_requests {
        watches.all::<ResourceSlice>();
        watches.all::<DeviceClass>();
        watches.all::<ResourceClaim>();
        watch_device_taint_rules(watches.tasks, context, shutdown);
    }
    if context.settings.decisions.gates.node_overlay {
        watches.readable::<NodeOverlay>();
    }
    if buffers::enabled(context) {
        // Nothing waits for these lists: without buffers there is less to do, and nodes stay until they are known.
        watches.readable::<CapacityBuffer>();
        watches.all::<PodTemplate>();
    }
    for kind in context.provider.node_class_kinds() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group, "v1", kind.kind));
        let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
        let (context, classes, kind) = (context.clone(), classes.clone(), kind.kind);
        watches.follow(kind.into(), api, move |view, seen| {
            if context.settings.cluster_state_observability {
                classes.note(&context, kind, &seen);
            }
            view.class_seen(kind, seen);
        });
    }
    let (api, view, stopped) =
        (Api::<LimitRange>::all(context.client.clone()), Arc::clone(&context.view), shutdown.clone());
    tasks.spawn(async move {
        // An installation may keep the roles of the reference, which do not allow this list.
        let without = "daemon sets without pods are taken at what their templates say";
        follow_if_allowed("LimitRange", without, api, stopped, |seen: Seen<LimitRange>| view.take(seen))
            .await;
    });
}

/// Versions of `DeviceTaintRule`, of which an API server has one or none.
const TAINT_RULES: [&str; 3] = ["v1", "v1beta2", "v1alpha3"];

fn watch_device_taint_rules(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    for version in TAINT_RULES {
        let kind = GroupVersionKind::gvk("resource.k8s.io", version, "DeviceTaintRule");
        let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &ApiResource::from_gvk(&kind));
        let (view, stopped) = (Arc::clone(&context.view), shutdown.clone());
        tasks.spawn(async move {
            let without = "devices that rules taint are planned with";
            let listener = |seen| view.device_taint_rule_seen(seen);
            follow_if_allowed("DeviceTaintRule", without, api, stopped, listener).await;
        });
    }
}
