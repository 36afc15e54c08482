//! `ResourceClaim` to the model.

use k8s_openapi::api::resource::v1;
use karpenter_model::device::{
    AllocatedDevice, Allocation, ClaimTemplate, Consumer, DeviceConstraint, DeviceCount, DeviceRequest,
    ExactRequest, RequestKind,
};
use karpenter_model::{
    Effect, PodKey, PodUid, QualifiedName, ResourceClaim, ResourceClaimKey, Toleration, TolerationOperator,
};

use super::places;
use super::quantity;
use super::selectors;
use crate::convert::{Error, FieldError};

/// Reads a resource claim; `exists` returns whether a pod of that name still has that uid.
pub fn resource_claim(
    object: &v1::ResourceClaim,
    exists: impl Fn(&PodKey, &PodUid) -> bool,
) -> Result<ResourceClaim, Error> {
    let metadata = &object.metadata;
    let key = ResourceClaimKey {
        namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
    };
    let consumer = |reference: &v1::ResourceClaimConsumerReference| {
        let is_pod = reference.api_group.as_deref().unwrap_or_default().is_empty();
        if !is_pod || reference.resource != "pods" {
            return Consumer::Other;
        }
        let uid = PodUid::from(reference.uid.as_str());
        let pod = PodKey::new(key.namespace.as_str(), &reference.name);
        if exists(&pod, &uid) { Consumer::Pod(uid) } else { Consumer::Gone(uid) }
    };
    let status = object.status.as_ref();
    let reserved_for = status.and_then(|status| status.reserved_for.as_deref()).unwrap_or_default();
    let reserved_for = reserved_for.iter().map(consumer).collect();
    let read = || -> Result<ResourceClaim, FieldError> {
        let (requests, constraints) = demand(&object.spec).map_err(|error| error.below("spec"))?;
        let allocation = status.and_then(|status| status.allocation.as_ref());
        Ok(ResourceClaim {
            key: key.clone(),
            requests,
            constraints,
            allocation: allocation
                .map(self::allocation)
                .transpose()
                .map_err(|error| error.below("status.allocation"))?,
            reserved_for,
        })
    };
    read().map_err(|error| error.of("ResourceClaim", &key.to_string()))
}

/// Reads the template of the claim that a pod knows as `name`.
pub fn claim_template(name: &str, object: &v1::ResourceClaimTemplate) -> Result<ClaimTemplate, Error> {
    let read = demand(&object.spec.spec).map_err(|error| error.below("spec.spec"));
    let of_object = |error: FieldError| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        error.of("ResourceClaimTemplate", name)
    };
    let (requests, constraints) = read.map_err(of_object)?;
    Ok(ClaimTemplate { name: name.to_owned(), requests, constraints })
}

/// The devices that a claim asks for.
fn demand(spec: &v1::ResourceClaimSpec) -> Result<(Vec<DeviceRequest>, Vec<DeviceConstraint>), FieldError> {
    let devices = spec.devices.as_ref();
    let requests = devices.and_then(|devices| devices.requests.as_deref()).unwrap_or_default();
    let requests = requests.iter().enumerate().map(|(index, written)| {
        request(written).map_err(|error| error.below(&format!("devices.requests[{index}]")))
    });
    let constraints = devices.and_then(|devices| devices.constraints.as_deref()).unwrap_or_default();
    Ok((requests.collect::<Result<_, _>>()?, constraints.iter().map(constraint).collect()))
}

fn request(written: &v1::DeviceRequest) -> Result<DeviceRequest, FieldError> {
    let kind = match (&written.exactly, &written.first_available) {
        (Some(written), _) => exactly(written).map_err(|error| error.below("exactly"))?,
        (None, Some(alternatives)) => {
            let alternatives = alternatives.iter().enumerate().map(|(index, written)| {
                alternative(written).map_err(|error| error.below(&format!("firstAvailable[{index}]")))
            });
            RequestKind::FirstAvailable(alternatives.collect::<Result<_, _>>()?)
        }
        (None, None) => RequestKind::Unsupported(written.name.clone()),
    };
    Ok(DeviceRequest { name: written.name.as_str().into(), kind })
}

fn exactly(written: &v1::ExactDeviceRequest) -> Result<RequestKind, FieldError> {
    let fields = Fields {
        class: &written.device_class_name,
        selectors: written.selectors.as_deref(),
        mode: written.allocation_mode.as_deref(),
        count: written.count,
        capacity: written.capacity.as_ref(),
        tolerations: written.tolerations.as_deref(),
    };
    // The API server lets only namespaces ask for it that an administrator has labelled.
    fields.read(written.admin_access == Some(true))
}

fn alternative(written: &v1::DeviceSubRequest) -> Result<DeviceRequest, FieldError> {
    let fields = Fields {
        class: &written.device_class_name,
        selectors: written.selectors.as_deref(),
        mode: written.allocation_mode.as_deref(),
        count: written.count,
        capacity: written.capacity.as_ref(),
        tolerations: written.tolerations.as_deref(),
    };
    Ok(DeviceRequest { name: written.name.as_str().into(), kind: fields.read(false)? })
}

/// Fields that requests and their alternatives have in common.
struct Fields<'a> {
    class: &'a str,
    selectors: Option<&'a [v1::DeviceSelector]>,
    mode: Option<&'a str>,
    count: Option<i64>,
    capacity: Option<&'a v1::CapacityRequirements>,
    tolerations: Option<&'a [v1::DeviceToleration]>,
}

impl Fields<'_> {
    fn read(&self, admin: bool) -> Result<RequestKind, FieldError> {
        let count = match self.mode.unwrap_or("ExactCount") {
            "ExactCount" | "" => {
                let count = self.count.unwrap_or(1);
                DeviceCount::Exactly(u32::try_from(count).map_err(|error| FieldError::new("count", error))?)
            }
            "All" => DeviceCount::All,
            mode => return Ok(RequestKind::Unsupported(format!("allocationMode: {mode}"))),
        };
        let capacity = self.capacity.and_then(|capacity| capacity.requests.as_ref());
        let capacity = capacity.into_iter().flatten().map(|(name, amount)| {
            Ok::<_, FieldError>((name.clone(), quantity(&format!("capacity.requests[{name}]"), amount)?))
        });
        Ok(RequestKind::Exactly(ExactRequest {
            instead_of: None,
            class: self.class.into(),
            selectors: selectors(self.selectors),
            count,
            capacity: capacity.collect::<Result<_, _>>()?,
            tolerations: self.tolerations.into_iter().flatten().filter_map(toleration).collect(),
            admin,
        }))
    }
}

/// A toleration; one of an operator or effect that is not known tolerates nothing.
fn toleration(written: &v1::DeviceToleration) -> Option<Toleration> {
    let operator = match written.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        _ => return None,
    };
    let effect = match written.effect.as_deref().unwrap_or_default() {
        "" => None,
        effect => Some(Effect::parse(effect)?),
    };
    let (key, value) = (written.key.clone().unwrap_or_default(), written.value.clone().unwrap_or_default());
    Some(Toleration { key, operator, value, effect })
}

fn constraint(written: &v1::DeviceConstraint) -> DeviceConstraint {
    match (&written.match_attribute, &written.distinct_attribute) {
        (Some(attribute), None) => DeviceConstraint::MatchAttribute {
            requests: written.requests.iter().flatten().map(|name| name.as_str().into()).collect(),
            attribute: attribute.as_str().into(),
        },
        (_, Some(_)) => DeviceConstraint::Unsupported("distinctAttribute".to_owned()),
        (None, None) => DeviceConstraint::Unsupported("constraints".to_owned()),
    }
}

fn allocation(written: &v1::AllocationResult) -> Result<Allocation, FieldError> {
    let results = written.devices.as_ref().and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let device = |result: &v1::DeviceRequestAllocationResult| {
        let consumed = result.consumed_capacity.iter().flatten().map(|(name, amount)| {
            let amount = quantity(&format!("devices.results.consumedCapacity[{name}]"), amount)?;
            Ok::<_, FieldError>((QualifiedName::within(name, &result.driver), amount))
        });
        Ok::<_, FieldError>(AllocatedDevice {
            driver: result.driver.as_str().into(),
            pool: result.pool.as_str().into(),
            device: result.device.as_str().into(),
            consumed: consumed.collect::<Result<_, _>>()?,
        })
    };
    let places = written.node_selector.as_ref().map(places).transpose();
    // A request with admin access takes nothing of its devices.
    let taken = results.iter().filter(|result| result.admin_access != Some(true));
    Ok(Allocation {
        devices: taken.map(device).collect::<Result<_, _>>()?,
        places: places.map_err(|error| error.below("nodeSelector"))?,
    })
}
