//! Kubelet command line arguments of the families that boot with a script (AL2 and Windows).
//!
//! The order of the arguments and the separators are part of the contract (spec aws-provider 6.7). Arguments
//! made of maps are sorted by key: the bytes end up in a launch template's name and must not depend on chance.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::KubeletConfiguration;

use super::{Bootstrap, NodeTaint};

/// The text behind `--kubelet-extra-args`: arguments joined by one space, empty ones dropped.
pub(crate) fn extra_args(bootstrap: &Bootstrap) -> String {
    let kubelet = &bootstrap.kubelet;
    let mut args = vec![
        node_labels(&bootstrap.labels).map(|labels| format!("--node-labels=\"{labels}\"")),
        Some(format!("--register-with-taints=\"{}\"", taints(&bootstrap.taints))),
    ];
    args.extend(config_args(kubelet));
    args.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn config_args(kubelet: &KubeletConfiguration) -> Vec<Option<String>> {
    vec![
        number("--max-pods", kubelet.max_pods),
        number("--pods-per-core", kubelet.pods_per_core),
        map("--system-reserved", kubelet.system_reserved.as_ref(), '='),
        map("--kube-reserved", kubelet.kube_reserved.as_ref(), '='),
        map("--eviction-hard", kubelet.eviction_hard.as_ref(), '<'),
        map("--eviction-soft", kubelet.eviction_soft.as_ref(), '<'),
        map("--eviction-soft-grace-period", kubelet.eviction_soft_grace_period.as_ref(), '='),
        number("--eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        number("--image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        number("--image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
        kubelet.cpu_cfs_quota.map(|enforced| format!("--cpu-cfs-quota={enforced}")),
    ]
}

/// `key=value` pairs in key order, comma separated; `None` when there are none.
pub fn node_labels(labels: &BTreeMap<String, String>) -> Option<String> {
    (!labels.is_empty())
        .then(|| labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

/// `key=value:effect` of every taint; a taint without value is `key:effect`.
pub fn taints(taints: &[NodeTaint]) -> String {
    taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn number(flag: &str, value: Option<i32>) -> Option<String> {
    value.map(|value| format!("{flag}={value}"))
}

fn map<V: std::fmt::Display>(
    flag: &str,
    values: Option<&BTreeMap<String, V>>,
    separator: char,
) -> Option<String> {
    let values = values.filter(|values| !values.is_empty())?;
    let pairs: Vec<_> = values.iter().map(|(key, value)| format!("{key}{separator}{value}")).collect();
    Some(format!("{flag}=\"{}\"", pairs.join(",")))
}
