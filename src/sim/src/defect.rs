//! Defects to plant: each makes the controller do what a controller with that mistake in it would do, without touching the
//! controller. A checker that none of them trips would be worth nothing.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use karpenter_aws_api::ec2::{FleetRequest, TaggedKind};
use karpenter_model::names::{annotation, finalizer, tag};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::target::Target;

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
}

impl Defect {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::NoClientToken,
        Self::Untagged,
        Self::SwallowedTermination,
        Self::LostFinalizer,
        Self::BudgetOffByOne,
        Self::LimitsMisread,
        Self::ProtectionIgnored,
        Self::DeletedNotEvicted,
        Self::DeletionsMissed,
        Self::NeverConsolidates,
        Self::LeaseOfItsOwn,
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

    /// Whether termination is only said to be done.
    pub(crate) fn swallows_termination(self) -> bool {
        self == Self::SwallowedTermination
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
        if self != Self::LostFinalizer || !of_claims {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let Ok(mut object) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(Request::from_parts(head, Body::from(bytes.to_vec())));
        };
        if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|one| one != finalizer::TERMINATION);
        }
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
            Some(items) => items.iter_mut().for_each(|item| self.misread(item)),
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
        self.misread(&mut event["object"]);
        Some(Bytes::from(format!("{event}\n")))
    }

    fn misreads(self, plural: &str) -> bool {
        match self {
            Self::BudgetOffByOne | Self::LimitsMisread | Self::NeverConsolidates => plural == "nodepools",
            Self::ProtectionIgnored => plural == "pods",
            _ => false,
        }
    }

    fn misread(self, object: &mut Value) {
        match self {
            Self::BudgetOffByOne => {
                for budget in object.pointer_mut("/spec/disruption/budgets").into_iter().flat_map(list) {
                    let nodes = budget["nodes"].as_str().and_then(|text| text.parse::<u32>().ok());
                    if let Some(nodes) = nodes {
                        budget["nodes"] = json!((nodes + 1).to_string());
                    }
                }
            }
            Self::LimitsMisread => {
                let cores = object.pointer("/spec/limits/cpu").and_then(|cpu| match cpu {
                    Value::String(text) => text.parse::<u64>().ok(),
                    other => other.as_u64(),
                });
                if let Some(cores) = cores {
                    object["spec"]["limits"]["cpu"] = json!((2 * cores).to_string());
                }
            }
            Self::NeverConsolidates => {
                if let Some(after) = object.pointer_mut("/spec/disruption/consolidateAfter") {
                    *after = json!("Never");
                }
            }
            Self::ProtectionIgnored => {
                if let Some(given) =
                    object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
                {
                    given.remove(annotation::DO_NOT_DISRUPT);
                }
            }
            _ => {}
        }
    }
}

/// The same about a Lease that no other process knows.
async fn of_its_own(request: Request<Body>, who: &str) -> Result<Request<Body>, BoxError> {
    const NAME: &str = "karpenter-leader-election";
    let (mut head, body) = request.into_parts();
    let own = format!("{NAME}-{who}");
    // What was read from there has the name already.
    head.uri = head.uri.to_string().replace(NAME, &own).parse()?;
    let text = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    Ok(Request::from_parts(head, Body::from(text.replace(&own, NAME).replace(NAME, &own).into_bytes())))
}

fn list(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_array_mut().into_iter().flatten()
}
