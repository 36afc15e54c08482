//! Claims with their selectors compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::device::{
    DeviceConstraint, DeviceCount, DeviceRequest, Devices, ExactRequest, MAX_DEVICES_PER_CLAIM, RequestKind,
};
use karpenter_model::{
    DeviceRequestName, QualifiedName, Quantity, ResourceClaim, ResourceClaimKey, ResourceName, Toleration,
};

use crate::refusal::Refusal;
use crate::selector::{SelectorId, Selectors};

/// Number of a claim in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub(crate) usize);

/// A claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) object: Arc<ResourceClaim>,
    /// Demand of the claim, or the reason why it cannot be planned.
    pub(crate) demand: Result<Demand, Refusal>,
}

/// Devices that a claim asks for.
#[derive(Debug)]
pub(crate) struct Demand {
    pub(crate) key: ResourceClaimKey,
    /// Per request its alternatives, best first; at least one.
    pub(crate) requests: Vec<Vec<Request>>,
    pub(crate) matching: Vec<Matching>,
}

/// One way to meet a request of a claim.
#[derive(Debug)]
pub(crate) struct Request {
    /// The name of the request; of an alternative, `request/alternative`.
    pub(crate) name: DeviceRequestName,
    /// All must match.
    pub(crate) selectors: Vec<SelectorId>,
    pub(crate) count: DeviceCount,
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) tolerations: Vec<Toleration>,
    /// It takes nothing of its devices.
    pub(crate) admin: bool,
    /// A node that has this resource serves the request with that.
    pub(crate) instead_of: Option<ResourceName>,
}

/// Devices that must have the same value of an attribute.
#[derive(Debug)]
pub(crate) struct Matching {
    /// Requests it is about, by position; with all their alternatives.
    requests: Vec<usize>,
    /// Alternatives it is about, by their full names.
    alternatives: Vec<DeviceRequestName>,
    pub(crate) attribute: QualifiedName,
}

impl Matching {
    /// Returns whether the constraint is about the request at `position` where `request` is the way to meet it.
    pub(crate) fn covers(&self, position: usize, request: &Request) -> bool {
        self.requests.contains(&position) || self.alternatives.contains(&request.name)
    }
}

/// The claims of `devices`, and those that are yet `to_make`, by number, with the number of each.
pub(crate) fn compile(
    devices: &Devices,
    to_make: Vec<ResourceClaim>,
    selectors: &mut Selectors,
) -> (Vec<Claim>, BTreeMap<ResourceClaimKey, ClaimId>) {
    let (mut claims, mut numbers) = (Vec::new(), BTreeMap::new());
    for object in devices.claims.values().cloned().chain(to_make.into_iter().map(Arc::new)) {
        numbers.insert(object.key.clone(), ClaimId(claims.len()));
        let demand = demand(&object, devices, selectors);
        claims.push(Claim { object, demand });
    }
    (claims, numbers)
}

fn demand(claim: &ResourceClaim, devices: &Devices, selectors: &mut Selectors) -> Result<Demand, Refusal> {
    let key = &claim.key;
    let unsupported = |field: &str| Refusal::Unsupported { claim: key.clone(), field: field.to_owned() };
    let mut requests = Vec::with_capacity(claim.requests.len());
    for asked in &claim.requests {
        let mut alternatives = Vec::new();
        for (name, kind) in asked.alternatives() {
            match kind {
                RequestKind::Exactly(exact) => {
                    alternatives.push(request(claim, name, exact, devices, selectors)?);
                }
                RequestKind::Unsupported(field) => return Err(unsupported(field)),
                RequestKind::FirstAvailable(_) => return Err(unsupported("firstAvailable")),
            }
        }
        if alternatives.is_empty() {
            return Err(unsupported(asked.name.as_str()));
        }
        requests.push(alternatives);
    }
    let least = |request: &Request| match request.count {
        DeviceCount::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
        DeviceCount::All => 1,
    };
    let smallest = requests.iter().filter_map(|alternatives| alternatives.iter().map(least).min());
    let count = smallest.fold(0, usize::saturating_add);
    if count > MAX_DEVICES_PER_CLAIM {
        return Err(Refusal::TooMany { claim: key.clone(), count });
    }
    let mut matching = Vec::with_capacity(claim.constraints.len());
    for constraint in &claim.constraints {
        match constraint {
            DeviceConstraint::MatchAttribute { requests: named, attribute } => {
                let covered = |(position, request): (usize, &DeviceRequest)| {
                    (named.is_empty() || named.contains(&request.name)).then_some(position)
                };
                let requests = claim.requests.iter().enumerate().filter_map(covered).collect();
                let (alternatives, attribute) = (named.clone(), attribute.clone());
                matching.push(Matching { requests, alternatives, attribute });
            }
            DeviceConstraint::Unsupported(field) => return Err(unsupported(field)),
        }
    }
    Ok(Demand { key: key.clone(), requests, matching })
}

fn request(
    claim: &ResourceClaim,
    name: DeviceRequestName,
    exact: &ExactRequest,
    devices: &Devices,
    selectors: &mut Selectors,
) -> Result<Request, Refusal> {
    let key = &claim.key;
    let missing = || Refusal::NoClass { claim: key.clone(), class: exact.class.clone() };
    let class = devices.classes.get(&exact.class).ok_or_else(missing)?;
    let mut compiled = Vec::new();
    for text in class.selectors.iter().chain(&exact.selectors) {
        let id = selectors.add(text);
        let id = id.map_err(|message| {
            let selector = text.clone();
            Refusal::Selector { claim: key.clone(), selector, message }
        });
        compiled.push(id?);
    }
    let ExactRequest { count, capacity, tolerations, admin, instead_of, .. } = exact.clone();
    Ok(Request { name, selectors: compiled, count, capacity, tolerations, admin, instead_of })
}
