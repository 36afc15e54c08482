//! Defects to plant: each makes the controller do what a controller with that mistake in it would do, without touching the
//! controller. A checker that none of them trips would be worth nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{
    CapacityReservation, CapacityReservationQuery, FleetRequest, Instance, InstanceQuery, TaggedKind,
};
use karpenter_model::names::tag;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tower::BoxError;

use crate::target::Target;

mod misreading;
mod promises;

/// Suffix of the name of a workload's second disruption budget.
pub(crate) const SECOND_BUDGET: &str = "-again";

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// Launches carry no client token: one whose answer is lost is made twice.
    NoClientToken,
    /// Instances do not say which claim they are for.
    Untagged,
    /// Instances are said to be terminated and are not.
    SwallowedTermination,
    /// Claims have no finalizer: they go before their instances.
    LostFinalizer,
    /// Budgets of pools allow one more than they say.
    BudgetOffByOne,
    /// Limits of pools are read as twice as much.
    LimitsMisread,
    /// A fixed number of machines is read as three more.
    ReplicasMisread,
    /// `karpenter.sh/do-not-disrupt` is not seen.
    ProtectionIgnored,
    /// Pods are deleted instead of evicted.
    DeletedNotEvicted,
    /// Deletions do not reach the view of the cluster.
    DeletionsMissed,
    /// Pools are never consolidated.
    NeverConsolidates,
    /// Every replica has a Lease of its own.
    LeaseOfItsOwn,
    /// A process that has led once goes on when another one holds the Lease.
    LeadsOn,
    /// The collector terminates machines whose claim does not name them yet, however young they are.
    CollectsWithoutGrace,
    /// A node class that found no image makes its machines drift.
    DriftsOnNoImages,
    /// Machines that have not registered use up no limit.
    LimitsWithoutInFlight,
    /// A replacement counts as initialized as soon as it is launched.
    ReplacementNotAwaited,
    /// Claims are taken for what their pool makes today: they carry its present hash before they were replaced.
    HashStampedFirst,
    /// Only one of several disruption budgets for the same pods is seen.
    OneBudgetSeen,
    /// Volumes are never seen attached.
    AttachmentsMissed,
    /// Capacity reservations that are asked for by their id are read without their tags.
    ReservationsMisread,
    /// Claims of reserved machines are read as those of on-demand ones.
    ReservedMisread,
    /// Nodes are read as ready.
    FailuresMissed,
    /// A machine that was launched for pods has no room for them until it has registered.
    PromisesForgotten,
    /// A claim whose Node is gone is room still, as one is whose Node has not joined yet.
    LostNodeIsRoom,
    /// Promises to pods are replaced when their node registers, together with the counts made from them.
    PromisesReplaced,
    /// Pods of daemon sets ask for room, and are no pods that others keep off or go beside.
    DaemonsOutOfTopology,
    /// Volumes are in no zone.
    VolumeZonesIgnored,
    /// The first command of a pass leaves a disruption budget of pods as it was for the next one.
    PodBudgetUnspent,
    /// A claim asks for as many values as its pool does, and not for as many as it may still have.
    MinValuesOfThePool,
    /// The room that nodes turned out to have is ignored for the next node of their type.
    RoomForgotten,
    /// Counts about nodes that do not serve end with the process.
    BrakeLost,
}

/// The Lease as remembered by a process that keeps leading.
pub(crate) type Led = Arc<Mutex<LedLease>>;

/// The Lease as a process wrote it last.
#[derive(Default)]
pub(crate) struct LedLease {
    /// It was written.
    pub(crate) leads: bool,
    lease: Vec<u8>,
}

impl Defect {
    /// Every one.
    pub const ALL: [Self; 32] = [
        Self::NoClientToken,
        Self::Untagged,
        Self::SwallowedTermination,
        Self::LostFinalizer,
        Self::BudgetOffByOne,
        Self::LimitsMisread,
        Self::ReplicasMisread,
        Self::ProtectionIgnored,
        Self::DeletedNotEvicted,
        Self::DeletionsMissed,
        Self::NeverConsolidates,
        Self::LeaseOfItsOwn,
        Self::LeadsOn,
        Self::CollectsWithoutGrace,
        Self::DriftsOnNoImages,
        Self::LimitsWithoutInFlight,
        Self::ReplacementNotAwaited,
        Self::HashStampedFirst,
        Self::OneBudgetSeen,
        Self::PromisesForgotten,
        Self::AttachmentsMissed,
        Self::ReservationsMisread,
        Self::ReservedMisread,
        Self::FailuresMissed,
        Self::LostNodeIsRoom,
        Self::PromisesReplaced,
        Self::DaemonsOutOfTopology,
        Self::VolumeZonesIgnored,
        Self::PodBudgetUnspent,
        Self::MinValuesOfThePool,
        Self::RoomForgotten,
        Self::BrakeLost,
    ];

    /// A launch as it is made.
    pub(crate) fn fleet(self, mut request: FleetRequest) -> FleetRequest {
        match self {
            Self::NoClientToken => request.client_token = None,
            Self::Untagged => {
                for tags in request.tags.iter_mut().filter(|tags| tags.kind == TaggedKind::Instance) {
                    tags.tags.remove(tag::NODE_CLAIM);
                }
            }
            _ => {}
        }
        request
    }

    /// Tags as they are written.
    pub(crate) fn tags(self, mut tags: Tags) -> Tags {
        if self == Self::Untagged {
            tags.remove(tag::NODE_CLAIM);
        }
        tags
    }

    /// Returns whether termination is reported as done without being done.
    pub(crate) fn swallows_termination(self) -> bool {
        self == Self::SwallowedTermination
    }

    /// Capacity reservations as they are described in answer to `query`.
    pub(crate) fn reservations(self, query: &CapacityReservationQuery, found: &mut [CapacityReservation]) {
        if self == Self::ReservationsMisread && !query.ids.is_empty() {
            for reservation in found {
                reservation.tags.clear();
            }
        }
    }

    /// Instances as they are described in answer to `query`.
    pub(crate) fn described(self, query: &InstanceQuery, instances: &mut [Instance]) {
        const OLD: Duration = Duration::from_hours(1);
        let lists =
            query.ids.is_empty() && query.filters.iter().all(|one| !one.name.contains(tag::NODE_CLAIM));
        if self != Self::CollectsWithoutGrace || !lists {
            return;
        }
        for instance in instances {
            instance.launched_at -= OLD;
            // Without it nothing but the status of the claim says that the machine is wanted.
            instance.tags.remove(tag::NODE_CLAIM);
        }
    }

    /// A request about the Lease, and its answer when it never reaches the API server: `led` has the Lease as this process
    /// wrote it, once it has.
    pub(crate) async fn lease(
        self,
        request: Request<Body>,
        target: &Target,
        led: &Led,
    ) -> Result<(Request<Body>, Option<Response<Body>>), BoxError> {
        if self != Self::LeadsOn || target.plural != "leases" {
            return Ok((request, None));
        }
        let (head, body) = request.into_parts();
        let written = body.collect().await?.to_bytes().to_vec();
        let mut led = led.lock();
        let answer = led.leads.then(|| {
            let lease = if target.writes() { &written } else { &led.lease };
            let mut answer = Response::new(Body::from(lease.clone()));
            answer.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
            answer
        });
        if target.writes() {
            led.lease.clone_from(&written);
        }
        Ok((Request::from_parts(head, Body::from(written)), answer))
    }

    /// A request to the API server as it is made.
    pub(crate) async fn request(
        self,
        request: Request<Body>,
        target: &Target,
        who: &str,
    ) -> Result<Request<Body>, BoxError> {
        if self == Self::LeaseOfItsOwn && target.plural == "leases" {
            return of_its_own(request, who).await;
        }
        if self == Self::DeletedNotEvicted && target.subresource == "eviction" {
            let path = request.uri().path().trim_end_matches("/eviction").to_owned();
            return Ok(Request::builder().method(Method::DELETE).uri(path).body(Body::empty())?);
        }
        let of_claims =
            target.plural == "nodeclaims" && matches!(target.verb.as_str(), "POST" | "PUT" | "PATCH");
        if !self.miswrites() || !of_claims {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let Ok(mut object) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(Request::from_parts(head, Body::from(bytes.to_vec())));
        };
        self.miswrite(&mut object);
        Ok(Request::from_parts(head, Body::from(object.to_string().into_bytes())))
    }

    /// An answer of the API server as it is read.
    pub(crate) async fn answer(
        self,
        answer: Response<Body>,
        target: &Target,
    ) -> Result<Response<Body>, BoxError> {
        if !self.misreads(&target.plural) {
            return Ok(answer);
        }
        let (mut head, body) = answer.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(Response::from_parts(head, Body::from(bytes.to_vec())));
        };
        match value.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => {
                items.retain(|item| !self.overlooks(item));
                for item in items {
                    self.misread(item);
                }
            }
            None => self.misread(&mut value),
        }
        head.headers.remove("content-length");
        Ok(Response::from_parts(head, Body::from(value.to_string().into_bytes())))
    }

    /// An event of a watch as it is read; `None` when it is not.
    pub(crate) fn frame(self, bytes: Bytes, plural: &str) -> Option<Bytes> {
        if self == Self::DeletionsMissed && bytes.starts_with(b"{\"type\":\"DELETED\"") {
            return None;
        }
        if !self.misreads(plural) {
            return Some(bytes);
        }
        let Ok(mut event) = serde_json::from_slice::<Value>(&bytes) else { return Some(bytes) };
        if self.overlooks(&event["object"]) {
            return None;
        }
        self.misread(&mut event["object"]);
        Some(Bytes::from(format!("{event}\n")))
    }
}

/// Redirects a request to a Lease that no other process uses.
async fn of_its_own(request: Request<Body>, who: &str) -> Result<Request<Body>, BoxError> {
    const NAME: &str = "karpenter-leader-election";
    let (mut head, body) = request.into_parts();
    let own = format!("{NAME}-{who}");
    // Objects that were read from there have this name already.
    head.uri = head.uri.to_string().replace(NAME, &own).parse()?;
    let text = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    Ok(Request::from_parts(head, Body::from(text.replace(&own, NAME).replace(NAME, &own).into_bytes())))
}
