//! Pods a rule is about, by where they are: pods that share a domain with a machine are looked up, not searched for.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{LabelKey, LabelRegistry, LabelValue, Pod, PodKey};

use super::{Origin, Place, Placed};
use crate::world::World;

/// Some pods, and the domains of one key they may be in.
pub(crate) struct Crowd<'p> {
    registry: &'p LabelRegistry,
    key: &'p LabelKey,
    /// Pods that may be on each machine.
    by_machine: BTreeMap<usize, (Place<'p>, Few<'p>)>,
    /// Pods that are on each machine for certain.
    sure: BTreeMap<usize, (Place<'p>, Few<'p>)>,
    /// Pods that may be in each domain.
    by_domain: BTreeMap<LabelValue, Few<'p>>,
    /// Machines that do not name the domains they may be in.
    undecided: Vec<usize>,
    /// Pods that are in each domain for certain; computed when first needed.
    certain: Option<BTreeMap<LabelValue, Few<'p>>>,
    /// Answers by machine: pods that may share a domain with it.
    sharing: BTreeMap<usize, Few<'p>>,
    /// Answers by machine: pods that share its domain, whichever that will be.
    joined: BTreeMap<usize, Few<'p>>,
}

/// The first two of some pods that have different names, by their order: enough to tell the first besides any one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Few<'p>(Vec<(usize, &'p Pod)>);

impl<'p> Few<'p> {
    fn add(&mut self, order: usize, pod: &'p Pod) {
        if let Some(known) = self.0.iter_mut().find(|(_, known)| known.key == pod.key) {
            known.0 = order.min(known.0);
        } else {
            self.0.push((order, pod));
        }
        self.0.sort_by_key(|(order, _)| *order);
        self.0.truncate(2);
    }

    fn add_all(&mut self, others: &Self) {
        for (order, pod) in &others.0 {
            self.add(*order, pod);
        }
    }

    /// The first that is not `own`.
    pub(crate) fn besides(&self, own: &PodKey) -> Option<&'p Pod> {
        self.0.iter().map(|(_, pod)| *pod).find(|pod| pod.key != *own)
    }
}

impl<'p> Crowd<'p> {
    /// `pods` in order, as seen by a rule about `key`.
    pub(crate) fn new<'a: 'p>(
        registry: &'p LabelRegistry,
        key: &'p LabelKey,
        pods: impl Iterator<Item = &'p Placed<'a>>,
    ) -> Self {
        let (mut by_machine, mut sure) = <(BTreeMap<usize, (Place<'p>, Few<'p>)>, BTreeMap<_, _>)>::default();
        for (order, one) in pods.enumerate() {
            let add = |machines: &mut BTreeMap<usize, (Place<'p>, Few<'p>)>| {
                let (_, few) = machines.entry(one.machine).or_insert((one.place, Few::default()));
                few.add(order, one.pod);
            };
            add(&mut by_machine);
            if one.origin != (Origin::Daemon { certain: false }) {
                add(&mut sure);
            }
        }
        let (mut by_domain, mut undecided) = (BTreeMap::<_, Few<'p>>::new(), Vec::new());
        for (machine, (place, few)) in &by_machine {
            let Some(domains) = place.domains(registry, key) else {
                undecided.push(*machine);
                continue;
            };
            for domain in domains {
                by_domain.entry(domain).or_default().add_all(few);
            }
        }
        let (certain, sharing, joined) = Default::default();
        Self { registry, key, by_machine, sure, by_domain, undecided, certain, sharing, joined }
    }

    /// Returns the pods that may be in a domain the machine of `one` may be in.
    pub(crate) fn sharing(&mut self, one: &Placed<'_>) -> &Few<'p> {
        let Self { registry, key, by_machine, by_domain, undecided, sharing, .. } = self;
        sharing.entry(one.machine).or_insert_with(|| {
            let mut found = Few::default();
            let own = one.place.domains(registry, key);
            for machine in undecided.iter() {
                let (other, few) = &by_machine[machine];
                // Two machines of which nothing is known may end up anywhere.
                let may = |own: &BTreeSet<LabelValue>| {
                    own.iter().any(|domain| other.may_be_in(registry, key, domain))
                };
                if own.as_ref().is_none_or(may) {
                    found.add_all(few);
                }
            }
            let Some(own) = own else {
                let allowed =
                    by_domain.iter().filter(|(domain, _)| one.place.may_be_in(registry, key, domain));
                allowed.for_each(|(_, few)| found.add_all(few));
                return found;
            };
            own.iter().filter_map(|domain| by_domain.get(domain)).for_each(|few| found.add_all(few));
            found
        })
    }

    /// Returns the pods that the machine of `one` will be with: both are in one domain for certain, or the machine may be
    /// in several domains and they are in one of them; the planner leaves a choice only when each domain has one.
    pub(crate) fn joined(&mut self, world: &World<'_>, one: &Placed<'_>) -> &Few<'p> {
        if !self.joined.contains_key(&one.machine) {
            let mut found = Few::default();
            if one.place.domains(self.registry, self.key).is_some_and(|domains| domains.len() > 1) {
                found.add_all(self.sharing(one));
            }
            // Whichever domain its machine will be in, what comes with it is in the same.
            let has_domain = one.place.domains(self.registry, self.key).is_none_or(|own| !own.is_empty());
            if let Some((_, few)) = self.sure.get(&one.machine).filter(|_| has_domain) {
                found.add_all(few);
            }
            let own = one.place.only_domain(world, self.key);
            if let Some(few) = own.and_then(|domain| self.certain(world).get(&domain)) {
                found.add_all(few);
            }
            self.joined.insert(one.machine, found);
        }
        &self.joined[&one.machine]
    }

    fn certain(&mut self, world: &World<'_>) -> &BTreeMap<LabelValue, Few<'p>> {
        let Self { key, sure, certain, .. } = self;
        certain.get_or_insert_with(|| {
            let mut certain = BTreeMap::<_, Few<'p>>::new();
            for (place, few) in sure.values() {
                if let Some(domain) = place.only_domain(world, key) {
                    certain.entry(domain).or_default().add_all(few);
                }
            }
            certain
        })
    }
}
