//! Memory of the process.

use std::time::{Duration, Instant};

/// Time without a change before memory is read: longer than idle threads live and allocators hold on to pages.
const CALM: Duration = Duration::from_secs(15);

/// Memory of the process, in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) anonymous: u64,
    pub(crate) resident: u64,
    /// The most that was ever resident.
    pub(crate) peak: u64,
}

pub(crate) fn held() -> Held {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    Held { anonymous: mib("RssAnon:"), resident: mib("VmRSS:"), peak: mib("VmHWM:") }
}

pub(crate) fn row(name: &str, held: Held) {
    println!("{name:<44} {:>9} {:>9} {:>9}", held.anonymous, held.resident, held.peak);
}

/// Waits until memory no longer changes, `patience` times [`CALM`] at most, prints it under `name` and returns what is
/// anonymous of it, in MiB.
pub(crate) async fn calm(name: &str, patience: u32) -> u64 {
    let mut last = held();
    let (began, mut since) = (Instant::now(), Instant::now());
    while since.elapsed() < CALM && began.elapsed() < patience * CALM {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = held();
        if now.anonymous.abs_diff(last.anonymous) > 1 {
            since = Instant::now();
            last = now;
        }
    }
    row(name, last);
    last.anonymous
}
