//! Machines of a node class that a manifest changes: those whose hash changes drift, and those whose selectors change may.
//!
//! The hash of a class needs no account. Images, subnets, security groups and reservations that selectors find do: a plan
//! names such a class and the number of its nodes, and neither replaces them nor takes them for unchanged.
//!
//! An export has neither user data nor selectors of a class. It has a digest of them, so that a plan of it tells the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::manifest::admitted;
use karpenter_api::{ConditionStatus, EC2NodeClass, NodeClaim};
use karpenter_model::names::{condition, reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::objects::{Objects, text};

const CLASS: &str = "EC2NodeClass";
/// Annotations of classes in exports.
const LAUNCH: &str = "karpenter.sh/exported-launch-digest";
const SELECTORS: &str = "karpenter.sh/exported-selectors-digest";

/// Nodes of a class whose selectors change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MayDrift {
    /// Name of the class.
    pub class: String,
    /// Its nodes, by the name of their claim.
    pub claims: Vec<String>,
}

/// The two parts of a class that decide about drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    launch: String,
    selectors: String,
}

impl Digest {
    /// The digest of a class; `None` for one that an API server refuses, and for one of an export that has none.
    fn of(class: &Value) -> Option<Self> {
        // A manifest that is applied to a class of an export keeps the annotations of that class.
        Self::of_spec(class).or_else(|| {
            let written = |key: &str| class["metadata"]["annotations"][key].as_str().map(str::to_owned);
            Some(Self { launch: written(LAUNCH)?, selectors: written(SELECTORS)? })
        })
    }

    /// The digest of a whole class; a class of an export has no selectors.
    fn of_spec(class: &Value) -> Option<Self> {
        let class = EC2NodeClass::deserialize(&admitted(class).ok()?).ok()?;
        let spec = &class.spec;
        if spec.ami_selector_terms.is_empty() && spec.subnet_selector_terms.is_empty() {
            return None;
        }
        let selectors = json!([
            spec.ami_selector_terms,
            spec.subnet_selector_terms,
            spec.security_group_selector_terms,
            spec.capacity_reservation_selector_terms,
        ]);
        let selectors = Sha256::digest(selectors.to_string().as_bytes());
        let selectors = selectors.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        // The bundle of the cluster's certificates is the same before and after.
        Some(Self { launch: class.hash(""), selectors })
    }
}

/// The digests of all classes, by name.
pub(crate) fn digests(objects: &Objects) -> BTreeMap<String, Digest> {
    let classes = objects.of_kind(CLASS);
    classes.filter_map(|(key, class)| Some((key.name.clone(), Digest::of(class)?))).collect()
}

/// Writes the digest of a class beside what an export keeps of it.
pub(crate) fn keep(class: &Value, kept: &mut Value) {
    if let Some(digest) = Digest::of(class) {
        kept["metadata"]["annotations"][LAUNCH] = json!(digest.launch);
        kept["metadata"]["annotations"][SELECTORS] = json!(digest.selectors);
    }
}

/// Lets claims drift whose class has another hash than `before`; returns those whose class has other selectors alone.
pub(crate) fn drift(
    objects: &mut Objects,
    before: &BTreeMap<String, Digest>,
    at: Timestamp,
) -> Vec<MayDrift> {
    let now = digests(objects);
    let mut may_drift: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, object) in objects.of_kind_mut("NodeClaim") {
        let reference = &object["spec"]["nodeClassRef"];
        if reference["kind"] != CLASS {
            continue;
        }
        let class = text(reference, "/name").to_owned();
        let (Some(before), Some(now)) = (before.get(&class), now.get(&class)) else { continue };
        if before.launch != now.launch {
            mark(object, at);
        } else if before.selectors != now.selectors {
            may_drift.entry(class).or_default().push(key.name.clone());
        }
    }
    may_drift.into_iter().map(|(class, claims)| MayDrift { class, claims }).collect()
}

/// Writes that the provider finds a claim of another class than its own.
fn mark(object: &mut Value, at: Timestamp) {
    // Claims that cannot be read are reported when the objects are loaded.
    let Ok(mut claim) = NodeClaim::deserialize(&*object) else { return };
    let mut status = claim.status.take().unwrap_or_default();
    let mut conditions =
        Conditions::open(Dependents::NODE_CLAIM, &mut status.conditions, &claim.metadata, at);
    let reason = reason::aws::NODE_CLASS_DRIFT;
    conditions.set(condition::DRIFTED, ConditionStatus::True, reason, reason);
    object["status"] = json!(status);
}
