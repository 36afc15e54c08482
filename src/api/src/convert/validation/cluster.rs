//! Objects that decide about pods: limits of a namespace, classes, budgets, claims of volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem, PersistentVolumeClaimSpec};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::Quantity;

use super::container::name;
use super::{Found, SYSTEM_PRIORITIES, affinity, amounts, names};

/// Highest priority that a class of a user may have.
const PRIORITY_MAX: i32 = 1_000_000_000;
const STORAGE: &str = "storage";

pub(super) fn limit_range(one: &LimitRange, found: &mut Found) {
    let items = one.spec.iter().flat_map(|spec| spec.limits.iter().enumerate());
    for (index, item) in items {
        limit(item, &format!("spec.limits[{index}]"), found);
    }
}

type Amounts = BTreeMap<String, ApiQuantity>;

fn limit(item: &LimitRangeItem, path: &str, found: &mut Found) {
    if let Some(why) = names::qualified(&item.type_) {
        found.invalid(&format!("{path}.type"), item.type_.as_str(), why);
    } else if !item.type_.contains('/')
        && !["Pod", "Container", "PersistentVolumeClaim"].contains(&item.type_.as_str())
    {
        let why = "must be a standard limit type or fully qualified";
        found.invalid(&format!("{path}.type"), item.type_.as_str(), why);
    }
    let none = Amounts::new();
    let part = |amounts: &'_ Option<Amounts>| amounts.clone().unwrap_or_default();
    let (min, max) = (part(&item.min), part(&item.max));
    let (default, request) = (part(&item.default), part(&item.default_request));
    if item.type_ == "Pod" {
        for (amounts, name) in [(&default, "default"), (&request, "defaultRequest")] {
            if amounts != &none {
                let why = "may not be specified when `type` is 'Pod'";
                found.forbidden(&format!("{path}.{name}"), why);
            }
        }
    }
    if item.type_ == "PersistentVolumeClaim" && !min.contains_key(STORAGE) && !max.contains_key(STORAGE) {
        found.required(path, "either minimum or maximum storage value is required, but neither was provided");
    }
    // The first may not be greater than the second.
    let pairs = [
        ("min", &min, "min", "max", &max),
        ("defaultRequest", &min, "min", "default request", &request),
        ("defaultRequest", &request, "default request", "max", &max),
        ("default", &min, "min", "default", &default),
        ("default", &default, "default", "max", &max),
        ("defaultRequest", &request, "default request", "default limit", &default),
    ];
    for (field, low, low_name, high_name, high) in pairs {
        for (name, least) in low {
            let Some(most) = high.get(name) else { continue };
            let pair = amounts::read(least).zip(amounts::read(most));
            if pair.is_some_and(|(least, most)| least > most) {
                let why =
                    format!("{low_name} value {} is greater than {high_name} value {}", least.0, most.0);
                let written = if field == low_name { least } else { most };
                found.invalid(&format!("{path}.{field}[{name}]"), written.0.as_str(), &why);
            }
        }
    }
    let all = [&min, &max, &default, &request].into_iter().chain(&item.max_limit_request_ratio);
    for name in all.flat_map(BTreeMap::keys).filter(|_| ["Container", "Pod"].contains(&item.type_.as_str())) {
        if let Some(why) = amounts::of_container(name) {
            found.invalid(path, name.as_str(), why);
        }
    }
    for (name, ratio) in item.max_limit_request_ratio.iter().flatten() {
        let why = format!("ratio {} is less than 1", ratio.0);
        let field = format!("{path}.maxLimitRequestRatio[{name}]");
        let Some(amount) = amounts::read(ratio) else { continue };
        if amount < Quantity::ONE {
            found.invalid(&field, ratio.0.as_str(), &why);
        }
        let of = |amounts: &Amounts| amounts.get(name).and_then(amounts::read);
        let Some((least, most)) = of(&min).zip(of(&max)) else { continue };
        let product = amount.nanos().saturating_mul(least.nanos()) / Quantity::ONE.nanos();
        if product > most.nanos() {
            let why = format!("ratio {} is greater than max/min", ratio.0);
            found.invalid(&field, ratio.0.as_str(), &why);
        }
    }
}

pub(super) fn runtime_class(one: &RuntimeClass, found: &mut Found) {
    name(&one.handler, "handler", found);
    for (name, amount) in one.overhead.iter().flat_map(|overhead| overhead.pod_fixed.iter().flatten()) {
        amounts::amount_of(name, amount, &format!("overhead.podFixed[{name}]"), found);
    }
    if let Some(scheduling) = &one.scheduling {
        names::labels(scheduling.node_selector.as_ref(), "scheduling.nodeSelector", found);
        affinity::tolerations(scheduling.tolerations.as_deref(), "scheduling.tolerations", found);
    }
}

pub(super) fn priority_class(one: &PriorityClass, found: &mut Found) {
    let own = one.metadata.name.as_deref().unwrap_or_default();
    let is_system = SYSTEM_PRIORITIES.iter().any(|(name, value)| (*name, *value) == (own, one.value));
    if own.starts_with("system-") && !is_system {
        let why = "priority class names with 'system-' prefix are reserved for system use only";
        found.forbidden("metadata.name", why);
    } else if one.value > PRIORITY_MAX && !is_system {
        let why = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        found.forbidden("value", &why);
    }
    let policies = ["Never", "PreemptLowerPriority"];
    found.one_of("preemptionPolicy", one.preemption_policy.as_ref(), &policies);
}

pub(super) fn budget(spec: &PodDisruptionBudgetSpec, found: &mut Found) {
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        found.invalid("spec", "object", "minAvailable and maxUnavailable cannot be both set");
    }
    for (field, amount) in [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)]
    {
        share(amount.as_ref(), &format!("spec.{field}"), found);
    }
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(other) =
        spec.unhealthy_pod_eviction_policy.as_ref().filter(|one| !policies.contains(&one.as_str()))
    {
        found.unsupported("spec.unhealthyPodEvictionPolicy", other, &policies);
    }
    if let Some(selector) = &spec.selector {
        affinity::label_selector(selector, "spec.selector", found);
    }
}

/// Checks an amount that is a number or a part of all pods.
fn share(amount: Option<&IntOrString>, field: &str, found: &mut Found) {
    match amount {
        Some(IntOrString::Int(number)) => found.not_negative(field, Some(*number)),
        Some(IntOrString::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.filter(|digits| digits.chars().all(|one| one.is_ascii_digit())) {
                Some(digits) if digits.parse::<u64>().is_ok_and(|percent| percent <= 100) => {}
                Some(_) => found.invalid(field, text.as_str(), "must not be greater than 100%"),
                None => {
                    let why = "a valid percent string must be a numeric string followed by an ending '%'";
                    found.invalid(field, text.as_str(), why);
                }
            }
        }
        None => {}
    }
}

pub(super) fn storage_class(one: &StorageClass, found: &mut Found) {
    if one.provisioner.is_empty() {
        found.required("provisioner", "");
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    found.one_of("volumeBindingMode", one.volume_binding_mode.as_ref(), &modes);
    found.one_of("reclaimPolicy", one.reclaim_policy.as_ref(), &["Delete", "Retain"]);
}

/// Checks a claim of a volume, or a template of one.
pub(super) fn volume_claim(spec: &PersistentVolumeClaimSpec, path: &str, found: &mut Found) {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        found.required(&format!("{path}.accessModes"), "at least 1 access mode is required");
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().filter(|mode| !known.contains(&mode.as_str())) {
        found.unsupported(&format!("{path}.accessModes"), mode, &known);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        found.forbidden(&format!("{path}.accessModes"), why);
    }
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let field = format!("{path}.resources.requests.{STORAGE}");
    match requests.and_then(|requests| requests.get(STORAGE)) {
        Some(asked) => {
            let is_some = amounts::read(asked).is_none_or(|asked| !asked.is_negative() && !asked.is_zero());
            if !is_some {
                found.invalid(&field, asked.0.as_str(), "must be greater than zero");
            }
        }
        None => found.required(&field, ""),
    }
    let class = spec.storage_class_name.as_ref().filter(|name| !name.is_empty());
    if let Some((class, why)) = class.and_then(|name| Some((name, names::subdomain(name)?))) {
        found.invalid(&format!("{path}.storageClassName"), class.as_str(), why);
    }
    found.one_of(&format!("{path}.volumeMode"), spec.volume_mode.as_ref(), &["Block", "Filesystem"]);
}
