//! Room under a node limit, granted before claims are created (spec scheduling 27.5, last rule).
//!
//! Several reconciles may need nodes of one pool at once. Each is granted only what the limit leaves after the
//! nodes that exist and those already granted; a grant is given back when its claim has been created, or could not
//! be.

use std::collections::BTreeMap;

use karpenter_model::PoolName;

/// Grants that have not been given back, per pool.
#[derive(Debug, Clone, Default)]
pub struct Reservations(BTreeMap<PoolName, u64>);

impl Reservations {
    /// Grants up to `wanted` nodes under `limit`, given that many `existing` ones.
    pub fn reserve(&mut self, pool: &PoolName, limit: u64, existing: u64, wanted: u64) -> u64 {
        let reserved = self.reserved(pool);
        let granted = wanted.min(limit.saturating_sub(existing).saturating_sub(reserved));
        if granted > 0 {
            self.0.insert(pool.clone(), reserved + granted);
        }
        granted
    }

    /// Gives grants back.
    pub fn release(&mut self, pool: &PoolName, count: u64) {
        let left = self.reserved(pool).saturating_sub(count);
        if left == 0 {
            self.0.remove(pool);
        } else {
            self.0.insert(pool.clone(), left);
        }
    }

    /// Grants outstanding for a pool.
    pub fn reserved(&self, pool: &PoolName) -> u64 {
        self.0.get(pool).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_grants_beyond_the_limit_whatever_the_order() {
        // (limit, existing, wishes) and what each wish is granted.
        let table = [
            (10, 0, [4, 4, 4], [4, 4, 2]),
            (10, 9, [4, 1, 1], [1, 0, 0]),
            (10, 12, [1, 1, 1], [0, 0, 0]),
            (0, 0, [1, 1, 1], [0, 0, 0]),
        ];
        for (limit, existing, wishes, grants) in table {
            let mut reservations = Reservations::default();
            let granted = wishes.map(|wanted| reservations.reserve(&"web".into(), limit, existing, wanted));
            assert_eq!(granted, grants, "limit {limit}, existing {existing}");
        }
    }

    #[test]
    fn released_room_is_granted_again() {
        let pool: PoolName = "web".into();
        let mut reservations = Reservations::default();
        assert_eq!(reservations.reserve(&pool, 3, 0, 3), 3);
        reservations.release(&pool, 2);
        assert_eq!(reservations.reserve(&pool, 3, 1, 3), 1);
        reservations.release(&pool, 99);
        assert_eq!(reservations.reserved(&pool), 0);
    }
}
