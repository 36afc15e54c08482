//! Small random worlds that reach every rule: a handful of pods, types, pools, nodes and daemons each, with
//! values from short lists so that things collide.

use std::fmt::Write;

use fastrand::Rng;
use karpenter_model::names::label;
use karpenter_model::{Node, NodeName, Quantity, Resources, Snapshot};

use crate::fixture;

/// The world of `seed`; no waiting pod has hard rules about other pods.
pub fn world(seed: u64) -> Snapshot {
    fixture::snapshot(&text(seed))
}

/// The world of `seed` with waiting pods that spread, attract and repel each other.
pub fn social(seed: u64) -> Snapshot {
    fixture::snapshot(&social_text(seed))
}

/// The text of [`social`].
pub fn social_text(seed: u64) -> String {
    let mut text = text(seed);
    let rng = &mut Rng::with_seed(seed);
    for group in 0..rng.usize(1..4) {
        let mut options = format!("cpu={}00m label=app={}", rng.u8(1..12), ["w", "x", "b"][group]);
        some(
            &mut options,
            rng,
            &[
                " spread=zone/1",
                " spread=host/1",
                " spread=zone/2/soft",
                " select=zone=a",
                " spread=zone/1/taints=honor",
                " spread=zone/1/affinity=ignore",
                " spread=zone/1/min=2",
            ],
        );
        some(&mut options, rng, &[" tolerate=x", " select=team=a", " res=gpu=1"]);
        one(&mut options, rng, &["", "", "", " anti-affinity=host", " anti-affinity=zone"]);
        one(
            &mut options,
            rng,
            &["", "", "", " affinity=zone", " affinity=zone/app=w", " affinity=host/app=x"],
        );
        some(&mut options, rng, &[" anti-affinity=zone/app=x", " spread=capacity/1"]);
        let _ = writeln!(text, "pod s{group}-{{1..{}}} {options}", rng.u8(1..6));
    }
    text
}

/// The world of `seed` with pods that mount volumes and types with reserved capacity.
pub fn attached(seed: u64) -> Snapshot {
    fixture::snapshot(&attached_text(seed))
}

/// The text of [`attached`].
pub fn attached_text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed ^ 0x5eed);
    let mut text = String::new();
    if rng.u8(0..5) == 0 {
        text.push_str("set reservations=fallback\n");
    }
    for line in self::text(seed).lines() {
        text.push_str(line);
        if line.starts_with("type ") {
            some(&mut text, rng, &[" reserved=r1/1/a", " reserved=r2/2/b", " reserved=r1/1/b"]);
        }
        if line.starts_with("node ") {
            some(&mut text, rng, &[" attach=d=1", " attach=e=2"]);
        }
        if line.starts_with("pod w") || line.starts_with("pod bound") {
            some(&mut text, rng, &[" volume=v0", " volume=v1", " volume=v2"]);
        }
        text.push('\n');
    }
    for index in 0..3 {
        let _ = write!(text, "volume v{index}");
        one(&mut text, rng, &[" driver=d", " driver=d", " driver=e", ""]);
        one(&mut text, rng, &["", " at=zone:In:a", " at=zone:In:a,b", " at=zone:In:a at=zone:In:b"]);
        one(&mut text, rng, &["", "", "", " at=zone:In:b&gen:In:5", " problem=lost"]);
        text.push('\n');
    }
    let zone = ["a", "b"][rng.usize(0..2)];
    let _ = writeln!(text, "volume own-{{1..4}} driver=d at=zone:In:{zone}");
    for index in 1..=4 {
        let _ = writeln!(text, "pod own-{index} cpu=100m volume=own-{index}");
    }
    text
}

/// The world of `seed` in which sizes are coarse, so that repacking pays, and some types come with reserved capacity.
pub fn coarse(seed: u64) -> Snapshot {
    fixture::snapshot(&coarse_text(seed))
}

/// The text of [`coarse`].
pub fn coarse_text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed ^ 0xc0a5);
    let mut text = String::new();
    if rng.u8(0..3) == 0 {
        text.push_str("set reservations=fallback\n");
    }
    for (name, cpu, price) in [("two", 2, 10), ("four", 4, 19), ("six", 6, 25), ("eight", 8, 39)] {
        let _ = write!(text, "type {name} cpu={cpu} mem={}Gi pods=20 od=0.{price}", cpu * 4);
        one(&mut text, rng, &[" zones=a", " zones=a,b", " zones=a,b"]);
        some(&mut text, rng, &[" reserved=r1/1/a", " reserved=r2/2/a", " reserved=r3/1/b", " spot=0.09"]);
        text.push('\n');
    }
    text.push_str("pool web types=*");
    some(&mut text, rng, &[" require=type:Exists/min=2", " require=capacity:In:on-demand,reserved"]);
    text.push('\n');
    for (name, sizes) in [("big", ["5", "3500m", "3"]), ("small", ["1", "900m", "1500m"])] {
        let _ = write!(text, "pod {name}-{{1..{}}} label=app={name}", rng.u8(1..10));
        let _ = write!(text, " cpu={}", sizes[rng.usize(0..3)]);
        one(&mut text, rng, &["", "", " select=zone=a", " spread=zone/1", " spread=host/2"]);
        text.push('\n');
    }
    text
}

/// Returns the world of `seed` as scenario text, to be pasted into a scenario file.
pub fn text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed);
    let mut text = String::new();
    if rng.u8(0..4) == 0 {
        text.push_str("set min-values=best-effort\n");
    }
    if rng.u8(0..5) == 0 {
        text.push_str("set preferences=ignore\n");
    }
    let types = rng.usize(1..5);
    for index in 0..types {
        instance_type(&mut text, index, rng);
    }
    for index in 0..rng.usize(1..4) {
        pool(&mut text, index, rng);
    }
    for index in 0..rng.usize(0..3) {
        let _ = write!(text, "daemon d{index} cpu={}00m mem=64Mi", rng.u8(1..4));
        some(
            &mut text,
            rng,
            &[" tolerate=*", " select=arch=amd64", " port=80", " require=gen:Gt:4", " select=team=a"],
        );
        text.push('\n');
    }
    for index in 0..rng.usize(0..4) {
        node(&mut text, index, types, rng);
    }
    for index in 0..rng.usize(0..4) {
        let _ = write!(text, "pod bound-{index} cpu=500m mem=256Mi label=app=b");
        some(
            &mut text,
            rng,
            &[" owner=daemonset", " port=80", " do-not-disrupt", " anti-affinity=zone/app=w"],
        );
        some(&mut text, rng, &[" anti-affinity=host/app=w", " deletion-cost=-2147483648"]);
        let nodes = text.lines().filter(|line| line.starts_with("node ")).count();
        let on = if nodes == 0 {
            " nominated=elsewhere".to_owned()
        } else {
            format!(" on=n{}", rng.usize(0..nodes))
        };
        let _ = writeln!(text, "{on}");
    }
    for index in 0..rng.usize(1..9) {
        pod(&mut text, index, rng);
    }
    text
}

/// A node every pod of `snapshot` would fit on, as far as room is concerned.
pub fn roomy_node(snapshot: &Snapshot) -> Node {
    let name = NodeName::from("roomy");
    let amounts = ["cpu", "memory", "pods", "gpu"].map(|name| (name.into(), Quantity::from_units(1 << 40)));
    let room: Resources = amounts.into_iter().collect();
    Node {
        name: Some(name.clone()),
        labels: [(label::HOSTNAME.into(), "roomy".into()), (label::ZONE.into(), "a".into())].into(),
        capacity: room.clone(),
        allocatable: room,
        ready: true,
        ..Node::new(name.into(), snapshot.now)
    }
}

/// Appends each option with a chance of one in three.
fn some(text: &mut String, rng: &mut Rng, options: &[&str]) {
    for option in options {
        if rng.u8(0..3) == 0 {
            text.push_str(option);
        }
    }
}

/// Appends one option.
fn one(text: &mut String, rng: &mut Rng, options: &[&str]) {
    text.push_str(options[rng.usize(0..options.len())]);
}

fn instance_type(text: &mut String, index: usize, rng: &mut Rng) {
    let cpu = [1, 2, 4, 8][rng.usize(0..4)];
    let _ = write!(
        text,
        "type t{index} cpu={cpu} mem={}Gi pods={}",
        cpu * [1, 2, 4][rng.usize(0..3)],
        rng.u8(2..8)
    );
    let _ = write!(text, " od=0.{}", rng.u8(1..5));
    one(text, rng, &[" zones=a", " zones=b", " zones=a,b"]);
    some(
        text,
        rng,
        &[" spot=0.1", " arch=arm64", " gone=a/od", " gone=a/spot", " overhead-cpu=100m", " res=gpu=1"],
    );
    some(text, rng, &[" label=gen=5"]);
    text.push('\n');
}

fn pool(text: &mut String, index: usize, rng: &mut Rng) {
    let _ = write!(text, "pool p{index} weight={}", rng.u8(0..3));
    one(text, rng, &[" types=*", " types=*", " types=t0,t1", ""]);
    some(
        text,
        rng,
        &[" limit=cpu=6", " limit=nodes=1", " limit=pods=10", " label=team=a", " require=team:In:a,b"],
    );
    some(text, rng, &[" taint=x:NoSchedule", " taint=s:PreferNoSchedule", " startup-taint=x:NoSchedule"]);
    some(text, rng, &[" require=zone:In:a", " require=type:Exists/min=2", " require=capacity:In:on-demand"]);
    one(
        text,
        rng,
        &["", "", " not-ready", " replicas=1", " consolidate=never", " consolidate=2h", " budget=1"],
    );
    text.push('\n');
}

fn node(text: &mut String, index: usize, types: usize, rng: &mut Rng) {
    if rng.u8(0..4) == 0 {
        let _ = write!(text, "node n{index} cpu=2 mem=4Gi pods=4 zone=a");
    } else {
        let _ = write!(text, "node n{index} pool=p{} type=t{}", rng.u8(0..3), rng.usize(0..types));
        one(text, rng, &[" zone=a", " zone=b"]);
        one(text, rng, &["", " state=registered", " state=launched", " state=created require=zone:In:a,b"]);
        one(text, rng, &[" capacity=spot", " capacity=on-demand"]);
    }
    some(
        text,
        rng,
        &[" taint=x:NoSchedule", " leaving", " not-ready", " annotation=karpenter.sh/do-not-disrupt=true"],
    );
    some(text, rng, &[" label=team=a", " nominated=20s"]);
    text.push('\n');
}

fn pod(text: &mut String, index: usize, rng: &mut Rng) {
    let _ = write!(text, "pod w{index} label=app=w age={}s", rng.u8(0..3));
    one(text, rng, &[" cpu=100m", " cpu=500m", " cpu=1", " cpu=3", ""]);
    one(text, rng, &[" mem=64Mi", " mem=1Gi", " mem=3Gi", ""]);
    if rng.bool() {
        one(
            text,
            rng,
            &[
                " select=zone=a",
                " select=arch=arm64",
                " select=team=a",
                " select=capacity=spot",
                " res=gpu=1",
            ],
        );
    }
    if rng.u8(0..3) == 0 {
        one(
            text,
            rng,
            &[
                " require=gen:Gt:4",
                " require=zone:NotIn:a",
                " require=team:DoesNotExist",
                " require=team:In:b",
            ],
        );
        some(text, rng, &[" require=zone:In:b", " require=arch:In:amd64&zone:In:a"]);
    }
    some(text, rng, &[" tolerate=x"]);
    if rng.u8(0..3) == 0 {
        some(text, rng, &[" prefer=10:zone:In:b", " prefer=20:capacity:In:spot", " prefer=5:nope:In:x"]);
    }
    if rng.u8(0..4) == 0 {
        one(text, rng, &[" port=80", " port=81", " spread=zone/1/soft", " require=pool:In:p0"]);
    }
    text.push('\n');
}
