//! Small random clusters with every reason for and against disruption: pools of every policy, budgets with windows,
//! machines that are empty, half empty, full, drifted, busy, protected or terminating.

use std::fmt::Write;

use fastrand::Rng;
use karpenter_model::Snapshot;

use crate::fixture;

/// The cluster of `seed`.
pub fn cluster(seed: u64) -> Snapshot {
    fixture::snapshot(&text(seed))
}

/// The text of [`cluster`].
pub fn text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed ^ 0xd15);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "set {}",
        pick(rng, &["static=on", "spot-to-spot=on", "many-to-many=on", "static=on"])
    );
    let _ =
        writeln!(text, "set second-look=15s{}", pick(rng, &["", " simulations=3", " commands-per-minute=2"]));
    types(&mut text, rng);
    let pools = rng.usize(1..4);
    for index in 0..pools {
        pool(&mut text, index, rng);
    }
    let nodes = rng.usize(2..9);
    for index in 0..nodes {
        node(&mut text, index, pools, rng);
    }
    for index in 0..rng.usize(0..3) {
        let _ = writeln!(text, "pod waits-{index} cpu={}00m mem=256Mi{}", rng.u8(1..30), asks(rng));
    }
    if rng.bool() {
        text.push_str("daemon logs cpu=100m mem=64Mi\n");
    }
    let _ = writeln!(text, "pdb a label=app=a allowed={}", rng.u8(0..2));
    if rng.u8(0..4) == 0 {
        text.push_str("pdb also-a label=app=a\n");
    }
    text
}

fn pick<'t>(rng: &mut Rng, values: &[&'t str]) -> &'t str {
    values[rng.usize(0..values.len())]
}

fn types(text: &mut String, rng: &mut Rng) {
    for (index, cpu) in [1, 2, 4, 8, 16].into_iter().enumerate() {
        let price = 40 * cpu + rng.u32(0..20);
        let gone = pick(rng, &["", "", "", " gone=a/spot", " gone=b/od", " gone=a/od gone=a/spot"]);
        let _ = writeln!(
            text,
            "type t{index} cpu={cpu} mem={}Gi pods=20 zones=a,b od=0.{price:03} spot=0.{:03}{gone}",
            cpu * 4,
            price / 3
        );
    }
}

fn pool(text: &mut String, index: usize, rng: &mut Rng) {
    let _ = write!(text, "pool p{index} types=*");
    if rng.u8(0..6) == 0 {
        let _ = write!(text, " replicas={}", rng.u8(0..4));
    } else {
        text.push_str(pick(rng, &["", " weight=3", " limit=cpu=40", " taint=team=x:NoSchedule"]));
    }
    text.push_str(pick(rng, &["", " policy=balanced", " policy=when-empty", ""]));
    text.push_str(pick(rng, &["", " consolidate=30m", " consolidate=never", ""]));
    text.push_str(pick(rng, &[" budget=100%", " budget=2", " budget=1", " budget=50%", ""]));
    text.push_str(pick(
        rng,
        &[
            "",
            " budget=0@Drifted",
            " budget=1@Empty,Underutilized",
            " budget=0@@0_12_*_*_*/1h",
            " budget=0@@0_11_*_*_*/1h",
            " budget=0@Empty@*/30_*_1_*_1/15m",
        ],
    ));
    text.push('\n');
}

fn node(text: &mut String, index: usize, pools: usize, rng: &mut Rng) {
    let pool = rng.usize(0..pools);
    let size = rng.usize(0..5);
    let zone = pick(rng, &["a", "b"]);
    let capacity = pick(rng, &["spot", "on-demand", "on-demand"]);
    let _ = write!(text, "node n{index} pool=p{pool} type=t{size} zone={zone} capacity={capacity}");
    text.push_str(pick(rng, &["", "", "", " drifted=20m", " drifted=1h grace=1h"]));
    text.push_str(pick(rng, &["", "", "", "", " quiet=10m", " not-ready", " nominated=10s", " leaving"]));
    text.push_str(pick(
        rng,
        &["", "", "", "", "", " state=registered", " annotation=karpenter.sh/do-not-disrupt=true"],
    ));
    text.push('\n');
    let room = 1_u32 << size;
    for number in 0..rng.usize(0..4) {
        let cpu = rng.u32(1..=room * 3);
        let _ = write!(text, "pod b{index}-{number} cpu={cpu}00m mem=128Mi on=n{index}{}", asks(rng));
        text.push_str(pick(
            rng,
            &["", "", "", "", "", " do-not-disrupt", " owner=daemonset", " deletion-cost=-200000000"],
        ));
        text.push('\n');
    }
}

fn asks(rng: &mut Rng) -> &'static str {
    let values = [
        "",
        "",
        "",
        "",
        " label=app=a",
        " select=zone=a",
        " label=app=s spread=zone/1",
        " label=app=h anti-affinity=host",
        " tolerate=team",
        " select=capacity=on-demand",
        " priority=1000000",
    ];
    values[rng.usize(0..values.len())]
}
