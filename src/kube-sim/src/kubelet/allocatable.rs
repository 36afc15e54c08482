//! Computes what a node offers to pods from its hardware and the user data.

use karpenter_model::{Quantity, Resources};

use super::Machine;
use super::difference::changed;
use crate::userdata::{Bootstrap, Image};

/// The root volume of the image where no size of it was asked for.
const ROOT_VOLUME: Quantity = Quantity::from_bytes(20 << 30);

/// Most pods: what the user data says, bounded by pods per core; what the image computes otherwise.
fn pods(hardware: &Resources, bootstrap: &Bootstrap) -> Quantity {
    let most = bootstrap.max_pods.map_or(hardware.amount("pods"), |max| Quantity::from_units(max.into()));
    let cores = hardware.amount("cpu").as_units_ceil();
    let by_core =
        bootstrap.pods_per_core.filter(|&n| n > 0).map(|n| Quantity::from_units(i64::from(n) * cores));
    by_core.map_or(most, |bound| most.min(bound))
}

/// The disk that has the kubelet's folder: the local ones if they were made into one, else the volume that the image
/// has for it.
fn disk(machine: &Machine, bootstrap: &Bootstrap) -> Quantity {
    if bootstrap.local_disks && !machine.local_disks.is_zero() {
        return machine.local_disks;
    }
    let devices: &[&str] = match bootstrap.image {
        // The first one has the system, which is read only.
        Image::Bottlerocket => &["/dev/xvdb"],
        Image::Nodeadm | Image::Script | Image::Windows => &["/dev/xvda", "/dev/sda1"],
    };
    let volume = devices.iter().find_map(|device| machine.volumes.get(*device)).copied();
    volume.or_else(|| machine.capacity.get("ephemeral-storage")).unwrap_or(ROOT_VOLUME)
}

/// Returns the capacity of the node.
pub(super) fn capacity(machine: &Machine, bootstrap: &Bootstrap) -> Resources {
    let hardware = machine.capacity.clone().with("ephemeral-storage", disk(machine, bootstrap));
    let pods = pods(&hardware, bootstrap);
    changed(hardware.with("pods", pods), &machine.difference.hardware)
}

/// Returns the allocatable resources of the node: capacity without reservations and hard eviction thresholds.
pub(super) fn allocatable(machine: &Machine, bootstrap: &Bootstrap) -> Resources {
    let capacity = &capacity(machine, bootstrap);
    // nodeadm and the bootstrap script compute it from the network of the instance type before they read `maxPods`.
    let pods = match bootstrap.image {
        Image::Nodeadm | Image::Script => machine.capacity.amount("pods"),
        Image::Bottlerocket | Image::Windows => capacity.amount("pods"),
    };
    let mut offered = capacity.clone();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let kube = stated(bootstrap.kube_reserved.get(name))
            .unwrap_or_else(|| computed_reserve(name, capacity, pods));
        let system = stated(bootstrap.system_reserved.get(name)).unwrap_or_default();
        let (kube, system) = match bootstrap.reserved_cpus.filter(|_| name == "cpu") {
            Some(count) => (Quantity::ZERO, Quantity::from_units(count.into())),
            None => (kube, system),
        };
        let left = capacity.amount(name).saturating_sub(kube).saturating_sub(system);
        let left = left.saturating_sub(threshold(name, capacity, bootstrap));
        offered.set(name, left.max(Quantity::ZERO));
    }
    changed(offered, &machine.difference.room)
}

fn stated(text: Option<&String>) -> Option<Quantity> {
    text?.parse().ok()
}

/// Returns the amount that the EKS images reserve by themselves (spec aws-provider 3).
fn computed_reserve(name: &str, capacity: &Resources, pods: Quantity) -> Quantity {
    match name {
        "cpu" => Quantity::from_millis(reserved_millis(capacity.amount("cpu").as_millis_ceil())),
        "memory" => {
            let mebibytes = 11 * pods.as_units_ceil() + 255;
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
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::kubelet::{Difference, MachineState};

    fn quantity(text: &str) -> Quantity {
        text.parse().expect("a quantity")
    }

    fn m5_xlarge() -> Machine {
        let capacity = [("cpu", "4"), ("memory", "16Gi"), ("pods", "58")];
        Machine {
            instance_id: "i-0".to_owned(),
            provider_id: "aws:///us-west-2a/i-0".to_owned(),
            instance_type: "m5.xlarge".to_owned(),
            zone: "us-west-2a".to_owned(),
            zone_id: "usw2-az1".to_owned(),
            region: "us-west-2".to_owned(),
            private_dns_name: "ip-10-0-0-1".to_owned(),
            private_ip: "10.0.0.1".to_owned(),
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            capacity: capacity
                .into_iter()
                .fold(Resources::new(), |all, (name, text)| all.with(name, quantity(text))),
            volumes: BTreeMap::new(),
            local_disks: Quantity::ZERO,
            state: MachineState::Running,
            launched_at: Timestamp::UNIX_EPOCH,
            reboots: 0,
            user_data: Vec::new(),
            difference: Difference::default(),
        }
    }

    fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn images_reserve_by_cores_and_pods() {
        for (cores, millis) in [(2, 70), (4, 80), (8, 90), (16, 110), (96, 310)] {
            assert_eq!(reserved_millis(cores * 1_000), millis, "{cores} cores");
        }
        let offered = allocatable(&m5_xlarge(), &Bootstrap::default());
        assert_eq!(offered.amount("cpu").to_string(), "3920m");
        // 16384 - 893 - 100
        assert_eq!(offered.amount("memory"), Quantity::from_bytes(15_391 << 20));
    }

    #[test]
    fn the_user_data_overrules_the_image() {
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
        let offered = allocatable(&m5_xlarge(), &bootstrap);
        assert_eq!(offered.amount("cpu"), Quantity::from_millis(2_500));
        // 16 GiB, less 1 GiB, less 5 % of 16 GiB rounded up to a byte.
        assert_eq!(offered.amount("memory").as_units_ceil(), (15 << 30) - 858_993_460);
        let listed = Bootstrap { reserved_cpus: Some(2), ..bootstrap };
        assert_eq!(allocatable(&m5_xlarge(), &listed).amount("cpu"), Quantity::from_units(2));
    }

    /// nodeadm reserves for the pods of the instance type's network, Bottlerocket for `max-pods`.
    #[test]
    fn a_bound_on_pods_changes_what_bottlerocket_reserves_and_not_what_nodeadm_does() {
        for (image, mebibytes) in [
            (Image::Nodeadm, 16_384 - 893 - 100),
            (Image::Script, 16_384 - 893 - 100),
            (Image::Bottlerocket, 16_384 - 365 - 100),
        ] {
            let bootstrap = Bootstrap { image, max_pods: Some(10), ..Bootstrap::default() };
            let memory = allocatable(&m5_xlarge(), &bootstrap).amount("memory");
            assert_eq!(memory, Quantity::from_bytes(mebibytes << 20), "{image:?}");
        }
    }

    #[test]
    fn the_disk_is_the_volume_that_the_image_uses_or_all_local_ones() {
        let volumes = [("/dev/xvda", "200Gi"), ("/dev/xvdb", "50Gi")];
        let volumes = volumes.map(|(device, size)| (device.to_owned(), quantity(size)));
        let machine = Machine { volumes: volumes.into(), local_disks: quantity("900G"), ..m5_xlarge() };
        for (image, local_disks, disk) in [
            (Image::Nodeadm, false, "200Gi"),
            (Image::Bottlerocket, false, "50Gi"),
            (Image::Nodeadm, true, "900G"),
        ] {
            let bootstrap = Bootstrap { image, local_disks, ..Bootstrap::default() };
            assert_eq!(capacity(&machine, &bootstrap).amount("ephemeral-storage"), quantity(disk));
        }
        let without = capacity(&m5_xlarge(), &Bootstrap::default());
        assert_eq!(without.amount("ephemeral-storage"), ROOT_VOLUME);
    }

    #[test]
    fn a_machine_may_have_less_and_offer_less_than_foreseen() {
        let by = |name: &str, text: &str| [(name.to_owned(), text.parse().expect("a change"))].into();
        let differing = |difference| Machine { difference, ..m5_xlarge() };
        let bootstrap = Bootstrap::default();
        let less = differing(Difference { hardware: by("memory", "-1Gi"), ..Difference::default() });
        assert_eq!(capacity(&less, &bootstrap).amount("memory"), quantity("15Gi"));
        assert_eq!(allocatable(&less, &bootstrap).amount("memory"), Quantity::from_bytes(14_367 << 20));
        let kept_back = differing(Difference { room: by("cpu", "-50%"), ..Difference::default() });
        assert_eq!(capacity(&kept_back, &bootstrap).amount("cpu"), quantity("4"));
        assert_eq!(allocatable(&kept_back, &bootstrap).amount("cpu"), quantity("1960m"));
    }
}
