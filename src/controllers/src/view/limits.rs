//! Room under the limits of pools.
//!
//! The rule is that of the planner and of the audit: what a pool has counts without the machines a command takes away,
//! from the moment it begins to create what takes their place. A pool at its limit can so replace its machines, and
//! holds one more for each until the old one is gone. Only pools with a fixed number of nodes have to have room for
//! both: they count whatever exists.

use karpenter_cluster::Reservations;
use karpenter_model::resources;
use karpenter_model::{Claim, ClaimName, Pool, PoolName, Resources};

use super::View;

impl View {
    /// Takes room for one node of a pool, to be given back by [`View::release_node`] once the node counts by itself
    /// or will not come. Refused with the resources that are used up.
    pub(crate) fn reserve_node(&self, pool: &Pool) -> Result<(), Resources> {
        let inner = &mut *self.lock();
        let (name, fixed) = (&pool.name, pool.replicas.is_some());
        let going = (!fixed).then_some(&inner.replacing).into_iter().flatten();
        let (used, staying) = inner.cluster.usage(name, going);
        let exceeded = pool.beyond_limits(&used);
        if !exceeded.is_empty() {
            return Err(exceeded);
        }
        let existing = if fixed {
            // The limit of a pool with a fixed number of nodes also holds while some of them are leaving.
            inner.cluster.all::<Claim>().filter(|known| known.model.pool.as_ref() == Some(name)).count()
        } else {
            staying
        };
        // Claims that cannot be decoded have machines as well.
        let existing = existing + inner.undecoded_of(name);
        let existing = u64::try_from(existing).unwrap_or(u64::MAX);
        if inner.reservations.reserve(name, pool.nodes_max(), existing, 1) == 1 {
            return Ok(());
        }
        Err(Resources::new().with(resources::NODES, used.amount(resources::NODES)))
    }

    /// Gives room back.
    pub(crate) fn release_node(&self, pool: &PoolName) {
        self.lock().reservations.release(pool, 1);
    }

    /// Excludes replacements of `claims` from limits until the returned guard is dropped.
    pub fn replacing(&self, claims: impl IntoIterator<Item = ClaimName>) -> Replacing<'_> {
        let claims: Vec<ClaimName> = claims.into_iter().collect();
        self.lock().replacing.extend(claims.iter().cloned());
        Replacing { view: self, claims }
    }
}

/// Machines that are being replaced. A machine is in one command at most.
pub struct Replacing<'v> {
    view: &'v View,
    claims: Vec<ClaimName>,
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        let mut inner = self.view.lock();
        for claim in &self.claims {
            inner.replacing.remove(claim);
        }
    }
}

/// Outstanding grants, for the view.
pub(super) type Granted = Reservations;
