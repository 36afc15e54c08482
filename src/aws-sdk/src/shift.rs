//! Zonal shifts over the SDK.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_arczonalshift::types::{AppliedStatus, AutoshiftAppliedStatus};

use super::call::Call;
use super::convert::instant;
use super::meter::{Meter, measured};
use karpenter_aws_api::Result;
use karpenter_aws_api::id::{Arn, ZoneId};
use karpenter_aws_api::shift::{Shift, ZonalShifts};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_arczonalshift::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_arczonalshift, config, meter))
    }
}

#[async_trait]
impl ZonalShifts for Client {
    async fn shifts(&self, resource: &Arn) -> Result<Vec<Shift>> {
        let call = Call::new("GetManagedResource", resource.as_str());
        let request = self.0.get_managed_resource().resource_identifier(resource.as_str());
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        let zone = |name: String| call.text(name, "awayFrom").map(ZoneId::from);
        let mut shifts = Vec::new();
        for shift in answer.zonal_shifts {
            let expires = instant(Some(&shift.expiry_time));
            shifts.push(Shift {
                away_from: zone(shift.away_from)?,
                applied: shift.applied_status == AppliedStatus::Applied,
                expires: Some(call.field(expires, "expiryTime")?),
            });
        }
        for shift in answer.autoshifts.unwrap_or_default() {
            let applied = shift.applied_status == AutoshiftAppliedStatus::Applied;
            shifts.push(Shift { away_from: zone(shift.away_from)?, applied, expires: None });
        }
        Ok(shifts)
    }
}
