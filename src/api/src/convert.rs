//! The way from Kubernetes objects into the model, and back for what we create.
//!
//! Conversions are total over what an API server accepts; what it would not accept gives an [`Error`] that
//! names object and field, so that one odd object is skipped and reported instead of stopping a pass. Machines must
//! not be overlooked for it: claims, Nodes and the pods on them can be read in part.

use std::collections::BTreeMap;
use std::fmt::Display;

use k8s_openapi::api::core::v1::Taint as ApiTaint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::resources::quantity::QuantityError;
use karpenter_model::{Annotations, Effect, Labels, Quantity, Resources, Taint};

use crate::quantity::RawQuantity;

mod admission;
mod affinity;
mod budget;
mod buffer;
mod claim;
mod daemon;
mod device;
mod node;
mod overlay;
mod pod;
mod pool;
mod requests;
mod requirement;
mod selector;
mod taint;
pub(crate) mod validation;
mod volume;
mod workload;

pub use admission::{Admission, Limits, Refused, limit_range};
pub use budget::{Allowance, allowance, budget};
pub use buffer::{buffer, template_pod};
pub use claim::{claim, claim_in_part};
pub use daemon::daemon;
pub use device::{claim_template, device_class, device_taint_rule, resource_claim, resource_slice};
pub use node::{node, node_in_part};
pub use overlay::overlay;
pub use pod::{pod, pod_without_rules};
pub use pool::pool;
pub use requirement::{expressions, requirements};
pub use selector::selector;
pub use taint::{taint_to_api, taints};
pub use validation::SYSTEM_PRIORITIES;
pub use volume::{attach_limits, storage_class, volume, volume_claim};
pub use workload::{JobPods, claim_of, first_ordinal, labels_of_pod, mount_claims, template_hash};

/// A field the model cannot take over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{field}` of {object}: {problem}; correct the object")]
pub struct Error {
    /// Kind and name, for example ``NodePool `default` ``.
    pub object: String,
    /// Path of the field, for example `spec.limits.cpu`.
    pub field: String,
    /// Fault of its value.
    pub problem: String,
}

/// A problem with one field, before it is known whose field it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{field}`: {problem}; correct the object")]
pub struct FieldError {
    field: String,
    problem: String,
}

impl FieldError {
    fn new(field: &str, problem: impl Display) -> Self {
        Self { field: field.to_owned(), problem: problem.to_string() }
    }

    /// The value is not among those the field may have.
    fn unknown(field: &str, value: &str) -> Self {
        Self::new(field, format_args!("`{value}` is not a known value"))
    }

    /// Puts a parent path in front.
    fn below(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }

    /// Says whose field it is.
    fn of(self, kind: &str, name: &str) -> Error {
        Error { object: format!("{kind} `{name}`"), field: self.field, problem: self.problem }
    }
}

/// Reads what can be read of an object that must not be overlooked, and keeps the first problem.
#[derive(Debug, Default)]
struct InPart(Option<FieldError>);

impl InPart {
    /// Returns the value that was read, or nothing: no amount, no end.
    fn or_nothing<T: Default>(&mut self, read: Result<T, FieldError>) -> T {
        read.unwrap_or_else(|error| {
            self.0.get_or_insert(error);
            T::default()
        })
    }

    /// The taints; one with an unknown effect keeps pods away and drives none out.
    fn taints(&mut self, field: &str, written: Option<&Vec<ApiTaint>>) -> Vec<Taint> {
        let read = |(index, written): (usize, &ApiTaint)| {
            taint::taint(&format!("{field}[{index}]"), written).unwrap_or_else(|error| {
                self.0.get_or_insert(error);
                Taint::new(&written.key, written.value.as_deref().unwrap_or_default(), Effect::NoSchedule)
            })
        };
        written.into_iter().flatten().enumerate().map(read).collect()
    }
}

/// A quantity in one of its written forms.
trait Written {
    fn read(&self) -> Result<Quantity, QuantityError>;
}

impl Written for ApiQuantity {
    fn read(&self) -> Result<Quantity, QuantityError> {
        crate::quantity::amount(&self.0)
    }
}

impl Written for RawQuantity {
    fn read(&self) -> Result<Quantity, QuantityError> {
        match self {
            Self::Integer(units) => Ok(Quantity::from_units(*units)),
            Self::Text(text) => text.parse(),
        }
    }
}

/// Reads quantities by resource name.
fn resources<Q: Written>(
    field: &str,
    written: Option<&BTreeMap<String, Q>>,
) -> Result<Resources, FieldError> {
    let mut amounts = Resources::new();
    for (name, quantity) in written.into_iter().flatten() {
        let read = quantity.read().map_err(|error| FieldError::new(&format!("{field}.{name}"), error))?;
        amounts.set(name, read);
    }
    Ok(amounts)
}

fn labels(written: Option<&BTreeMap<String, String>>) -> Labels {
    written.into_iter().flatten().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

fn annotations(written: Option<&BTreeMap<String, String>>) -> Annotations {
    written.cloned().unwrap_or_default()
}

/// The text, unless it is absent or empty.
fn present(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
