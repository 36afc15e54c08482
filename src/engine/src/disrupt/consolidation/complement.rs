//! Nodes that complement each other: pods that need much memory fit where pods that need much processor leave
//! memory free. Only an order in which to try things; whether they fit is decided elsewhere.

use karpenter_model::resources;

use crate::disrupt::candidate::Candidate;

/// Processor and memory that pods request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResourceMix {
    cpu: i128,
    memory: i128,
}

impl ResourceMix {
    /// The pods of `candidates` together.
    pub(crate) fn of(candidates: &[Candidate<'_>]) -> Self {
        let pods = candidates.iter().flat_map(Candidate::moving);
        pods.fold(Self::default(), |sum, pod| Self {
            cpu: sum.cpu + pod.requests.amount(resources::CPU).nanos(),
            memory: sum.memory + pod.requests.amount(resources::MEMORY).nanos(),
        })
    }

    /// `others`, those first that lean most to the other side than this one; equals stay in their order.
    pub(crate) fn best_matches<'c, 'a: 'c>(
        self,
        others: impl Iterator<Item = &'c Candidate<'a>>,
    ) -> Vec<&'c Candidate<'a>> {
        let mut matches: Vec<(&Candidate<'a>, Self)> =
            others.map(|other| (other, Self::of(std::slice::from_ref(other)))).collect();
        let all = matches
            .iter()
            .fold(self, |sum, (_, mix)| Self { cpu: sum.cpu + mix.cpu, memory: sum.memory + mix.memory });
        let own = self.lean(all);
        // A set that leans to neither side has the sign zero, which leaves the others in their order.
        matches.sort_by_cached_key(|(_, mix)| mix.lean(all) * own.signum());
        matches.into_iter().map(|(other, _)| other).collect()
    }

    /// Towards processor (positive) or memory (negative), compared with `all`, in thousandths of what it asks for.
    fn lean(self, all: Self) -> i128 {
        let share =
            |part: i128, whole: i128| if whole > 0 { part.saturating_mul(1 << 20) / whole } else { 0 };
        let (cpu, memory) = (share(self.cpu, all.cpu), share(self.memory, all.memory));
        if cpu + memory == 0 { 0 } else { (cpu - memory) * 1_000 / (cpu + memory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leans_the_other_way_is_told_by_its_sign() {
        let all = ResourceMix { cpu: 10, memory: 10 };
        let lean = |cpu, memory| ResourceMix { cpu, memory }.lean(all);
        assert_eq!(lean(5, 5), 0);
        assert!(lean(5, 1) > lean(4, 2) && lean(4, 2) > 0);
        assert_eq!(lean(1, 5), -lean(5, 1));
        assert_eq!(lean(0, 0), 0);
    }
}
