//! Memory of the process, on systems that report it.

use std::fs;

/// MiB held now; zero where that is not known.
pub(crate) fn held() -> u64 {
    status("VmRSS:")
}

/// The most MiB held since [`forget_peak`]; zero where that is not known.
pub(crate) fn peak() -> u64 {
    status("VmHWM:")
}

/// Lets the peak start again from what is held now, where the system can.
pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib / 1024
}
