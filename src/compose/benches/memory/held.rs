//! What the process holds.

/// Memory of the process, in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) anonymous: u64,
    pub(crate) resident: u64,
}

pub(crate) fn held() -> Held {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    Held { anonymous: mib("RssAnon:"), resident: mib("VmRSS:") }
}

pub(crate) fn row(name: &str, held: Held) {
    println!("{name:<44} {:>9} {:>9}", held.anonymous, held.resident);
}
