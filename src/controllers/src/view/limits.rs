//! Room under the limits of pools, and claims that have just been created.

use karpenter_api::NodeClaim;
use karpenter_cluster::Reservations;
use karpenter_model::{PodKey, PoolName, Resources, resources};

use super::View;
use super::feed::version;
use crate::read;

impl View {
    /// Takes room for one node of a pool, to be given back by [`View::release_node`] once the node counts by itself
    /// or will not come. Refused with the resources that are used up.
    pub fn reserve_node(&self, pool: &PoolName, limits: Option<&Resources>) -> Result<(), Resources> {
        let mut inner = self.lock();
        let used = inner.cluster.usage(pool);
        let limits = limits.cloned().unwrap_or_default();
        let exceeded: Vec<_> =
            limits.iter().filter(|(name, limit)| used.amount(name.as_str()) > **limit).collect();
        if !exceeded.is_empty() {
            return Err(exceeded.into_iter().fold(Resources::new(), |all, (name, _)| {
                all.with(name.as_str(), used.amount(name.as_str()))
            }));
        }
        let nodes = limits.iter().find(|(name, _)| name.as_str() == resources::NODES);
        let limit =
            nodes.map_or(u64::MAX, |(_, limit)| u64::try_from(limit.as_units_ceil()).unwrap_or_default());
        let fixed = inner.pools.get(pool.as_str()).is_some_and(|known| known.model.replicas.is_some());
        let existing = if fixed {
            // The limit of a pool with a fixed number of nodes also holds while some of them are leaving.
            inner.claims.iter().filter(|known| known.model.pool.as_ref() == Some(pool)).count()
        } else {
            inner.cluster.machines_of(pool)
        };
        let existing = u64::try_from(existing).unwrap_or(u64::MAX);
        if inner.reservations.reserve(pool, limit, existing, 1) == 1 {
            return Ok(());
        }
        Err(Resources::new().with(resources::NODES, used.amount(resources::NODES)))
    }

    /// Gives room back.
    pub fn release_node(&self, pool: &PoolName) {
        self.lock().reservations.release(pool, 1);
    }

    /// Takes in a claim we have just created, with the pods it is for, before any watch tells of it.
    pub fn created(&self, claim: &NodeClaim, pods: &[PodKey]) {
        let model = read::claim(claim, &self.registry);
        self.lock().cluster.created(version(claim), model, pods.iter().cloned());
        self.put_claim(claim.clone());
    }
}

/// Outstanding grants, for the view.
pub(super) type Granted = Reservations;
