//! Generated worlds for properties and measurements: seeded, so a failure is replayed by its seed.

pub mod corpus;
mod pods;
pub mod wide;

use std::fmt::Write;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_model::names::label;
use karpenter_model::{
    Expression, InstanceType, Operator, Quantity, Snapshot, Volume, VolumeClaim, VolumeClaimName,
};

use crate::fixture;
pub use pods::Mix;

/// `count` instance types of several families, sizes and architectures in three zones, spot and on-demand,
/// about a tenth of the offerings unavailable.
pub fn instance_types(count: usize, rng: &mut Rng) -> Vec<Arc<InstanceType>> {
    let sizes = [1u32, 2, 4, 8, 16, 32, 48, 64, 96];
    let mut lines = String::new();
    for index in 0..count {
        let cpu = sizes[index % sizes.len()];
        let family = index / sizes.len();
        let (memory, letter) = [(2, 'c'), (4, 'm'), (8, 'r')][family % 3];
        let arch = if family % 5 == 4 { "arm64" } else { "amd64" };
        // Thousandths of a dollar per hour: by size, with a premium that differs by family.
        let price = u64::from(cpu) * 42 + u64::from(cpu) * memory * 3 + rng.u64(0..=u64::from(cpu) * 5);
        let pods = (cpu * 15 + 8).min(250);
        let _ = write!(
            lines,
            "type {letter}{family}.{cpu} cpu={cpu} mem={}Gi pods={pods} zones=a,b,c arch={arch} od={}.{:03} spot=0.{:06}",
            u64::from(cpu) * memory,
            price / 1000,
            price % 1000,
            (price * 350).min(999_999),
        );
        lines.push_str(" overhead-cpu=80m overhead-mem=400Mi");
        if rng.u8(0..10) == 0 {
            lines.push_str(" gone=a/spot");
        }
        lines.push('\n');
    }
    lines.push_str("pool all types=*\n");
    let snapshot = fixture::snapshot(&lines);
    snapshot.instance_types.values().next().map(|types| types.to_vec()).unwrap_or_default()
}

/// An empty cluster with two pools, three daemon sets and `pods` pending pods of `mix`.
pub fn pending(pods: usize, types: usize, mix: Mix, seed: u64) -> Snapshot {
    let mut rng = Rng::with_seed(seed);
    let mut snapshot = fixture::snapshot(
        "type placeholder cpu=1 mem=1Gi od=1\n\
         pool general types=* weight=10\n\
         pool team types=* taint=team=a:NoSchedule label=team=a\n\
         daemon logs cpu=100m mem=200Mi tolerate=*\n\
         daemon mesh cpu=50m mem=64Mi tolerate=*\n\
         daemon amd cpu=10m mem=32Mi tolerate=* select=arch=amd64\n",
    );
    let types: Arc<[Arc<InstanceType>]> = instance_types(types, &mut rng).into();
    for list in snapshot.instance_types.values_mut() {
        *list = Arc::clone(&types);
    }
    snapshot.pending =
        (0..pods).map(|index| Arc::new(pods::pod(index, mix, snapshot.now, &mut rng))).collect();
    if mix == Mix::Volumes {
        mount(&mut snapshot, &mut rng);
    }
    snapshot
}

/// Gives every third pod a bound volume.
fn mount(snapshot: &mut Snapshot, rng: &mut Rng) {
    for pod in snapshot.pending.iter_mut().step_by(3) {
        let pod = Arc::make_mut(pod);
        let name = VolumeClaimName::from(format!("data-{}", pod.key.name));
        let zone = ["a", "b", "c"][rng.usize(0..3)];
        let volume = Volume {
            driver: Some("ebs.csi.aws.com".into()),
            alternatives: vec![vec![Expression::new(label::ZONE, Operator::In, &[zone])]],
            ..Volume::default()
        };
        snapshot.volumes.insert((pod.key.namespace.clone(), name.clone()), Arc::new(volume));
        pod.volumes = vec![VolumeClaim { name }];
    }
}

/// Generic pods over `pools` pools of one weight that offer the same types; every tenth pod selects one.
pub fn pools(pools: usize, pods: usize, types: usize, seed: u64) -> Snapshot {
    let mut rng = Rng::with_seed(seed);
    let mut snapshot = pending(pods, types, Mix::Mixed, seed);
    let original = snapshot.pools.clone();
    let Some(types) = snapshot.instance_types.values().next().cloned() else { return snapshot };
    for number in 2..pools {
        let mut pool = (*original[number % original.len()]).clone();
        pool.name = format!("pool-{number:03}").into();
        pool.template.labels.insert("team".into(), format!("t{}", rng.u32(0..20)).into());
        snapshot.instance_types.insert(pool.name.clone(), Arc::clone(&types));
        snapshot.pools.push(Arc::new(pool));
    }
    if pools == 1 {
        snapshot.pools.truncate(1);
        for pod in &mut snapshot.pending {
            Arc::make_mut(pod).node_selector.clear();
        }
    }
    snapshot
}

/// `pods` generic pods of `classes` different sizes.
pub fn classes(classes: usize, pods: usize, types: usize, seed: u64) -> Snapshot {
    let mut snapshot = pending(pods, types, Mix::Generic, seed);
    for (index, pod) in snapshot.pending.iter_mut().enumerate() {
        let class = i64::try_from(index % classes).unwrap_or(0);
        let requests = &mut Arc::make_mut(pod).requests;
        requests.set("cpu", Quantity::from_millis(100 + class % 100 * 19));
        requests.set("memory", Quantity::from_bytes((128 << 20) + class / 100 * (37 << 20)));
    }
    snapshot
}

/// A cluster of `nodes` machines with `bound` pods each, about half full, and `pods` pending ones of `mix`.
pub fn busy(nodes: usize, bound: usize, pods: usize, types: usize, mix: Mix, seed: u64) -> Snapshot {
    let mut snapshot = pending(pods, types, mix, seed);
    let rng = &mut Rng::with_seed(seed);
    let mut lines = String::from(
        "type m.16 cpu=16 mem=64Gi pods=110 zones=a,b,c od=0.7 spot=0.3\npool general types=*\n",
    );
    for index in 0..nodes {
        let zone = ["a", "b", "c"][rng.usize(0..3)];
        let _ = writeln!(lines, "node n{index} pool=general type=m.16 zone={zone} capacity=spot");
        for pod in 0..bound {
            let _ = writeln!(lines, "pod b{index}-{pod} cpu={}m mem=512Mi on=n{index}", rng.u32(1..6) * 100);
        }
    }
    snapshot.nodes = fixture::snapshot(&lines).nodes;
    snapshot
}
