//! In-flight nodes that may take more pods, the least loaded first (spec scheduling 12: those with the fewest
//! pods).

use std::cmp::Reverse;

use crate::bits::Bits;
use crate::index::{InFlightIx, Ix};
use crate::interning::InternedMap;
use crate::rules::RuleSetId;

/// Open in-flight nodes by load.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenNodes {
    /// In-flight nodes by their number of pods, which is the index; their count comes first.
    by_load: Vec<(usize, Bits<InFlightIx>)>,
    /// In-flight nodes by their set of requirements.
    by_rules: InternedMap<RuleSetId, Bits<InFlightIx>>,
    /// In-flight nodes by the requirements of the pod that each was opened for.
    by_first: InternedMap<Option<RuleSetId>, Bits<InFlightIx>>,
    /// All of them.
    all: Bits<InFlightIx>,
}

/// Progress of a walk over open in-flight nodes.
#[derive(Debug, Clone)]
pub(crate) enum Walk {
    /// Over all of them.
    All {
        /// Pods of the in-flight nodes it is at.
        load: usize,
        /// The first in-flight node it has not seen.
        number: InFlightIx,
    },
    /// Over these, last first.
    Only(Vec<InFlightIx>),
}

impl Default for Walk {
    fn default() -> Self {
        Self::All { load: 0, number: InFlightIx::new(0) }
    }
}

impl OpenNodes {
    /// In-flight node `number` has `load` pods now; it had one less before, or is new.
    pub(crate) fn loaded(&mut self, number: InFlightIx, load: usize) {
        let before = load.checked_sub(1).and_then(|before| self.by_load.get_mut(before));
        if let Some((count, nodes)) = before.filter(|(_, nodes)| nodes.contains(number)) {
            *count -= 1;
            nodes.remove(number);
        }
        if self.by_load.len() <= load {
            self.by_load.resize_with(load + 1, Default::default);
        }
        let (count, nodes) = &mut self.by_load[load];
        *count += 1;
        nodes.insert(number);
    }

    /// The requirements of in-flight node `number` are `rules` now; they were `before`, or it is new.
    pub(crate) fn narrowed(&mut self, number: InFlightIx, before: Option<RuleSetId>, rules: RuleSetId) {
        if before == Some(rules) {
            return;
        }
        if let Some(nodes) = before.and_then(|before| self.by_rules.get_mut(&before)) {
            nodes.remove(number);
        }
        self.by_rules.entry(rules).or_default().insert(number);
    }

    /// In-flight node `number` is opened for a pod with requirements `rules`.
    pub(crate) fn opened(&mut self, number: InFlightIx, rules: Option<RuleSetId>) {
        self.by_first.entry(rules).or_default().insert(number);
        self.all.insert(number);
    }

    /// Adds the in-flight nodes that were opened for pods with other requirements than `rules` to `nodes`.
    pub(crate) fn add_opened_for_others(&self, rules: Option<RuleSetId>, nodes: &mut Bits<InFlightIx>) {
        match self.by_first.get(&rules) {
            Some(own) => nodes.unite_difference(&self.all, own),
            None => nodes.unite(&self.all),
        }
    }

    /// Adds the in-flight nodes whose requirements are `rules` to `nodes`.
    pub(crate) fn add_alike(&self, rules: RuleSetId, nodes: &mut Bits<InFlightIx>) {
        if let Some(alike) = self.by_rules.get(&rules) {
            nodes.unite(alike);
        }
    }

    /// No in-flight node is open any more.
    pub(crate) fn close_all(&mut self) {
        *self = Self::default();
    }

    /// A walk over those of `nodes` that are open; `load` returns the number of pods of each.
    pub(crate) fn only(&self, nodes: Vec<InFlightIx>, load: impl Fn(InFlightIx) -> usize) -> Walk {
        let is_open =
            |number| self.by_load.get(load(number)).is_some_and(|(_, nodes)| nodes.contains(number));
        let mut nodes: Vec<InFlightIx> = nodes.into_iter().filter(|number| is_open(*number)).collect();
        nodes.sort_by_key(|number| Reverse((load(*number), *number)));
        Walk::Only(nodes)
    }

    /// The next in-flight node of `walk` that is not in `refusing`.
    pub(crate) fn next(&self, walk: &mut Walk, refusing: &Bits<InFlightIx>) -> Option<InFlightIx> {
        let (load, number) = match walk {
            Walk::All { load, number } => (load, number),
            Walk::Only(nodes) => loop {
                let number = nodes.pop()?;
                if !refusing.contains(number) {
                    return Some(number);
                }
            },
        };
        while let Some((count, nodes)) = self.by_load.get(*load) {
            if let Some(next) = (*count > 0).then(|| nodes.next_without(refusing, *number)).flatten() {
                *number = next.next();
                return Some(next);
            }
            (*load, *number) = (*load + 1, InFlightIx::new(0));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_come_by_load_and_number_without_those_that_refuse() {
        let mut open = OpenNodes::default();
        for (number, pods) in [(3, 2), (70, 1), (5, 1), (90, 3), (64, 1)] {
            (1..=pods).for_each(|load| open.loaded(InFlightIx::new(number), load));
        }
        let walked = |refusing: &[usize]| {
            let (mut refused, mut walk) = (Bits::default(), Walk::default());
            for number in refusing {
                refused.insert(InFlightIx::new(*number));
            }
            std::iter::from_fn(|| open.next(&mut walk, &refused)).map(Ix::get).collect::<Vec<_>>()
        };
        assert_eq!(walked(&[]), [5, 64, 70, 3, 90]);
        assert_eq!(walked(&[64, 3]), [5, 70, 90]);
        assert_eq!(walked(&[5, 64, 70, 3, 90]), [0; 0]);
        let load = |number: InFlightIx| {
            [(3, 2), (90, 3)].iter().find(|(node, _)| *node == number.get()).map_or(1, |(_, load)| *load)
        };
        let mut only = open.only([90, 3, 7, 5].map(InFlightIx::new).to_vec(), load);
        let mut listed = || open.next(&mut only, &Bits::default()).map(Ix::get);
        assert_eq!(
            [listed(), listed(), listed(), listed()],
            [Some(5), Some(3), Some(90), None],
            "7 is not open"
        );
        open.close_all();
        assert_eq!(open.next(&mut Walk::default(), &Bits::default()), None);
    }
}
