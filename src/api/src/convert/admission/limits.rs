//! `LimitRange`: what a namespace gives containers that do not state their needs, and what it refuses (spec scheduling 16).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::Resources;

use super::super::{Error, FieldError, requests, resources};
use super::{containers, fill, written};

/// One unit, in the nano-units that amounts are compared in.
const ONE: i128 = 1_000_000_000;

/// Subject of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Container,
    Pod,
}

/// One item of a limit range, with what the API server adds to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    of: Of,
    /// Requests of containers that have none.
    default_requests: Resources,
    /// Limits of containers that have none.
    default: Resources,
    min: Resources,
    max: Resources,
    /// Most that a limit may be of its request.
    ratio: Resources,
}

/// Reads the items for containers and pods, in the order of the object.
pub fn limit_range(object: &LimitRange) -> Result<Vec<Limits>, Error> {
    let items = object.spec.iter().flat_map(|spec| spec.limits.iter().enumerate());
    let items = items.filter_map(|(index, item)| {
        let of = match item.type_.as_str() {
            "Container" => Of::Container,
            "Pod" => Of::Pod,
            _ => return None,
        };
        Some(Limits::read(of, item).map_err(|error| {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let name = object.metadata.name.as_deref().unwrap_or_default();
            error.below(&format!("spec.limits[{index}]")).of("LimitRange", &format!("{namespace}/{name}"))
        }))
    });
    items.collect()
}

impl Limits {
    fn read(of: Of, item: &LimitRangeItem) -> Result<Self, FieldError> {
        let mut read = Self {
            of,
            default_requests: resources("defaultRequest", item.default_request.as_ref())?,
            default: resources("default", item.default.as_ref())?,
            min: resources("min", item.min.as_ref())?,
            max: resources("max", item.max.as_ref())?,
            ratio: resources("maxLimitRequestRatio", item.max_limit_request_ratio.as_ref())?,
        };
        if of == Of::Container {
            // As the API server completes the object itself.
            add_missing(&mut read.default, &read.max);
            add_missing(&mut read.default_requests, &read.default);
            add_missing(&mut read.default_requests, &read.min);
        }
        Ok(read)
    }

    /// Gives containers the requests and limits they lack.
    pub(super) fn fill(&self, spec: &mut PodSpec) {
        if self.of == Of::Container {
            for container in containers(spec) {
                let resources = container.resources.get_or_insert_default();
                fill(&mut resources.limits, written(&self.default));
                fill(&mut resources.requests, written(&self.default_requests));
            }
        }
    }

    /// Resources of a pod that are outside of the limits.
    pub(super) fn broken_by(&self, spec: &PodSpec) -> Vec<String> {
        let read =
            |amounts: Option<&BTreeMap<String, ApiQuantity>>| resources("", amounts).unwrap_or_default();
        match self.of {
            Of::Container => {
                let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
                let resources = all.map(|container| container.resources.clone().unwrap_or_default());
                resources
                    .flat_map(|one| {
                        self.broken("Container", &read(one.requests.as_ref()), &read(one.limits.as_ref()))
                    })
                    .collect()
            }
            Of::Pod => {
                let requests = requests::written_requests(spec).unwrap_or_default();
                self.broken("Pod", &requests, &requests::written_limits(spec).unwrap_or_default())
            }
        }
    }

    fn broken(&self, of: &str, requests: &Resources, limits: &Resources) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, min) in self.min.iter() {
            let text = |what| format!("minimum {name} usage per {of} is {min}{what}");
            match (requests.get(name.as_str()), limits.get(name.as_str())) {
                (None, _) => broken.push(text(".  No request is specified".to_owned())),
                (Some(request), _) if request < *min => {
                    broken.push(text(format!(", but request is {request}")));
                }
                (_, Some(limit)) if limit < *min => broken.push(text(format!(", but limit is {limit}"))),
                _ => {}
            }
        }
        for (name, max) in self.max.iter() {
            let text = |what| format!("maximum {name} usage per {of} is {max}{what}");
            match (requests.get(name.as_str()), limits.get(name.as_str())) {
                (_, None) => broken.push(text(".  No limit is specified".to_owned())),
                (_, Some(limit)) if limit > *max => broken.push(text(format!(", but limit is {limit}"))),
                (Some(request), _) if request > *max => {
                    broken.push(text(format!(", but request is {request}")));
                }
                _ => {}
            }
        }
        for (name, ratio) in self.ratio.iter() {
            let text = |what| format!("{name} max limit to request ratio per {of} is {ratio}, but {what}");
            let (request, limit) = (requests.amount(name.as_str()), limits.amount(name.as_str()));
            if request.is_zero() {
                broken.push(text("no request is specified or request is 0".to_owned()));
            } else if limit.is_zero() {
                broken.push(text("no limit is specified or limit is 0".to_owned()));
            } else if limit.nanos().saturating_mul(ONE) > ratio.nanos().saturating_mul(request.nanos()) {
                broken.push(text(format!("the limit is {limit} for a request of {request}")));
            }
        }
        broken
    }
}

fn add_missing(to: &mut Resources, from: &Resources) {
    for (name, amount) in from.iter() {
        if to.get(name.as_str()).is_none() {
            to.set(name.as_str(), *amount);
        }
    }
}
