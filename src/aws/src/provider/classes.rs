//! The node class of a request: its presence and readiness for launches, its types and placement group,
//! and the error where it is missing or not ready.

use std::sync::Arc;

use karpenter_api::{ConditionStatus, EC2NodeClass};
use karpenter_cloud::{Error, Kind, Result};
use karpenter_model::NodeClassRef;
use karpenter_model::names::{condition, reason};

use super::{AwsProvider, NODE_CLASS_KIND};
use crate::calls::fault::launch_error;
use crate::catalogue::instance_types;
use crate::class::store::Lookup;
use crate::network::placement_groups::{Group, is_wanted};

/// Reason while node classes have not been read.
pub(super) const NOT_READ: &str = "node classes have not been read yet";
/// Reason while the node class is there but cannot be decoded.
pub(super) const UNDECODED: &str = "this release cannot decode the node class, its log names the field; correct the field, \
                                    or use the release that wrote it";

impl AwsProvider {
    /// The object that is referred to, unless it is being deleted.
    pub(super) fn class(
        &self,
        operation: &'static str,
        reference: &NodeClassRef,
    ) -> Result<Arc<EC2NodeClass>> {
        if !NODE_CLASS_KIND.owns(reference) {
            let text = format!("{} of {} is not a node class of AWS", reference.kind, reference.group);
            return Err(Error::new(Kind::Invalid, operation, reference.name.as_str(), text));
        }
        match self.classes.get(&reference.name) {
            Lookup::Found(class) if class.metadata.deletion_timestamp.is_none() => Ok(class),
            Lookup::Found(_) => Err(not_ready(operation, &reference.name, "the node class is being deleted")),
            Lookup::Absent => Err(not_ready(operation, &reference.name, "the node class does not exist")),
            Lookup::NotSynced => Err(transient(operation, &reference.name, NOT_READ)),
            Lookup::Undecoded => Err(transient(operation, &reference.name, UNDECODED)),
        }
    }

    /// The instance types it means.
    pub(super) fn list(
        &self,
        operation: &'static str,
        class: &Arc<EC2NodeClass>,
    ) -> Result<instance_types::List> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        self.types.list(class).map_err(|error| match error {
            // A fault of the class, so its claims end. The others are answers of EC2 that are still to come.
            instance_types::Error::NoSubnets => not_ready(operation, name, &error.to_string()),
            instance_types::Error::NoCatalogue | instance_types::Error::NoPlacementGroup => {
                Error::new(Kind::Transient, operation, name, error.to_string())
                    .with_reason(reason::aws::INSTANCE_TYPE_RESOLUTION_FAILED)
            }
        })
    }

    /// The placement group of a `NodeClass`; the last known one while EC2 does not answer.
    pub(super) async fn placement_group(
        &self,
        operation: &'static str,
        subject: &str,
        class: &EC2NodeClass,
    ) -> Result<Option<Group>> {
        match self.placement_groups.resolve(class).await {
            Ok(None) if is_wanted(class) => {
                let text = "the placement group of the node class does not exist or is not available";
                Err(Error::new(Kind::Transient, operation, subject, text))
            }
            Ok(group) => Ok(group),
            Err(error) => match self.placement_groups.last_known(class) {
                Some(group) => {
                    tracing::warn!(subject, %error, "placement group not read, the last known one is used");
                    Ok(Some(group))
                }
                None => Err(launch_error(operation, subject, &error)),
            },
        }
    }
}

/// Refuses a `NodeClass` that is not known to be launchable as it is now (spec aws-provider 5.1).
pub(super) fn ready(operation: &'static str, claim: &str, class: &EC2NodeClass) -> Result<()> {
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition.kind == condition::READY);
    let unknown = || {
        let text = "the readiness of the node class is not known yet";
        Error::new(Kind::Transient, operation, claim, text).with_reason(reason::NODE_CLASS_READINESS_UNKNOWN)
    };
    let condition = condition.ok_or_else(unknown)?;
    match condition.status {
        ConditionStatus::False => Err(not_ready(operation, claim, &condition.message)),
        ConditionStatus::Unknown => Err(unknown()),
        ConditionStatus::True if condition.observed_generation != class.metadata.generation => {
            Err(not_ready(operation, claim, "the node class was changed and is being resolved again"))
        }
        ConditionStatus::True => Ok(()),
    }
}

fn not_ready(operation: &'static str, subject: &str, message: &str) -> Error {
    Error::new(Kind::NodeClassNotReady, operation, subject, message)
}

fn transient(operation: &'static str, subject: &str, text: &'static str) -> Error {
    Error::new(Kind::Transient, operation, subject, text)
}
