//! Claims for devices that exist only once a pod has a node: for resources that a class of devices stands for, and those of
//! templates. Until then a plan makes them up.

use std::collections::BTreeMap;

use crate::device::{
    ClaimTemplate, DeviceCount, DeviceRequest, Devices, ExactRequest, RequestKind, ResourceClaim,
    ResourceClaimKey,
};
use crate::id::{DeviceClassName, ResourceName};
use crate::resources::quantity::Quantity;

use super::Pod;

impl Pod {
    /// The claims that will be made for the pod and are not there yet.
    pub fn claims_to_make(&self, devices: &Devices) -> Vec<ResourceClaim> {
        let claim = |name: &str, requests, constraints| ResourceClaim {
            // As the names of such claims begin, and no claim can be called: it ends in a dash.
            key: ResourceClaimKey {
                namespace: self.key.namespace.clone(),
                name: format!("{}-{name}-", self.key.name).as_str().into(),
            },
            requests,
            constraints,
            allocation: None,
            reserved_for: Vec::new(),
        };
        let of_template = |ClaimTemplate { name, requests, constraints }: &ClaimTemplate| {
            claim(name, requests.clone(), constraints.clone())
        };
        let mut claims: Vec<ResourceClaim> = self.claim_templates.iter().map(of_template).collect();
        let requests: Vec<DeviceRequest> =
            devices.classes_for(&self.requests).enumerate().map(request).collect();
        if !requests.is_empty() {
            claims.push(claim("extended-resources", requests, Vec::new()));
        }
        claims
    }
}

/// The request for devices of a class, as many as are asked for of the resource.
fn request(
    (number, (resource, class, quantity)): (usize, (&ResourceName, &DeviceClassName, Quantity)),
) -> DeviceRequest {
    let exact = ExactRequest {
        class: class.clone(),
        selectors: Vec::new(),
        count: DeviceCount::Exactly(u32::try_from(quantity.as_units_ceil()).unwrap_or(u32::MAX)),
        capacity: BTreeMap::new(),
        tolerations: Vec::new(),
        admin: false,
        instead_of: Some(resource.clone()),
    };
    DeviceRequest { name: format!("request-{number}").as_str().into(), kind: RequestKind::Exactly(exact) }
}
