//! Costs of a workload: processor time and memory of the processes of a world, the controller's calls to the account and its
//! writes to the API server. Parts that are no processes of this machine have no figures here.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use nix::unistd::Pid;

use super::figures::Row;
use crate::rights::cluster::{Writes, writes};
use crate::world::{Member, Part, World};

/// `USER_HZ`, what `/proc` counts time in: part of Linux's interface on amd64 and arm64.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time so far of each process.
type Seconds = BTreeMap<(Part, Pid), f64>;

/// Counters at the beginning of a workload.
pub(super) struct Meter<'a> {
    world: &'a World,
    start: Instant,
    seconds: Seconds,
    calls: u64,
    writes: Writes,
}

impl<'a> Meter<'a> {
    /// Reads all counters, and has the kernel forget the peaks of memory.
    pub(super) async fn begin(world: &'a World) -> Result<Self> {
        for Member { id, .. } in world.processes().await {
            // Not every kernel can; the peak is that of the whole run then.
            let _kept = std::fs::write(format!("/proc/{id}/clear_refs"), "5");
        }
        Ok(Self {
            world,
            start: Instant::now(),
            seconds: processor_seconds(world).await,
            calls: world.calls_of_controller().await?,
            writes: writes_so_far(world)?,
        })
    }

    /// Returns the usage since the beginning; `nodes` is the number launched meanwhile.
    pub(super) async fn end(self, nodes: usize) -> Result<Row> {
        let mut row = Row::new();
        let mut note = |name: &str, value: f64| row.insert(name.to_owned(), value);
        note("nodes_launched", count(nodes));
        let used = used(&self.seconds, &processor_seconds(self.world).await);
        let all: f64 = used.values().sum();
        for (part, seconds) in &used {
            note(&format!("share_{}", part.name()), seconds / all.max(f64::MIN_POSITIVE));
        }
        if let Some(seconds) = used.get(&Part::Controller) {
            note("controller_cpu_seconds", *seconds);
        }
        note("machine_busy_cores", all / self.start.elapsed().as_secs_f64());
        for Member { part, id, .. } in self.world.processes().await {
            if part == Part::Controller
                && let Some(peak) = peak_mib(id)
            {
                note("controller_peak_mib", peak);
            }
        }
        let per_node = |total: u64| count(total) / count(nodes.max(1));
        note("aws_calls_per_node", per_node(self.world.calls_of_controller().await? - self.calls));
        let now = writes_so_far(self.world)?;
        note("writes_per_node", per_node(now.objects - self.writes.objects));
        note("events_per_node", per_node(now.events - self.writes.events));
        Ok(row)
    }
}

/// Counts are small enough for a float to be exact.
pub(super) fn count(number: impl TryInto<u32>) -> f64 {
    f64::from(number.try_into().unwrap_or(u32::MAX))
}

fn writes_so_far(world: &World) -> Result<Writes> {
    world.audit_log().map_or_else(|| Ok(Writes::default()), |log| writes(&log))
}

/// User and system time of each process so far.
async fn processor_seconds(world: &World) -> Seconds {
    let members = world.processes().await.into_iter();
    members.map(|one| ((one.part, one.id), seconds_of(one.id).unwrap_or_default())).collect()
}

/// Returns the processor time of each part between two looks. A process that started in between counts from its start: a
/// controller that lost its Lease is another one afterwards. The usage of a process that has ended since is not known.
fn used(before: &Seconds, now: &Seconds) -> BTreeMap<Part, f64> {
    let mut used = BTreeMap::new();
    for (process, seconds) in now {
        *used.entry(process.0).or_default() += seconds - before.get(process).unwrap_or(&0.0);
    }
    used
}

/// Seconds of a process from `/proc/ID/stat` (`proc_pid_stat(5)`): fields 14 and 15, counted from behind the name, which may
/// have spaces in it.
fn seconds_of(id: Pid) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let [user, system]: [u32; 2] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    Some((f64::from(user) + f64::from(system)) / TICKS_PER_SECOND)
}

/// The most memory that was resident at once, from `/proc/ID/status` (`proc_pid_status(5)`).
fn peak_mib(id: Pid) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kib) / 1024.0)
}

/// Figures are made from the kernel's data about this very process.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_started_again_counts_from_its_start() {
        let of = |id, seconds| ((Part::Controller, Pid::from_raw(id)), seconds);
        let account = ((Part::Account, Pid::from_raw(9)), 3.0);
        let (before, now) = (Seconds::from([of(1, 12.0), account]), Seconds::from([of(2, 2.0), account]));
        assert_eq!(used(&before, &now), BTreeMap::from([(Part::Controller, 2.0), (Part::Account, 0.0)]));
    }

    #[test]
    fn a_process_has_used_time_and_memory() {
        let start = Instant::now();
        let before = seconds_of(Pid::this()).unwrap();
        while seconds_of(Pid::this()).unwrap() <= before {
            assert!(start.elapsed().as_secs() < 60, "processor time stands still");
        }
        assert!(peak_mib(Pid::this()).unwrap() > 1.0);
        assert_eq!(seconds_of(Pid::from_raw(i32::MAX)), None);
    }
}
