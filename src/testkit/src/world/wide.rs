//! Thirty applications of many sizes, spread over zones, some over hosts or apart: the load `wide` of the end-to-end harness, as
//! a list of applications and as a world.

use std::fmt::Write;

use karpenter_model::Snapshot;

use super::corpus::families;
use crate::fixture;

/// The CPU and memory of a pod of each application, in thousandths of a CPU and MiB. Neither follows the other.
const SIZES: ([u32; 15], [u32; 15]) = (
    [225, 300, 400, 500, 650, 800, 1000, 1250, 1500, 2000, 2400, 2800, 3200, 3500, 3800],
    [300, 500, 800, 1200, 2000, 3000, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536],
);

/// An application, whose pods spread over zones with a skew of one.
#[derive(Debug, Clone)]
pub struct App {
    /// Name of the application, and value of the label `app` of its pods.
    pub name: String,
    pub replicas: usize,
    /// Requested thousandths of a CPU.
    pub cpu_millis: u32,
    /// Requested MiB of memory.
    pub memory_mib: u32,
    pub on_hosts: OnHosts,
}

/// Rule about pods of one application on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHosts {
    Any,
    /// No two pods share a host.
    Apart,
    /// Pods spread over hosts with a skew of one.
    Spread,
}

/// Returns the applications.
pub fn apps() -> impl Iterator<Item = App> {
    (0..30).map(|number| App {
        name: format!("app-{number:02}"),
        replicas: 30 + number % 6,
        cpu_millis: SIZES.0[number * 7 % 15],
        memory_mib: SIZES.1[(number * 4 + number / 15) % 15],
        on_hosts: match number % 10 {
            3 => OnHosts::Apart,
            6 => OnHosts::Spread,
            _ => OnHosts::Any,
        },
    })
}

/// Returns an empty cluster in which the pods of all applications wait, and whose nodes may all be disrupted at once.
pub fn wide() -> Snapshot {
    let mut lines = families() + "pool wide types=* consolidate=30s budget=100%\n";
    for app in apps() {
        let App { name, replicas, cpu_millis, memory_mib, on_hosts } = app;
        let rule = match on_hosts {
            OnHosts::Any => "",
            OnHosts::Apart => " anti-affinity=host",
            OnHosts::Spread => " spread=host/1",
        };
        let _ = writeln!(
            lines,
            "pod {name}-{{1..{replicas}}} cpu={cpu_millis}m mem={memory_mib}Mi label=app={name} of={name} \
             spread=zone/1{rule}"
        );
    }
    fixture::snapshot(&lines)
}
