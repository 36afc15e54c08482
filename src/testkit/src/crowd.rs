//! Worlds without machines in which pods that need CPU meet pods that need memory, some of them with wishes of their
//! own, in pools with and without limits.

use std::fmt::Write;

use fastrand::Rng;
use karpenter_model::Snapshot;

use crate::fixture;

/// The world number `seed`: up to 120 pods. Half of the worlds have limits, most of which some plans meet and others
/// do not.
pub fn crowd(seed: u64) -> Snapshot {
    fixture::snapshot(&text(seed))
}

fn text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed);
    let mut text = String::new();
    for (letter, memory, price) in [('c', 2, 42), ('m', 4, 48), ('r', 8, 63)] {
        for cpu in [2, 4, 8, 16] {
            let price = cpu * price + rng.u32(0..20);
            let _ = writeln!(
                text,
                "type {letter}.{cpu} cpu={cpu} mem={}Gi pods={} zones=a,b od=0.{price:04} spot=0.{:04} \
                 overhead-cpu=80m",
                cpu * memory,
                cpu * 8,
                price / 3,
            );
        }
    }
    let mut limits = String::new();
    if rng.bool() {
        let _ = write!(limits, " limit=cpu={}", rng.u32(10..90));
    }
    for limit in [format!(" limit=nodes={}", rng.u32(2..9)), format!(" limit=memory={}Gi", rng.u32(50..400))]
    {
        if !limits.is_empty() && rng.u8(0..3) == 0 {
            limits += &limit;
        }
    }
    let _ = writeln!(text, "pool web types=*{limits}\npool rest types=* weight={}", rng.u8(0..3));
    text.push_str("daemon logs cpu=100m mem=200Mi\n");
    for group in 0..rng.usize(2..6) {
        let (cpu, memory) = if group % 2 == 0 { (rng.u32(5..20), 5) } else { (2, rng.u32(20..80)) };
        let wish = ["", "", "", " select=capacity=on-demand", " select=zone=a", " spread=zone/1"];
        let wish = wish[rng.usize(0..wish.len())];
        let pool = ["", " select=pool=web"][usize::from(!limits.is_empty())];
        let _ = writeln!(
            text,
            "pod g{group}-{{1..{}}} cpu={}m mem={}Mi label=app=g{group}{wish}{pool}",
            rng.usize(2..25),
            cpu * 100,
            memory * 100,
        );
    }
    text
}
