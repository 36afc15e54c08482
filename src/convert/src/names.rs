//! Labels, annotations and tags of older versions, and what each is called or why it is gone (spec aws-operations 4.6).

use karpenter_model::LabelRegistry;
use karpenter_model::names::{annotation, label, taint};

/// The label of nodes that a Provisioner made.
pub(crate) const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";
/// The taint of nodes that v1beta1 was disrupting.
pub(crate) const DISRUPTION_TAINT: &str = "karpenter.sh/disruption";

/// Labels with another name today, in workloads and in pools.
const RENAMED_LABELS: [(&str, &str); 2] =
    [(PROVISIONER_NAME, label::NODE_POOL), ("node.k8s.aws/capacity-type", label::CAPACITY_TYPE)];

/// Annotations with another name today.
const RENAMED_ANNOTATIONS: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-evict", annotation::DO_NOT_DISRUPT),
    ("karpenter.sh/do-not-consolidate", annotation::DO_NOT_DISRUPT),
];

/// Taints with another name today.
const RENAMED_TAINTS: [(&str, &str); 1] = [(DISRUPTION_TAINT, taint::DISRUPTED)];

/// Labels of instance types that no version sets any more.
const GONE_LABELS: [&str; 2] = ["karpenter.k8s.aws/instance-pods", "karpenter.k8s.aws/instance-ami-id"];

/// Beginnings of annotations that controllers and clients write for themselves.
const BOOKKEEPING: [&str; 8] = [
    "karpenter.sh/provisioner-hash",
    annotation::POOL_HASH,
    "karpenter.k8s.aws/nodetemplate-hash",
    annotation::aws::EC2_NODE_CLASS_HASH,
    annotation::aws::TAGGED,
    "compatibility.karpenter.",
    "kubectl.kubernetes.io/last-applied-configuration",
    annotation::aws::INSTANCE_PROFILE_NAME,
];

/// What a label key of an older version is in a NodePool of v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Renamed(&'static str),
    /// It may not be in a NodePool, and why.
    Gone(&'static str),
}

/// The fate of a label key in labels and requirements of a pool, or in requirements of a claim.
pub(crate) fn fate(key: &str, is_in_claim: bool) -> Fate {
    if !is_in_claim && (key == PROVISIONER_NAME || key == label::NODE_POOL) {
        return Fate::Gone("the controller labels nodes with the name of their NodePool by itself");
    }
    if key == label::HOSTNAME {
        return Fate::Gone("a NodePool cannot choose host names");
    }
    if GONE_LABELS.contains(&key) {
        return Fate::Gone("no version since v1beta1 sets this label; use instance types or sizes instead");
    }
    if let Some(name) = today(key, &RENAMED_LABELS).or_else(|| today(key, &label::NORMALIZED)) {
        return Fate::Renamed(name);
    }
    if registry().is_restricted(key) {
        return Fate::Gone(
            "its domain is reserved for labels the controller knows; use a domain of your own",
        );
    }
    Fate::Kept
}

/// The name that a label of workloads has today, if it has another.
pub(crate) fn label_today(key: &str) -> Option<&'static str> {
    today(key, &RENAMED_LABELS)
}

/// The name that an annotation has today, if it has another.
pub(crate) fn annotation_today(key: &str) -> Option<&'static str> {
    today(key, &RENAMED_ANNOTATIONS)
}

/// The name that a taint has today, if it has another.
pub(crate) fn taint_today(key: &str) -> Option<&'static str> {
    today(key, &RENAMED_TAINTS)
}

/// Whether an annotation is bookkeeping of a controller or client, which writes it again.
pub(crate) fn is_bookkeeping(annotation: &str) -> bool {
    BOOKKEEPING.iter().any(|beginning| annotation.starts_with(beginning))
}

/// The labels every pool may use: those of the core and of AWS.
pub(crate) fn registry() -> LabelRegistry {
    let mut registry = LabelRegistry::core();
    registry.well_known.extend(label::aws::WELL_KNOWN.map(Into::into));
    registry.restricted_domains.insert(label::aws::DOMAIN.to_owned());
    registry
}

fn today(key: &str, table: &[(&str, &'static str)]) -> Option<&'static str> {
    table.iter().find(|(old, _)| *old == key).map(|(_, name)| *name)
}

/// A text with every old name of workloads replaced.
pub(crate) fn renamed(text: &str) -> String {
    let tables = RENAMED_LABELS.iter().chain(&RENAMED_ANNOTATIONS).chain(&RENAMED_TAINTS);
    tables.fold(text.to_owned(), |text, (old, name)| text.replace(old, name))
}
