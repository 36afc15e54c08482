//! Zones the cluster is shifted away from, by hand or by AWS (spec aws-provider 11).
//!
//! Every answer replaces what was known, so a shift that is cancelled is over with the next one. While there is no
//! answer, shifts stay until the end they were given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_aws_api::id::{Arn, ZoneId};
use karpenter_aws_api::shift::{self, Shift};
use karpenter_aws_api::{Kind, Result};
use karpenter_model::Clock;
use parking_lot::Mutex;

/// Known zonal shifts.
pub struct ZonalShifts {
    shifts: Arc<dyn shift::ZonalShifts>,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The last answer; `None` before the first.
    shifts: Option<Vec<Shift>>,
    /// Zones as they were reported last.
    told: BTreeSet<ZoneId>,
}

/// Changes since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Zones the cluster is shifted away from, and was not before; until when, if that is known.
    pub begun: BTreeMap<ZoneId, Option<Timestamp>>,
    /// Zones it is no longer shifted away from.
    pub ended: BTreeSet<ZoneId>,
}

impl ZonalShifts {
    /// Creates it with nothing known, which reads as no shift.
    pub fn new(shifts: Arc<dyn shift::ZonalShifts>, clock: Arc<dyn Clock>) -> Self {
        Self { shifts, clock, inner: Mutex::default() }
    }

    /// The zones to stay away from now.
    pub fn away(&self) -> BTreeSet<ZoneId> {
        self.inner.lock().zones(self.clock.now()).into_keys().collect()
    }

    /// Returns whether there has been any answer. Until then it is unknown whether there is a shift.
    pub fn known(&self) -> bool {
        self.inner.lock().shifts.is_some()
    }

    /// Asks for the shifts of a cluster.
    ///
    /// # Errors
    /// When there is no answer; what is known stays, until it ends by itself. When the cluster is not registered for
    /// zonal shifts: then nothing is shifted.
    pub async fn refresh(&self, cluster: &Arn) -> Result<()> {
        let answer = self.shifts.shifts(cluster).await;
        let mut inner = self.inner.lock();
        match answer {
            Ok(shifts) => inner.shifts = Some(shifts),
            Err(error) => {
                // A cluster that is not registered has no shifts, which is an answer; the caller still learns
                // about it.
                if error.kind == Kind::NotFound {
                    inner.shifts = Some(Vec::new());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the changes since the last call, for a caller that reports them now: each change is returned once.
    pub fn take_changes(&self) -> Changes {
        self.inner.lock().take_changes(self.clock.now())
    }
}

impl Inner {
    /// Zones with an active shift, and when the last of their shifts ends.
    fn zones(&self, now: Timestamp) -> BTreeMap<ZoneId, Option<Timestamp>> {
        let mut zones = BTreeMap::new();
        for shift in self.shifts.iter().flatten().filter(|shift| shift.is_active(now)) {
            let until = zones.entry(shift.away_from.clone()).or_insert(shift.expires);
            // One shift without an end leaves the zone without one.
            *until = until.zip(shift.expires).map(|(one, other)| one.max(other));
        }
        zones
    }

    fn take_changes(&mut self, now: Timestamp) -> Changes {
        let mut begun = self.zones(now);
        let zones: BTreeSet<ZoneId> = begun.keys().cloned().collect();
        let ended = self.told.difference(&zones).cloned().collect();
        begun.retain(|zone, _| !self.told.contains(zone));
        self.told = zones;
        Changes { begun, ended }
    }
}

impl std::fmt::Debug for ZonalShifts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZonalShifts").field("shifts", &self.inner.lock().shifts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
