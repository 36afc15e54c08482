//! Manifests and chart values of older versions of Karpenter, converted to v1 (spec aws-operations 4).
//!
//! Provisioner, `AWSNodeTemplate` and Machine (v1alpha5, v1alpha1) and NodePool, EC2NodeClass and NodeClaim of v1beta1
//! become NodePools, EC2NodeClasses and NodeClaims of v1; everything else is passed on.
//!
//! Invariants:
//! - a field is mapped or reported with the reason, never dropped without a word;
//! - what an old version took for granted and v1 does not is written out, so that nodes stay what they were;
//! - what is made is checked against the definitions, and not emitted if an API server would refuse it;
//! - what is of v1 already, and other kinds without names of older versions, is passed on byte for byte; so converting
//!   the output again changes nothing.
//!
//! Nothing here reaches a cluster or an account: objects of a cluster come as `kubectl get --output yaml` prints them.

mod fields;
mod input;
mod kind;
mod kubelets;
mod log;
mod metadata;
mod names;
mod object;
mod repair;
mod report;
mod stream;
mod validate;
mod values;
mod workload;

pub use input::{Input, InputError, Inputs, read, read_some};
pub use log::{Entry, Kind};
pub use report::{Counted, ObjectReport, Report};
pub use stream::{Conversion, convert};
pub use values::convert_values;

/// Settings that the objects lack.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Correct what is unambiguous in texts that are no manifests.
    pub fix: bool,
    /// The cluster whose tag selects subnets and security groups where an old object left that to the controller.
    pub cluster_name: Option<String>,
    /// The node role of classes that name neither role nor instance profile.
    pub role: Option<String>,
    /// The instance profile of such classes, if `role` is not given.
    pub instance_profile: Option<String>,
}
