//! Capacity of a node that the system keeps (spec aws-provider 3.5).
//!
//! The formulas are those of the EKS bootstrap scripts and of nodeadm: the planner must predict what the
//! kubelet will report, or pods end up on nodes they do not fit.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_aws_api::ec2::InstanceTypeInfo;
use karpenter_model::resources;
use karpenter_model::{Overhead, Quantity, Resources};

use super::capacity::{interfaces, mib};
use crate::catalogue::density;
use crate::class::view::ClassView;

/// Inputs of the overhead.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The `NodeClass`'s kubelet block.
    pub kubelet: Option<&'a KubeletConfiguration>,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Pods that kube-reserved memory is computed for.
    pub pods: u32,
    /// Memory the node has: as a real node reported it, else the estimate.
    pub memory: Quantity,
    pub ephemeral_storage: Quantity,
}

/// Overhead of a node with this capacity.
pub(super) fn of_type(
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    kubelet: &KubeletConfiguration,
    capacity: &Resources,
) -> Overhead {
    let pods = u32::try_from(capacity.amount(resources::PODS).as_units_ceil()).unwrap_or_default();
    overhead(Inputs {
        kubelet: Some(kubelet),
        vcpus: info.vcpus,
        pods: density::pods_reserved_for(view.family, interfaces(info, view), pods),
        memory: capacity.amount(resources::MEMORY),
        ephemeral_storage: capacity.amount(resources::EPHEMERAL_STORAGE),
    })
}

/// Kube-reserved, system-reserved and hard eviction threshold.
pub fn overhead(inputs: Inputs<'_>) -> Overhead {
    let kubelet = inputs.kubelet;
    let defaults = Resources::new()
        .with(resources::CPU, Quantity::from_millis(reserved_cpu_millis(inputs.vcpus)))
        .with(resources::MEMORY, mib(11 * u64::from(inputs.pods) + 255))
        .with(resources::EPHEMERAL_STORAGE, mib(1024));
    Overhead {
        kube_reserved: defaults.replaced_by(&quantities(kubelet.and_then(|k| k.kube_reserved.as_ref()))),
        system_reserved: quantities(kubelet.and_then(|k| k.system_reserved.as_ref())),
        eviction: eviction(inputs),
    }
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
fn reserved_cpu_millis(vcpus: u32) -> i64 {
    const TIERS: [(i64, i64, i64); 4] =
        [(0, 1_000, 600), (1_000, 2_000, 100), (2_000, 4_000, 50), (4_000, i64::MAX, 25)];
    let millis = i64::from(vcpus) * 1_000;
    TIERS
        .iter()
        // Each tier loses its fraction before the sum, as in the bootstrap script (spec aws-provider 3.5).
        .map(|(from, to, per_ten_thousand)| (millis.min(*to) - from).max(0) * per_ten_thousand / 10_000)
        .sum()
}

fn quantities(texts: Option<&BTreeMap<String, String>>) -> Resources {
    let parsed = texts
        .into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.as_str().into(), text.parse::<Quantity>().ok()?)));
    parsed.collect()
}

/// Hard eviction takes memory and disk away from pods; soft eviction and other signals do not.
fn eviction(inputs: Inputs<'_>) -> Resources {
    let signals = inputs.kubelet.and_then(|kubelet| kubelet.eviction_hard.as_ref());
    let signal = |name: &str| signals.and_then(|signals| signals.get(name)).map(String::as_str);
    let memory = signal("memory.available").and_then(|text| threshold(text, inputs.memory));
    let disk = signal("nodefs.available").and_then(|text| threshold(text, inputs.ephemeral_storage));
    Resources::new().with(resources::MEMORY, memory.unwrap_or_else(|| mib(100))).with(
        resources::EPHEMERAL_STORAGE,
        disk.unwrap_or_else(|| percentage(inputs.ephemeral_storage, 10_000)),
    )
}

/// A threshold as a quantity; `100%` switches the signal off.
fn threshold(text: &str, capacity: Quantity) -> Option<Quantity> {
    let Some(percent) = text.strip_suffix('%') else { return text.parse().ok() };
    // A user's own kubelet configuration may have more decimals than `spec.kubelet` allows: rounded up, as the share is.
    let thousandths = percent.parse::<Quantity>().ok()?.as_millis_ceil();
    Some(if thousandths >= 100_000 { Quantity::ZERO } else { percentage(capacity, thousandths) })
}

/// Whole bytes, rounded up.
fn percentage(capacity: Quantity, thousandths: i64) -> Quantity {
    let bytes = i128::from(capacity.as_units_ceil()) * i128::from(thousandths);
    let rounded = bytes.div_euclid(100_000) + i128::from(bytes.rem_euclid(100_000) != 0);
    Quantity::from_bytes(i64::try_from(rounded).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(kubelet: Option<&KubeletConfiguration>) -> Inputs<'_> {
        let gib = |n: u64| mib(n * 1024);
        Inputs { kubelet, vcpus: 4, pods: 58, memory: gib(10), ephemeral_storage: gib(20) }
    }

    fn kubelet(hard: &[(&str, &str)]) -> KubeletConfiguration {
        let hard = hard.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        KubeletConfiguration { eviction_hard: Some(hard), ..Default::default() }
    }

    #[test]
    fn cpu_is_reserved_in_tiers() {
        for (vcpus, millis) in [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)] {
            assert_eq!(reserved_cpu_millis(vcpus), millis, "{vcpus}");
        }
    }

    #[test]
    fn memory_is_reserved_by_pod_count() {
        let reserved = overhead(inputs(None)).kube_reserved;
        assert_eq!(reserved.to_string(), r#"{"cpu":"80m","ephemeral-storage":"1Gi","memory":"893Mi"}"#);
        assert_eq!(overhead(inputs(None)).total().amount("memory"), mib(993));
    }

    #[test]
    fn what_the_user_reserves_replaces_the_formula_key_by_key() {
        let text = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        let kubelet = KubeletConfiguration {
            kube_reserved: text(&[("cpu", "10m"), ("pid", "100")]),
            system_reserved: text(&[("memory", "1Gi")]),
            ..Default::default()
        };
        let result = overhead(inputs(Some(&kubelet)));
        let kube = r#"{"cpu":"10m","ephemeral-storage":"1Gi","memory":"893Mi","pid":"100"}"#;
        assert_eq!(result.kube_reserved.to_string(), kube);
        assert_eq!(result.system_reserved.to_string(), r#"{"memory":"1Gi"}"#);
    }

    #[test]
    fn eviction_thresholds_are_amounts_or_shares_rounded_up() {
        let gib = 1_i64 << 30;
        for (text, expected) in [
            ("500Mi", 500 << 20),
            ("5%", (10 * gib * 5 + 99) / 100),
            ("12.5%", 10 * gib / 8),
            ("0.01%", (10 * gib + 9_999) / 10_000),
            ("7.1251%", (10 * gib * 7_126 + 99_999) / 100_000),
            (".5%", 10 * gib / 200 + 1),
            ("100%", 0),
            ("100.0%", 0),
            ("0", 0),
        ] {
            let kubelet = kubelet(&[("memory.available", text)]);
            let eviction = overhead(inputs(Some(&kubelet))).eviction;
            assert_eq!(eviction.amount("memory"), Quantity::from_bytes(expected), "{text}");
            assert_eq!(eviction.amount("ephemeral-storage"), mib(2048), "{text}");
        }
    }

    #[test]
    fn soft_eviction_and_other_signals_take_nothing() {
        let mut kubelet = kubelet(&[("imagefs.available", "50%"), ("nodefs.inodesFree", "50%")]);
        kubelet.eviction_soft = Some([("memory.available".to_owned(), "50%".to_owned())].into());
        assert_eq!(overhead(inputs(Some(&kubelet))).eviction, overhead(inputs(None)).eviction);
    }
}
