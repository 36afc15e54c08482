//! Watches how much memory the process holds and says so before the container is killed for it.
//!
//! The reference hands the limit to its garbage collector. There is none here: memory is what the cluster takes, so
//! the one thing to do about a limit that is too low is to raise it, which the operator has to do.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Time between two looks at the memory.
const PERIOD: Duration = Duration::from_secs(30);

/// Share of the limit at which a warning is logged, in percent.
const LOUD_PERCENT: u64 = 90;

/// Watches until `shutdown`; without a limit there is nothing to watch.
pub async fn watch(limit_bytes: Option<u64>, shutdown: CancellationToken) {
    let Some(limit) = limit_bytes else { return shutdown.cancelled().await };
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Some(resident) =
            std::fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text))
        else {
            continue;
        };
        let near = is_near(resident, limit);
        if near && !told {
            tracing::warn!(
                resident,
                limit,
                "memory is nearly used up; raise the memory limit of the container"
            );
        }
        told = near;
    }
}

/// Resident bytes, from the text of `/proc/self/status`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn is_near(resident: u64, limit: u64) -> bool {
    u128::from(resident) * 100 >= u128::from(limit) * u128::from(LOUD_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        let status = "Name:\tkarpenter\nVmHWM:\t  9000 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        assert_eq!(resident(status), Some(1 << 20));
        assert_eq!(resident("Name:\tkarpenter\n"), None);
    }

    #[test]
    fn ninety_percent_is_near() {
        assert!(is_near(90, 100) && is_near(1000, 100));
        assert!(!is_near(89, 100));
        assert!(!is_near(u64::MAX / 2, u64::MAX));
    }
}
