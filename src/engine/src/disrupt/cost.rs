//! Cost and savings of disturbing a node (spec disruption 3.3). Fixed point, no floats.

use std::cmp::Ordering;

use karpenter_model::{Pod, Price};

/// A cost in 1/2^27 of moving an ordinary pod: pod deletion costs and priorities are exact in this unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(i128);

impl Cost {
    /// Disturbing a node costs this even when nothing has to move, so that no ratio divides by zero.
    pub(crate) const BASE: Self = Self(1 << 27);

    /// The cost of disturbing a node that `pods` would have to leave: pods that are not missed (virtual, terminal) do
    /// not count.
    pub(crate) fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let positive = pods.map(|pod| i128::from(pod.eviction_cost().max(0)));
        Self(Self::BASE.0 + positive.sum::<i128>())
    }

    /// Returns whether no pod counts: the node is empty.
    pub(crate) fn is_base(self) -> bool {
        self <= Self::BASE
    }

    /// The amount, in 1/2^27 of a pod.
    pub(crate) const fn units(self) -> i128 {
        self.0
    }
}

/// Orders two nodes by what they cost per disturbance, exactly: more is greater.
pub(crate) fn by_savings((price, cost): (Price, Cost), (other_price, other_cost): (Price, Cost)) -> Ordering {
    let left = i128::from(price.nanos()) * other_cost.units();
    let right = i128::from(other_price.nanos()) * cost.units();
    left.cmp(&right)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::PodKey;

    use super::*;

    fn pod(deletion_cost: i32, priority: Option<i32>) -> Pod {
        let base = Pod::pending(PodKey::new("ns", "a"), "uid", Timestamp::UNIX_EPOCH);
        base.with(|pod| {
            pod.deletion_cost = deletion_cost;
            pod.priority = priority;
        })
    }

    #[test]
    fn ordinary_pods_count_one_and_unloved_ones_nothing() {
        let cost = |pods: &[Pod]| Cost::of(pods.iter());
        assert!(cost(&[]).is_base());
        assert_eq!(cost(&[pod(0, None)]).units(), 2 << 27);
        assert!(
            cost(&[pod(i32::MIN, None), pod(0, Some(-(1 << 30)))]).is_base(),
            "negative costs do not count"
        );
        assert!(cost(&[pod(1, None)]) > cost(&[pod(0, None)]), "deletion cost");
        assert!(cost(&[pod(0, Some(1))]) > cost(&[pod(0, None)]), "priority");
        assert!(cost(&[pod(-1, None)]) < cost(&[pod(0, None)]));
        assert!(!cost(&[pod(-1, None)]).is_base());
    }

    #[test]
    fn savings_are_compared_exactly() {
        let at = |nanos, pods: usize| (Price::from_nanos(nanos), Cost::of(vec![pod(0, None); pods].iter()));
        assert_eq!(by_savings(at(100, 0), at(200, 1)), Ordering::Equal);
        assert_eq!(by_savings(at(100, 0), at(199, 1)), Ordering::Greater);
        assert_eq!(by_savings(at(i64::MAX, 9), at(i64::MAX - 1, 9)), Ordering::Greater);
        assert_eq!(by_savings(at(0, 0), at(0, 5)), Ordering::Equal);
    }
}
