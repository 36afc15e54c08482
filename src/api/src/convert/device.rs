//! Devices, their classes and claims for them (`resource.k8s.io/v1`; spec scheduling 22.2).

mod claim;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorTerm};
use k8s_openapi::api::resource::{v1, v1alpha3};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::device::{
    AttributeValue, CapacityPolicy, CapacityValues, CounterSet, Device, DeviceCapacity, DeviceClass,
    DeviceTaintRule, PlaceTerm, Reach,
};
use karpenter_model::{CounterName, Effect, NodeName, QualifiedName, Quantity, ResourceSlice, Taint};

use super::present;
use super::volume::expression;
use super::{Error, FieldError, Written};

pub use claim::{claim_template, resource_claim};

/// Reads a resource slice.
pub fn resource_slice(object: &v1::ResourceSlice) -> Result<ResourceSlice, Error> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let read = || -> Result<ResourceSlice, FieldError> {
        let spec = &object.spec;
        let devices = spec.devices.iter().flatten().enumerate().map(|(index, written)| {
            device(written, &spec.driver).map_err(|error| error.below(&format!("spec.devices[{index}]")))
        });
        let counters = spec.shared_counters.iter().flatten().enumerate().map(|(index, written)| {
            let set = counter_set(&written.name, &written.counters);
            set.map_err(|error| error.below(&format!("spec.sharedCounters[{index}]")))
        });
        Ok(ResourceSlice {
            name: name.clone(),
            owner: owner(object),
            driver: spec.driver.as_str().into(),
            pool: spec.pool.name.as_str().into(),
            generation: spec.pool.generation,
            slice_count: spec.pool.resource_slice_count,
            reach: reach(spec).map_err(|error| error.below("spec.nodeSelector"))?,
            counters: counters.collect::<Result<_, _>>()?,
            devices: devices.collect::<Result<_, _>>()?,
        })
    };
    read().map_err(|error| error.of("ResourceSlice", &name))
}

/// Reads a device class.
pub fn device_class(object: &v1::DeviceClass) -> DeviceClass {
    let created_at = object.metadata.creation_timestamp.as_ref().map(|created| created.0);
    DeviceClass {
        selectors: selectors(object.spec.selectors.as_deref()),
        extended_resource: object.spec.extended_resource_name.as_deref().map(Into::into),
        created_at: created_at.unwrap_or_default(),
    }
}

/// Reads a rule about taints of devices; `None` for one that keeps no claim away: it selects nothing, or its taint only
/// informs.
pub fn device_taint_rule(object: &v1alpha3::DeviceTaintRule) -> Option<DeviceTaintRule> {
    let selector = object.spec.device_selector.as_ref()?;
    let written = &object.spec.taint;
    let effect = Effect::parse(&written.effect)?;
    Some(DeviceTaintRule {
        driver: selector.driver.as_deref().map(Into::into),
        pool: selector.pool.as_deref().map(Into::into),
        device: selector.device.as_deref().map(Into::into),
        taint: Taint::new(&written.key, written.value.as_deref().unwrap_or_default(), effect),
    })
}

/// The Node that owns `object`.
fn owner(object: &v1::ResourceSlice) -> Option<NodeName> {
    let owners = object.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.kind == "Node").map(|owner| owner.name.as_str().into())
}

fn reach(spec: &v1::ResourceSliceSpec) -> Result<Reach, FieldError> {
    if let Some(node) = present(spec.node_name.as_ref()) {
        return Ok(Reach::Node(node.into()));
    }
    if spec.all_nodes == Some(true) {
        return Ok(Reach::Everywhere);
    }
    Ok(match &spec.node_selector {
        Some(selector) => Reach::Selected(places(selector)?),
        None => Reach::Unknown,
    })
}

/// The terms of a node selector.
fn places(selector: &NodeSelector) -> Result<Vec<PlaceTerm>, FieldError> {
    let terms = selector.node_selector_terms.iter().enumerate();
    terms
        .map(|(index, written)| {
            place(written).map_err(|error| error.below(&format!("nodeSelectorTerms[{index}]")))
        })
        .collect()
}

/// One term. An empty one never holds, as in Kubernetes.
fn place(written: &NodeSelectorTerm) -> Result<PlaceTerm, FieldError> {
    let mut term = PlaceTerm::default();
    for (index, one) in written.match_expressions.iter().flatten().enumerate() {
        let read = expression(one);
        term.expressions.push(read.map_err(|error| error.below(&format!("matchExpressions[{index}]")))?);
    }
    for field in written.match_fields.iter().flatten() {
        if field.key == "metadata.name" && field.operator == "In" && term.names.is_none() {
            let names = field.values.iter().flatten().map(|name| name.as_str().into());
            term.names = Some(names.collect());
        } else {
            term.unsupported = true;
        }
    }
    term.unsupported |= term.expressions.is_empty() && term.names.is_none();
    Ok(term)
}

fn device(written: &v1::Device, driver: &str) -> Result<Device, FieldError> {
    let mut attributes = BTreeMap::new();
    for (name, value) in written.attributes.iter().flatten() {
        let value = attribute(value).ok_or_else(|| {
            FieldError::new(&format!("attributes[{name}]"), "it has no value of a known kind")
        })?;
        insert(&mut attributes, name, driver, value);
    }
    let mut capacity = BTreeMap::new();
    for (name, amount) in written.capacity.iter().flatten() {
        let read = self::capacity(amount).map_err(|error| error.below(&format!("capacity[{name}]")))?;
        insert(&mut capacity, name, driver, read);
    }
    let draws = written.consumes_counters.iter().flatten().enumerate().map(|(index, draw)| {
        let set = counter_set(&draw.counter_set, &draw.counters);
        set.map_err(|error| error.below(&format!("consumesCounters[{index}]")))
    });
    Ok(Device {
        name: written.name.as_str().into(),
        attributes,
        capacity,
        draws: draws.collect::<Result<_, _>>()?,
        shareable: written.allow_multiple_allocations == Some(true),
        taints: written.taints.iter().flatten().filter_map(taint).collect(),
        // The claim that gets it depends on its driver's answer once a claim has it.
        unsupported: written
            .binding_conditions
            .as_ref()
            .filter(|conditions| !conditions.is_empty())
            .map(|_| "bindingConditions".to_owned()),
    })
}

/// A taint that keeps claims away; those with another effect do not.
fn taint(written: &v1::DeviceTaint) -> Option<Taint> {
    let effect = Effect::parse(&written.effect)?;
    Some(Taint::new(&written.key, written.value.as_deref().unwrap_or_default(), effect))
}

/// Puts `value` under the full form of `name`; one written in full is not replaced by one that is not.
fn insert<T>(map: &mut BTreeMap<QualifiedName, T>, name: &str, driver: &str, value: T) {
    let full = QualifiedName::within(name, driver);
    if name.contains('/') || !map.contains_key(&full) {
        map.insert(full, value);
    }
}

fn attribute(written: &v1::DeviceAttribute) -> Option<AttributeValue> {
    let text = || written.string.clone().map(AttributeValue::Text);
    let version = || written.version.clone().map(AttributeValue::Version);
    let number = written.int.map(AttributeValue::Int).or(written.bool.map(AttributeValue::Bool));
    number.or_else(text).or_else(version)
}

fn capacity(written: &v1::DeviceCapacity) -> Result<DeviceCapacity, FieldError> {
    let value = quantity("value", &written.value)?;
    let Some(policy) = &written.request_policy else { return Ok(DeviceCapacity { value, policy: None }) };
    let below = |error: FieldError| error.below("requestPolicy");
    let values = match (&policy.valid_range, &policy.valid_values) {
        (Some(range), _) => CapacityValues::Range {
            min: quantity("validRange.min", &range.min).map_err(below)?,
            max: optional("validRange.max", range.max.as_ref()).map_err(below)?,
            step: optional("validRange.step", range.step.as_ref()).map_err(below)?,
        },
        (None, Some(values)) => {
            let values = values.iter().map(|value| quantity("validValues", value));
            CapacityValues::OneOf(values.collect::<Result<_, _>>().map_err(below)?)
        }
        (None, None) => CapacityValues::Any,
    };
    let default = optional("default", policy.default.as_ref()).map_err(below)?;
    Ok(DeviceCapacity { value, policy: Some(CapacityPolicy { default, values }) })
}

fn counter_set(name: &str, written: &BTreeMap<String, v1::Counter>) -> Result<CounterSet, FieldError> {
    let counter = |(name, counter): (&String, &v1::Counter)| -> Result<(CounterName, Quantity), FieldError> {
        Ok((name.as_str().into(), quantity(&format!("counters.{name}"), &counter.value)?))
    };
    Ok(CounterSet { name: name.into(), counters: written.iter().map(counter).collect::<Result<_, _>>()? })
}

/// The CEL expressions of selectors.
fn selectors(written: Option<&[v1::DeviceSelector]>) -> Vec<String> {
    let selectors = written.unwrap_or_default().iter().filter_map(|selector| selector.cel.as_ref());
    selectors.map(|cel| cel.expression.clone()).collect()
}

fn quantity(field: &str, written: &ApiQuantity) -> Result<Quantity, FieldError> {
    written.read().map_err(|error| FieldError::new(field, error))
}

fn optional(field: &str, written: Option<&ApiQuantity>) -> Result<Option<Quantity>, FieldError> {
    written.map(|written| quantity(field, written)).transpose()
}
