//! From the hardware and the user data to what a node offers to pods.

use karpenter_model::{Quantity, Resources};

use crate::userdata::Bootstrap;

/// Most pods: what the user data says, bounded by pods per core; what the image computes otherwise.
fn pods(hardware: &Resources, bootstrap: &Bootstrap) -> Quantity {
    let most = bootstrap.max_pods.map_or(hardware.amount("pods"), |max| Quantity::from_units(max.into()));
    let cores = hardware.amount("cpu").as_units_ceil();
    let by_core =
        bootstrap.pods_per_core.filter(|&n| n > 0).map(|n| Quantity::from_units(i64::from(n) * cores));
    by_core.map_or(most, |bound| most.min(bound))
}

/// What the node has.
pub(super) fn capacity(hardware: &Resources, bootstrap: &Bootstrap) -> Resources {
    hardware.clone().with("pods", pods(hardware, bootstrap))
}

/// What the node offers: capacity without reservations and hard eviction thresholds.
pub(super) fn allocatable(capacity: &Resources, bootstrap: &Bootstrap) -> Resources {
    let mut offered = capacity.clone();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let kube =
            stated(bootstrap.kube_reserved.get(name)).unwrap_or_else(|| computed_reserve(name, capacity));
        let system = stated(bootstrap.system_reserved.get(name)).unwrap_or_default();
        let left = capacity.amount(name).saturating_sub(kube).saturating_sub(system);
        let left = left.saturating_sub(threshold(name, capacity, bootstrap));
        offered.set(name, left.max(Quantity::ZERO));
    }
    offered
}

fn stated(text: Option<&String>) -> Option<Quantity> {
    text?.parse().ok()
}

/// What the EKS images reserve by themselves (spec aws-provider 3).
fn computed_reserve(name: &str, capacity: &Resources) -> Quantity {
    match name {
        "cpu" => Quantity::from_millis(reserved_millis(capacity.amount("cpu").as_millis_ceil())),
        "memory" => {
            let mebibytes = 11 * capacity.amount("pods").as_units_ceil() + 255;
            Quantity::from_bytes(mebibytes << 20)
        }
        _ => Quantity::from_bytes(1 << 30),
    }
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; each truncated.
fn reserved_millis(cpu: i64) -> i64 {
    const TIERS: [(i64, i64, i64); 4] =
        [(0, 1_000, 600), (1_000, 2_000, 100), (2_000, 4_000, 50), (4_000, i64::MAX, 25)];
    let share = |(from, to, per_ten_thousand): (i64, i64, i64)| {
        (cpu.min(to) - from).max(0) * per_ten_thousand / 10_000
    };
    TIERS.into_iter().map(share).sum()
}

fn threshold(name: &str, capacity: &Resources, bootstrap: &Bootstrap) -> Quantity {
    let (signal, default) = match name {
        "memory" => ("memory.available", "100Mi"),
        "ephemeral-storage" => ("nodefs.available", "10%"),
        _ => return Quantity::ZERO,
    };
    let text = bootstrap.eviction_hard.get(signal).map_or(default, String::as_str);
    match text.strip_suffix('%') {
        Some(percent) => {
            // Thresholds may have decimals: hundredths of a percent are exact enough for a node.
            let hundredths = percent.parse::<Quantity>().map_or(0, |q| q.as_millis_ceil() / 10);
            let bytes = i128::from(capacity.amount(name).as_units_ceil()) * i128::from(hundredths);
            Quantity::from_bytes(i64::try_from((bytes + 9_999) / 10_000).unwrap_or(i64::MAX))
        }
        None => text.parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m5_xlarge() -> Resources {
        let quantity = |text: &str| text.parse::<Quantity>().expect("a quantity");
        [("cpu", "4"), ("memory", "16Gi"), ("ephemeral-storage", "20Gi"), ("pods", "58")]
            .into_iter()
            .fold(Resources::new(), |all, (name, text)| all.with(name, quantity(text)))
    }

    #[test]
    fn images_reserve_by_cores_and_pods() {
        for (cores, millis) in [(2, 70), (4, 80), (8, 90), (16, 110), (96, 310)] {
            assert_eq!(reserved_millis(cores * 1_000), millis, "{cores} cores");
        }
        let node = capacity(&m5_xlarge(), &Bootstrap::default());
        let offered = allocatable(&node, &Bootstrap::default());
        assert_eq!(offered.amount("cpu").to_string(), "3920m");
        // 16384 - 893 - 100
        assert_eq!(offered.amount("memory"), Quantity::from_bytes(15_391 << 20));
    }

    #[test]
    fn the_user_data_overrules_the_image() {
        let text =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let bootstrap = Bootstrap {
            max_pods: Some(110),
            pods_per_core: Some(10),
            kube_reserved: text(&[("cpu", "1"), ("memory", "1Gi")]),
            system_reserved: text(&[("cpu", "500m")]),
            eviction_hard: text(&[("memory.available", "5%")]),
            ..Bootstrap::default()
        };
        let node = capacity(&m5_xlarge(), &bootstrap);
        assert_eq!(node.amount("pods"), Quantity::from_units(40));
        let offered = allocatable(&node, &bootstrap);
        assert_eq!(offered.amount("cpu"), Quantity::from_millis(2_500));
        // 16 GiB, less 1 GiB, less 5 % of 16 GiB rounded up to a byte.
        assert_eq!(offered.amount("memory").as_units_ceil(), (15 << 30) - 858_993_460);
    }
}
