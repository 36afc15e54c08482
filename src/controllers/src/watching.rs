//! The watches of a process. They may run before it leads, so that it knows the cluster when it does; then nobody
//! listens yet, and nothing is told.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::pods::state::States;
use crate::status::Classes;
use crate::view::Feed;
use crate::watch::{follow, follow_if_allowed};
use crate::{Context, buffers};

/// Name of the watches where work under way is listed.
const NAME: &str = "watch";

/// Running watches, and what they keep besides the view.
pub struct Watching {
    pub(crate) context: Context,
    pub(crate) classes: Classes,
    pub(crate) states: States,
    pub(crate) tasks: JoinSet<()>,
    /// Ends the watches.
    pub(crate) stop: CancellationToken,
}

impl Watching {
    /// Starts every watch; they end with `shutdown`.
    pub fn start(context: &Context, shutdown: &CancellationToken) -> Self {
        let (mut tasks, classes, states) = (JoinSet::new(), Classes::default(), States::new(context));
        let stop = shutdown.child_token();
        if context.settings.cluster_state_observability {
            let subscribers = context.view.subscribers();
            let (appearing, going, view) = (states.clone(), states.clone(), Arc::downgrade(&context.view));
            subscribers.raw_pods(move |pod| {
                if let Some(view) = view.upgrade() {
                    appearing.seen(&view, pod);
                }
            });
            subscribers.pods(move |seen| going.note(seen));
        }
        spawn_watches(&mut tasks, context, &classes, &stop);
        Self { context: context.clone(), classes, states, tasks, stop }
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

fn spawn_watches(
    tasks: &mut JoinSet<()>,
    context: &Context,
    classes: &Classes,
    shutdown: &CancellationToken,
) {
    let client = &context.client;
    macro_rules! watch {
        ($kind:ident, $feed:ident) => {{
            let (api, view, mut feed) =
                (Api::<$kind>::all(client.clone()), Arc::clone(&context.view), Feed::default());
            let (stopped, progress) = (shutdown.clone(), context.metrics.progress.clone());
            tasks.spawn(async move {
                let listener = |seen| {
                    let _applying = progress.begin(NAME, stringify!($kind));
                    feed.$feed(&view, seen);
                };
                follow(stringify!($kind), api, view.troubles(), stopped, listener).await;
            });
        }};
    }
    watch!(NodePool, pool);
    watch!(NodeClaim, claim);
    watch!(Node, node);
    watch!(Pod, pod);
    watch!(DaemonSet, daemon);
    watch!(PodDisruptionBudget, budget);
    watch!(Namespace, namespace);
    macro_rules! watch_volumes {
        ($kind:ident, $seen:ident) => {{
            let (api, view) = (Api::<$kind>::all(client.clone()), Arc::clone(&context.view));
            let (stopped, progress) = (shutdown.clone(), context.metrics.progress.clone());
            tasks.spawn(async move {
                let listener = |seen| {
                    let _applying = progress.begin(NAME, stringify!($kind));
                    view.$seen(seen);
                };
                follow(stringify!($kind), api, view.troubles(), stopped, listener).await;
            });
        }};
    }
    watch_volumes!(VolumeAttachment, attachment_seen);
    watch_volumes!(PersistentVolumeClaim, volume_claim_seen);
    watch_volumes!(PersistentVolume, volume_seen);
    watch_volumes!(StorageClass, storage_class_seen);
    watch_volumes!(CSINode, csi_node_seen);
    if !context.settings.decisions.ignore_dra_requests {
        watch_volumes!(ResourceSlice, resource_slice_seen);
        watch_volumes!(DeviceClass, device_class_seen);
        watch_volumes!(ResourceClaim, resource_claim_seen);
    }
    let (api, view, stopped) =
        (Api::<LimitRange>::all(client.clone()), Arc::clone(&context.view), shutdown.clone());
    tasks.spawn(async move {
        let without = "daemon sets without pods are taken at what their templates say";
        follow_if_allowed("LimitRange", without, api, stopped, |seen| view.limit_range_seen(seen)).await;
    });
    if context.settings.decisions.gates.node_overlay {
        watch_volumes!(NodeOverlay, overlay_seen);
    }
    if buffers::enabled(context) {
        spawn_buffer_watches(tasks, context, shutdown);
    }
    spawn_class_watches(tasks, context, classes, shutdown);
}

/// Node classes of every kind the provider knows.
fn spawn_class_watches(
    tasks: &mut JoinSet<()>,
    context: &Context,
    classes: &Classes,
    shutdown: &CancellationToken,
) {
    for kind in context.provider.node_class_kinds() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group, "v1", kind.kind));
        let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
        let (context, classes, stopped, kind) =
            (context.clone(), classes.clone(), shutdown.clone(), kind.kind);
        tasks.spawn(async move {
            let listener = |seen| {
                let _applying = context.metrics.progress.begin(NAME, kind);
                if context.settings.cluster_state_observability {
                    classes.note(&context, kind, &seen);
                }
                context.view.class_seen(kind, seen);
            };
            follow(kind, api, context.view.troubles(), stopped, listener).await;
        });
    }
}

/// Nothing waits for these lists: without buffers there is less to do, and nodes stay until they are known.
fn spawn_buffer_watches(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    let client = &context.client;
    let (api, view, stopped) =
        (Api::<CapacityBuffer>::all(client.clone()), Arc::clone(&context.view), shutdown.clone());
    tasks.spawn(async move {
        follow("CapacityBuffer", api, view.troubles(), stopped, |seen| view.buffer_seen(seen)).await;
    });
    let (api, view, stopped) =
        (Api::<PodTemplate>::all(client.clone()), Arc::clone(&context.view), shutdown.clone());
    tasks.spawn(async move {
        follow("PodTemplate", api, view.troubles(), stopped, |seen| view.pod_template_seen(&seen)).await;
    });
}
