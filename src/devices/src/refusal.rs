//! Reason why the claims of a pod cannot be served.

use karpenter_model::{
    DeviceClassName, DeviceName, DeviceRequestName, DriverName, QualifiedName, ResourceClaimKey,
};

/// Reason why the claims of a pod cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// The claim is not there, or not yet.
    #[error("resource claim `{0}` does not exist")]
    NoClaim(ResourceClaimKey),
    /// The class is not there, or not yet.
    #[error("resource claim `{claim}` asks for device class `{class}`, which does not exist")]
    NoClass { claim: ResourceClaimKey, class: DeviceClassName },
    /// The claim uses something that is not planned for.
    #[error("resource claim `{claim}` uses `{field}`, which is not supported")]
    Unsupported { claim: ResourceClaimKey, field: String },
    /// More devices than a claim may have.
    #[error("resource claim `{claim}` asks for {count} devices, a claim may have 32")]
    TooMany {
        claim: ResourceClaimKey,
        /// Number of devices it asks for.
        count: usize,
    },
    /// A selector is no CEL expression.
    #[error("selector `{selector}` of resource claim `{claim}` cannot be compiled: {message}")]
    Selector {
        claim: ResourceClaimKey,
        /// The expression.
        selector: String,
        /// Error of the compiler.
        message: String,
    },
    /// A selector of a request for all devices failed on one of them, so it is not known what all of them are.
    #[error("selector of request `{request}` of resource claim `{claim}` failed: {message}")]
    Evaluation {
        claim: ResourceClaimKey,
        request: DeviceRequestName,
        /// Error of the evaluation.
        message: String,
    },
    /// A request for all devices meets a pool that is being published or is contradictory.
    #[error("request `{request}` of resource claim `{claim}` asks for all devices, but {problem}")]
    Pool {
        claim: ResourceClaimKey,
        request: DeviceRequestName,
        /// Problem of the pool.
        problem: String,
    },
    /// The claim has devices that cannot be used there.
    #[error("devices of resource claim `{0}` cannot be used there")]
    Elsewhere(ResourceClaimKey),
    /// A device that would do must not be given away, and others there are none or too few of.
    #[error("resource claim `{claim}` cannot have device `{device}`: {why}")]
    Barred {
        claim: ResourceClaimKey,
        device: DeviceName,
        /// Reason why the device must not be used.
        why: String,
    },
    /// No candidate has the devices.
    #[error("no devices{} are left for resource claim `{claim}`", that_agree(.agreeing))]
    NoDevices {
        claim: ResourceClaimKey,
        /// Attributes in which its devices must agree.
        agreeing: Vec<QualifiedName>,
    },
    /// The search was given up.
    #[error("resource claim `{0}` asks for too intricate a combination of devices")]
    TooIntricate(ResourceClaimKey),
}

fn that_agree(attributes: &[QualifiedName]) -> String {
    let names: Vec<String> = attributes.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!(" that agree in {}", names.join(" and ")) }
}

/// Returns the name of a pool of a driver in messages.
pub(crate) fn pool(driver: &DriverName, pool: &str) -> String {
    format!("pool `{pool}` of driver `{driver}`")
}
