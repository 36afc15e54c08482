//! Reads objects of the API server into the model; what cannot be read is reported and left out. Claims and Nodes are
//! never left out: a machine that cannot be seen looks like one without a claim.

use std::cell::RefCell;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{LimitRange, Node, PersistentVolume, Pod};
use k8s_openapi::api::resource::v1;
use karpenter_api::convert::{self, Admission, Limits};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_model::names::annotation;
use karpenter_model::pod::volume::resolve::VolumeFacts;
use karpenter_model::{
    Claim, Daemon, LabelRegistry, NodeObject, PodKey, PodUid, Pool, ResourceClaim, ResourceSlice,
};
use kube::ResourceExt;

/// A claim, as far as it can be read. To be acted upon by more than that it must be read as a whole.
pub(crate) fn claim(object: &NodeClaim, registry: &LabelRegistry) -> Claim {
    in_part(convert::claim_in_part(object, registry))
}

/// A Node, as far as it can be read.
pub(crate) fn node(object: &Node) -> NodeObject {
    in_part(convert::node_in_part(object))
}

/// A pool.
pub(crate) fn pool(object: &NodePool, registry: &LabelRegistry) -> Option<Pool> {
    reported(convert::pool(object, registry))
}

/// A pod. One that is on a node counts there whatever its rules are: without it the node would look empty.
pub(crate) fn pod(object: &Pod) -> Option<karpenter_model::Pod> {
    if let Some(cost) = object.annotations().get(annotation::DISRUPTION_COST)
        && cost.parse::<i32>().is_err()
    {
        tracing::debug!(
            pod = object.name_any(),
            namespace = object.namespace(),
            cost,
            "failed parsing disruption cost"
        );
    }
    let on_node = object.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    match convert::pod(object) {
        Err(error) if on_node => {
            tracing::warn!(%error, "read a pod without its scheduling rules");
            reported(convert::pod_without_rules(object))
        }
        read => reported(read),
    }
}

/// A persistent volume.
pub(crate) fn volume(object: &PersistentVolume) -> Option<VolumeFacts> {
    reported(convert::volume(object))
}

/// A daemon set, from its newest pod, or from its template as it would be admitted.
pub(crate) fn daemon(
    object: &DaemonSet,
    newest: Option<&karpenter_model::Pod>,
    admission: &Admission,
) -> Option<Daemon> {
    reported(convert::daemon(object, newest, admission))
}

/// The items of a limit range.
pub(crate) fn limit_range(object: &LimitRange) -> Option<Vec<Limits>> {
    reported(convert::limit_range(object))
}

/// A resource slice.
pub(crate) fn resource_slice(object: &v1::ResourceSlice) -> Option<ResourceSlice> {
    reported(convert::resource_slice(object))
}

/// A resource claim, with the pods that use it.
pub(crate) fn resource_claim(object: &v1::ResourceClaim) -> Option<(ResourceClaim, Vec<(PodKey, PodUid)>)> {
    let pods = RefCell::new(Vec::new());
    let claim = convert::resource_claim(object, |key, uid| {
        pods.borrow_mut().push((key.clone(), uid.clone()));
        true
    });
    Some((reported(claim)?, pods.into_inner()))
}

fn in_part<T>((read, problem): (T, Option<convert::Error>)) -> T {
    if let Some(error) = problem {
        tracing::warn!(%error, "read an object in part");
    }
    read
}

fn reported<T>(read: Result<T, convert::Error>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(%error, "skipped object")).ok()
}
