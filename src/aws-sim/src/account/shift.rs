//! Zonal shifts of the account's clusters.

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::id::{Arn, ZoneId};
use karpenter_aws_api::shift::{Shift, ZonalShifts};
use karpenter_aws_api::{Error, Result};

use super::Account;

/// Actions of people and AWS on impaired zones.
impl Account {
    /// Registers a cluster for zonal shifts; `false` when there is no such cluster.
    pub fn register_for_zonal_shifts(&self, cluster: &str) -> bool {
        self.truth(|state, _| {
            let found = state.clusters.clusters.get_mut(cluster);
            found.map(|entry| entry.cluster.zonal_shift = Some(true)).is_some()
        })
    }

    /// Shifts every registered cluster away from a zone, until an instant or until it is cancelled.
    pub fn shift_away(&self, zone: &ZoneId, until: Option<Timestamp>) {
        let shift = Shift { away_from: zone.clone(), applied: true, expires: until };
        self.truth(|state, _| state.shifts.push(shift));
    }

    /// Cancels the shifts away from a zone.
    pub fn cancel_shift(&self, zone: &ZoneId) {
        self.truth(|state, _| state.shifts.retain(|shift| shift.away_from != *zone));
    }
}

#[async_trait]
impl ZonalShifts for Account {
    async fn shifts(&self, resource: &Arn) -> Result<Vec<Shift>> {
        self.call("GetManagedResource", resource.as_str(), |state, now| {
            let mut clusters = state.clusters.clusters.values().map(|entry| &entry.cluster);
            if !clusters.any(|cluster| cluster.arn == *resource && cluster.zonal_shift == Some(true)) {
                let text = format!("The resource {resource} is not managed by zonal shift.");
                let code = "ResourceNotFoundException";
                return Err(Error::answered("GetManagedResource", resource.as_str(), code, text));
            }
            // AWS lists what is in force; what is over is no longer there.
            Ok(state.shifts.iter().filter(|shift| shift.is_active(now)).cloned().collect())
        })
        .await
    }
}
