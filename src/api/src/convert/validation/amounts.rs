//! Amounts of resources: of containers, of pods as a whole, and of overhead.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::{Quantity, resources};

use super::{Found, names};

/// Amounts by resource.
type Amounts = BTreeMap<String, ApiQuantity>;

const NATIVE: [&str; 3] = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE];

/// Bearer of amounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Container,
    Pod,
}

/// Checks requests and limits.
pub(super) fn requirements(of: Of, written: &ResourceRequirements, path: &str, found: &mut Found) {
    let none = Amounts::new();
    let limits = written.limits.as_ref().unwrap_or(&none);
    let requests = written.requests.as_ref().unwrap_or(&none);
    for (field, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, amount) in amounts {
            resource_name(of, name, &format!("{path}.{field}"), found);
            amount_of(name, amount, &format!("{path}.{field}[{name}]"), found);
        }
    }
    for (name, request) in requests {
        compare(name, request, limits.get(name), &format!("{path}.requests"), found);
    }
    let names = || limits.keys().chain(requests.keys());
    let huge = names().any(|name| is_huge(name));
    if huge && !names().any(|name| [resources::CPU, resources::MEMORY].contains(&name.as_str())) {
        found.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Compares a request with the limit. What is only there whole cannot be promised twice, so it has both, and both are the same.
fn compare(name: &str, request: &ApiQuantity, limit: Option<&ApiQuantity>, field: &str, found: &mut Found) {
    let is_shared = !is_extended(name) && !is_huge(name);
    let Some(limit) = limit else {
        if !is_shared {
            found.required(
                &field.replace(".requests", ".limits"),
                "Limit must be set for non overcommitable resources",
            );
        }
        return;
    };
    let Some((asked, most)) = read(request).zip(read(limit)) else { return };
    if !is_shared && asked != most {
        found.invalid(field, request.0.as_str(), &format!("must be equal to {name} limit of {}", limit.0));
    } else if asked > most {
        let why = format!("must be less than or equal to {name} limit of {}", limit.0);
        found.invalid(field, request.0.as_str(), &why);
    }
}

fn resource_name(of: Of, name: &str, field: &str, found: &mut Found) {
    if of == Of::Pod {
        if !crate::convert::requests::pod_level(name) {
            found.unsupported(field, name, &[resources::CPU, resources::MEMORY, "hugepages-"]);
        }
        return;
    }
    if let Some(why) = of_container(name) {
        found.invalid(field, name, why);
    }
}

/// Returns why no container has a resource of this name.
pub(super) fn of_container(name: &str) -> Option<&'static str> {
    if let Some(why) = names::qualified(name) {
        return Some(why);
    }
    let is_standard = name.contains('/') || NATIVE.contains(&name) || is_huge(name);
    (!is_standard).then_some("must be a standard resource for containers")
}

/// Checks one amount: not less than nothing, and whole where only whole units are there.
pub(super) fn amount_of(name: &str, written: &ApiQuantity, field: &str, found: &mut Found) {
    let Some(amount) = read(written) else { return };
    if amount.is_negative() {
        found.invalid(field, written.0.as_str(), "must be greater than or equal to 0");
    } else if is_extended(name) && amount.nanos() % Quantity::ONE.nanos() != 0 {
        found.invalid(field, written.0.as_str(), "must be an integer");
    } else if let Some(page) =
        name.strip_prefix(resources::HUGE_PAGES_PREFIX).and_then(|size| size.parse::<Quantity>().ok())
        && (page.is_zero() || amount.nanos() % page.nanos() != 0)
    {
        let why = format!("{} is not positive integer multiple of {name}", written.0);
        found.invalid(field, written.0.as_str(), &why);
    }
}

/// Reads an amount; the schema names what is none.
pub(super) fn read(written: &ApiQuantity) -> Option<Quantity> {
    crate::quantity::amount(&written.0).ok()
}

/// Returns whether a resource is counted in whole units: those that a domain names, but for Kubernetes' own.
pub(in crate::convert) fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

fn is_huge(name: &str) -> bool {
    name.starts_with(resources::HUGE_PAGES_PREFIX)
}
