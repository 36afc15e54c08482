//! Free addresses per subnet, corrected for launches EC2 has not counted yet (spec aws-provider 7.1).
//!
//! EC2's count lags behind launches by minutes. Each launch therefore charges the subnet it may use with the
//! pods of the smallest node it may become, and gives back what it did not use. A fresh count replaces all.

use std::collections::BTreeMap;

use karpenter_aws_api::id::SubnetId;
use parking_lot::Mutex;

/// The book of free addresses.
#[derive(Debug, Default)]
pub struct Addresses {
    book: Mutex<BTreeMap<SubnetId, Count>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Free addresses in the last answer of EC2.
    described: u32,
    /// Number of counts by EC2: separates a charge of an older count from one of the present.
    round: u64,
    /// Free addresses after launches in flight, when there are any.
    adjusted: Option<u32>,
    /// Count of EC2 at the time it refused a launch: its count lags behind, so as many or fewer are none.
    refused_at: Option<u32>,
}

/// A charge against one subnet, to be given back if the launch did not use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    subnet: SubnetId,
    addresses: u32,
    round: u64,
}

impl Charge {
    /// The charged subnet.
    pub fn subnet(&self) -> &SubnetId {
        &self.subnet
    }
}

impl Addresses {
    /// Takes over a fresh count; launches up to now are in it. Returns whether addresses have come free since a launch
    /// was refused for lack of them.
    pub fn described(&self, subnet: &SubnetId, free: u32) -> bool {
        let mut book = self.book.lock();
        let count = book.entry(subnet.clone()).or_default();
        let recovered = count.refused_at.is_some_and(|before| free > before);
        let refused_at = count.refused_at.filter(|_| !recovered).map(|before| before.min(free));
        *count = Count { described: free, round: count.round + 1, adjusted: None, refused_at };
        recovered
    }

    /// Addresses believed free; 0 for a subnet nothing is known about.
    pub fn free(&self, subnet: &SubnetId) -> u32 {
        let book = self.book.lock();
        book.get(subnet).map_or(0, |count| count.adjusted.unwrap_or(count.described))
    }

    /// Takes addresses for a launch.
    pub fn charge(&self, subnet: &SubnetId, addresses: u32) -> Charge {
        let mut book = self.book.lock();
        let count = book.entry(subnet.clone()).or_default();
        let free = count.adjusted.unwrap_or(count.described);
        count.adjusted = Some(free.saturating_sub(addresses));
        // Give back no more than was taken.
        Charge { subnet: subnet.clone(), addresses: addresses.min(free), round: count.round }
    }

    /// Gives back a charge, unless a fresh count has replaced it already.
    pub fn give_back(&self, charge: &Charge) {
        let mut book = self.book.lock();
        if let Some(count) = book.get_mut(&charge.subnet).filter(|count| count.round == charge.round)
            && let Some(adjusted) = count.adjusted.as_mut()
        {
            *adjusted = adjusted.saturating_add(charge.addresses);
        }
    }

    /// EC2 refused a launch for lack of addresses: there are none until the subnet is described again. How long the refusal
    /// outlasts descriptions is recorded by [`Unavailable`](crate::market::unavailable::Unavailable).
    pub fn exhausted(&self, subnet: &SubnetId) {
        let mut book = self.book.lock();
        let count = book.entry(subnet.clone()).or_default();
        let refused_at = count.refused_at.or(Some(count.described));
        // A round of its own: charges of launches under way must not be given back to a subnet that has none.
        *count = Count { described: 0, round: count.round + 1, adjusted: None, refused_at };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet() -> SubnetId {
        "subnet-a".into()
    }

    #[test]
    fn launches_in_flight_are_counted_until_the_next_description() {
        let addresses = Addresses::default();
        assert_eq!(addresses.free(&subnet()), 0);
        addresses.described(&subnet(), 100);
        let charge = addresses.charge(&subnet(), 30);
        addresses.charge(&subnet(), 10);
        assert_eq!(addresses.free(&subnet()), 60);
        addresses.give_back(&charge);
        assert_eq!(addresses.free(&subnet()), 90);
        addresses.described(&subnet(), 95);
        assert_eq!(addresses.free(&subnet()), 95);
    }

    #[test]
    fn a_refused_subnet_has_recovered_when_ec2_counts_more_than_it_did_then() {
        let addresses = Addresses::default();
        assert!(!addresses.described(&subnet(), 12));
        for _ in 0..2 {
            // Launches that fail together are one refusal.
            addresses.exhausted(&subnet());
        }
        assert!(!addresses.described(&subnet(), 12), "the count lags behind");
        assert!(!addresses.described(&subnet(), 0));
        assert!(addresses.described(&subnet(), 3), "machines have gone");
        assert!(!addresses.described(&subnet(), 100), "said once");
    }

    #[test]
    fn a_charge_older_than_the_count_is_not_given_back() {
        let addresses = Addresses::default();
        addresses.described(&subnet(), 100);
        let charge = addresses.charge(&subnet(), 30);
        addresses.described(&subnet(), 80);
        addresses.give_back(&charge);
        assert_eq!(addresses.free(&subnet()), 80);
    }

    #[test]
    fn an_exhausted_subnet_has_nothing_and_a_refund_never_exceeds_the_charge() {
        let addresses = Addresses::default();
        addresses.described(&subnet(), 10);
        let charge = addresses.charge(&subnet(), 30);
        assert_eq!(addresses.free(&subnet()), 0);
        addresses.give_back(&charge);
        assert_eq!(addresses.free(&subnet()), 10);
        addresses.exhausted(&subnet());
        assert_eq!(addresses.free(&subnet()), 0);
    }
}
