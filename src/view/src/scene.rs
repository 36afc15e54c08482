//! Everything a frame is made of, except for what the user has chosen.

use jiff::Timestamp;
use karpenter_model::Price;

use crate::details::Details;
use crate::history::CostHistory;
use crate::machine::{Machine, machines};
use crate::prices::Prices;
use crate::totals::Totals;
use crate::trouble::Trouble;
use crate::world::World;

/// The input of a frame. The same scene and choice give the same characters.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The cluster.
    pub world: &'a World,
    /// Prices of machines.
    pub prices: &'a Prices,
    /// Cost of the cluster so far.
    pub history: &'a CostHistory,
    /// Troubles, the most important first.
    pub troubles: &'a [Trouble],
    /// Data requested for the page that is open.
    pub details: Option<&'a Details>,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// True if everything has been listed once.
    pub complete: bool,
    /// The time.
    pub now: Timestamp,
}

impl<'a> Scene<'a> {
    /// Returns the cost of all machines per hour, as far as prices are known.
    pub fn cost(&self) -> Price {
        self.totals().price
    }

    /// All machines.
    pub(crate) fn machines(&self) -> Vec<Machine<'a>> {
        machines(self.world, self.prices)
    }

    /// The sums over all machines.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(&self.machines())
    }
}
