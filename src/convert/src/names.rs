//! Labels, annotations and tags of older versions, and what each is called or why it is gone (spec aws-operations 4.6).

use karpenter_model::LabelRegistry;
use karpenter_model::names::{annotation, label, taint, today};

/// The taint of nodes that v1beta1 was disrupting.
pub(crate) const DISRUPTION_TAINT: &str = "karpenter.sh/disruption";

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

/// Fate of an older version's label key in a NodePool of v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Renamed(&'static str),
    /// It may not be in a NodePool, and why.
    Gone(&'static str),
}

/// The fate of a label key in labels and requirements of a pool, or in requirements of a claim.
pub(crate) fn fate(key: &str, is_in_claim: bool) -> Fate {
    if !is_in_claim && (key == label::PROVISIONER_NAME || key == label::NODE_POOL) {
        return Fate::Gone("the controller labels nodes with the name of their NodePool by itself");
    }
    if key == label::HOSTNAME {
        return Fate::Gone("a NodePool cannot choose host names");
    }
    if GONE_LABELS.contains(&key) {
        return Fate::Gone("no version since v1beta1 sets this label; use instance types or sizes instead");
    }
    if let Some(name) = today(key, &label::RENAMED).or_else(|| today(key, &label::NORMALIZED)) {
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
    today(key, &label::RENAMED)
}

/// The name that an annotation has today, if it has another.
pub(crate) fn annotation_today(key: &str) -> Option<&'static str> {
    today(key, &annotation::RENAMED)
}

/// The name that a taint has today, if it has another.
pub(crate) fn taint_today(key: &str) -> Option<&'static str> {
    today(key, &RENAMED_TAINTS)
}

/// Returns whether an annotation is bookkeeping of a controller or client, which writes it again.
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

/// A text with every old name of workloads replaced.
pub(crate) fn renamed(text: &str) -> String {
    let tables = label::RENAMED.iter().chain(&annotation::RENAMED).chain(&RENAMED_TAINTS);
    tables.fold(text.to_owned(), |text, (old, name)| text.replace(old, name))
}
