//! Zones that a cluster is to stay away from, by hand or because AWS found them impaired (spec aws-provider 11).

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::Result;
use crate::id::{Arn, ZoneId};

/// The zonal-shift calls of this product.
#[async_trait]
pub trait ZonalShifts: Send + Sync + Debug {
    /// `GetManagedResource`: the shifts of a resource that are in force or were asked for. A resource that was never
    /// registered for zonal shifts is [`crate::Kind::NotFound`].
    async fn shifts(&self, resource: &Arn) -> Result<Vec<Shift>>;
}

/// A shift of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The zone to stay away from.
    pub away_from: ZoneId,
    /// Shift is in force; another one may take precedence.
    pub applied: bool,
    /// Time at which it ends by itself; absent for those that AWS starts and ends.
    pub expires: Option<Timestamp>,
}

impl Shift {
    /// Returns whether it counts at this instant.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.applied && self.expires.is_none_or(|expires| expires > now)
    }
}
