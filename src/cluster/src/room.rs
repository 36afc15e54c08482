//! The room that nodes turned out to have, where it is less than their claims announced.
//!
//! The provider forecasts what a type leaves to pods; the kubelet decides. User data, an image or a daemon of the host may
//! keep more back than can be foreseen, and a plan that goes on with the forecast buys the same node for the same pods
//! again (aws#8367). So the room of the youngest node of each node class and instance type is remembered, and plans
//! count on the smaller of the two.
//!
//! If at least two types of a class have been seen, and all of them fall short, the cause is the class and not a type: types
//! not seen yet are then expected to lack the same amount, or the same proportion where that is less. Otherwise each type
//! would be tried in turn.
//!
//! Amounts that are absent, zero or negative are never believed over the cloud: device plugins report zero while they
//! start, and a kubelet that reports nonsense says nothing about the next machine. What was seen of a class is forgotten
//! when the class changes, and with a node that has drifted. It is in memory only: after a restart it is read off the
//! nodes that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{
    Claim, ClaimName, ConditionType, InstanceType, InstanceTypeName, NodeClassRef, NodeObject, Quantity,
    Resources, resources,
};

use crate::promise::Types;

/// Capacity of nodes, by node class.
#[derive(Debug, Default)]
pub(crate) struct Room {
    classes: BTreeMap<NodeClassRef, OfClass>,
    /// Classes whose nodes have shown something new since [`take_news`](Self::take_news).
    news: BTreeSet<NodeClassRef>,
}

#[derive(Debug, Default)]
struct OfClass {
    types: BTreeMap<InstanceTypeName, Seen>,
    /// Claims up to this age have an older version of the class.
    older_until: Option<Timestamp>,
}

#[derive(Debug)]
struct Seen {
    claim: ClaimName,
    created_at: Timestamp,
    /// Resources that its claim announced.
    announced: Resources,
    allocatable: Resources,
}

/// Types that must fall short before the others are expected to.
const ENOUGH_TYPES: usize = 2;

impl OfClass {
    /// Returns how much less a machine of this type has than the `announced`; `None` if nothing is missing.
    fn missing(&self, name: &InstanceTypeName, announced: &Resources) -> Option<Resources> {
        match self.types.get(name) {
            Some(seen) => missing(announced, &seen.allocatable),
            None => self.missing_of_unseen(announced),
        }
    }

    fn missing_of_unseen(&self, announced: &Resources) -> Option<Resources> {
        if self.types.len() < ENOUGH_TYPES {
            return None;
        }
        let less: Resources = announced
            .iter()
            .map(|(name, amount)| {
                let of_type = |seen: &Seen| {
                    let had = seen.announced.amount(name.as_str());
                    let found = seen.allocatable.get(name.as_str()).unwrap_or(had);
                    let less = had.saturating_sub(found).max(Quantity::ZERO);
                    less.min(in_proportion(*amount, less, had))
                };
                let least = self.types.values().map(of_type).min();
                (name.clone(), least.unwrap_or(Quantity::ZERO))
            })
            .filter(|(_, less)| *less > Quantity::ZERO)
            .collect();
        (!less.is_empty()).then_some(less)
    }
}

impl Room {
    /// Looks at the Node of a claim.
    pub(crate) fn look(&mut self, claim: &Claim, node: &NodeObject) {
        let Some(name) = claim.instance_type() else { return };
        let of_class = self.classes.entry(claim.node_class.clone()).or_default();
        if claim.is_true(ConditionType::Drifted) {
            if of_class.types.get(&name).is_some_and(|seen| seen.claim == claim.name) {
                of_class.types.remove(&name);
                self.news.insert(claim.node_class.clone());
            }
            return;
        }
        let is_older = of_class.older_until.is_some_and(|until| claim.created_at <= until)
            || of_class
                .types
                .get(&name)
                // Those of one plan have the age of each other.
                .is_some_and(|seen| (seen.created_at, &seen.claim) > (claim.created_at, &claim.name));
        if is_older || !claim.is_true(ConditionType::Registered) {
            return;
        }
        let allocatable = credible(claim, node);
        let known = of_class.types.get(&name);
        // Every type of a pool is counted again for news: that another node is the youngest is none.
        let is_news =
            known.is_none_or(|seen| seen.allocatable != allocatable || seen.announced != claim.allocatable);
        if !is_news && known.is_some_and(|seen| seen.claim == claim.name) {
            return;
        }
        let seen = Seen {
            claim: claim.name.clone(),
            created_at: claim.created_at,
            announced: claim.allocatable.clone(),
            allocatable,
        };
        of_class.types.insert(name, seen);
        if is_news {
            self.news.insert(claim.node_class.clone());
        }
    }

    /// Forgets what was seen of a class, because it has changed; `claims` are those of it, all of the version before.
    pub(crate) fn forget<'a>(
        &mut self,
        is_of_class: impl Fn(&NodeClassRef) -> bool,
        claims: impl Iterator<Item = &'a Arc<Claim>>,
    ) {
        for (class, of_class) in &mut self.classes {
            if is_of_class(class) {
                of_class.types.clear();
                self.news.insert(class.clone());
            }
        }
        for claim in claims {
            let of_class = self.classes.entry(claim.node_class.clone()).or_default();
            of_class.older_until = of_class.older_until.max(Some(claim.created_at));
        }
    }

    /// The classes of which something else is known than the last time.
    pub(crate) fn take_news(&mut self) -> BTreeSet<NodeClassRef> {
        std::mem::take(&mut self.news)
    }

    /// The types as nodes of this class turned out to be.
    pub(crate) fn seen(&self, class: &NodeClassRef, types: &Types) -> Types {
        let Some(of_class) = self.classes.get(class).filter(|of_class| !of_class.types.is_empty()) else {
            return Arc::clone(types);
        };
        let mut changed = false;
        let adjusted: Vec<Arc<InstanceType>> = types
            .iter()
            .map(|one| {
                let less = of_class.missing(&one.name, &one.allocatable());
                changed |= less.is_some();
                less.map_or_else(|| Arc::clone(one), |less| Arc::new(reduced(one, &less)))
            })
            .collect();
        if changed { adjusted.into() } else { Arc::clone(types) }
    }

    /// The claim of a machine that has not joined, with no more room than the last one of its type had.
    pub(crate) fn expected(&self, claim: &Arc<Claim>) -> Arc<Claim> {
        if claim.is_true(ConditionType::Registered) {
            return Arc::clone(claim);
        }
        let less = || {
            let of_class = self.classes.get(&claim.node_class)?;
            of_class.missing(&claim.instance_type()?, &claim.allocatable)
        };
        let Some(less) = less() else { return Arc::clone(claim) };
        Arc::new(Claim { allocatable: claim.allocatable.subtract(&less), ..(**claim).clone() })
    }
}

/// `less` of `had`, taken of `amount`; zero where nothing was had.
fn in_proportion(amount: Quantity, less: Quantity, had: Quantity) -> Quantity {
    let [amount, less, had] = [amount, less, had].map(|quantity| i128::from(quantity.as_millis_ceil()));
    let millis = (amount * less).checked_div(had).unwrap_or_default();
    Quantity::from_nanos(millis * 1_000_000)
}

/// The room of a node as far as it can be believed. Device plugins report only after the node has joined.
fn credible(claim: &Claim, node: &NodeObject) -> Resources {
    let at_once = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE, resources::PODS];
    let initialized = claim.is_true(ConditionType::Initialized);
    let known = node.allocatable.iter().filter(|(name, amount)| {
        **amount > Quantity::ZERO && (initialized || at_once.contains(&name.as_str()))
    });
    known.map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// Returns how much less was seen than was `announced`; `None` if nothing is missing.
fn missing(announced: &Resources, allocatable: &Resources) -> Option<Resources> {
    let less: Resources = announced
        .iter()
        .filter_map(|(name, amount)| {
            let found = allocatable.get(name.as_str())?;
            (found < *amount).then(|| (name.clone(), amount.saturating_sub(found)))
        })
        .collect();
    (!less.is_empty()).then_some(less)
}

/// The type with `less` taken off what pods may have, however it is bought.
fn reduced(one: &InstanceType, less: &Resources) -> InstanceType {
    let mut one = one.clone();
    one.overhead.system_reserved.add(less);
    for offering in &mut one.offerings {
        let replaced: Vec<_> =
            offering.overhead_override.iter().map(|(name, amount)| (name.clone(), *amount)).collect();
        for (name, amount) in replaced {
            let more = amount.saturating_add(less.amount(name.as_str()));
            offering.overhead_override.set(name.as_str(), more);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use karpenter_model::{Overhead, names::label};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    fn gib(amount: i64) -> Resources {
        Resources::new().with("memory", Quantity::from_bytes(amount << 30))
    }

    /// A claim of `m5.large` with 8 GiB announced, with these conditions.
    fn claim(name: &str, created: i64, conditions: &[ConditionType]) -> Arc<Claim> {
        let mut claim = Claim { allocatable: gib(8), ..Claim::bare(name, at(created)) };
        claim.labels.insert(label::INSTANCE_TYPE.into(), "m5.large".into());
        Arc::new(claim.holding(conditions, at(created)))
    }

    fn joined(name: &str, created: i64) -> Arc<Claim> {
        claim(name, created, &[ConditionType::Registered])
    }

    fn node(allocatable: Resources) -> NodeObject {
        NodeObject { allocatable, ..NodeObject::bare("n", at(0)) }
    }

    fn types() -> Types {
        let one = |name: &str| {
            Arc::new(InstanceType {
                capacity: gib(9).with("cpu", Quantity::from_units(2)),
                overhead: Overhead { kube_reserved: gib(1), ..Overhead::default() },
                ..InstanceType::bare(name, Vec::new())
            })
        };
        [one("m5.large"), one("m5.xlarge")].into()
    }

    /// The memory of both types as planned with, in GiB.
    fn planned(room: &Room) -> [i64; 2] {
        let types = room.seen(&NodeClassRef::default(), &types());
        [0, 1].map(|index| types[index].allocatable().amount("memory").as_units_ceil() >> 30)
    }

    #[test]
    fn plans_count_on_what_the_youngest_node_of_a_type_has() {
        let mut room = Room::default();
        assert_eq!(planned(&room), [8, 8]);
        room.look(&joined("one", 0), &node(gib(2)));
        assert_eq!(planned(&room), [2, 8], "aws#8367");
        assert_eq!(room.take_news().len(), 1);
        room.look(&joined("one", 0), &node(gib(2)));
        assert!(room.take_news().is_empty(), "it is known");
        for name in ["one and a half", "one"] {
            room.look(&joined(name, 0), &node(gib(2)));
            assert!(room.take_news().is_empty(), "a node like those before");
        }
        room.look(&joined("two", 10), &node(gib(6)));
        room.look(&joined("one", 0), &node(gib(2)));
        assert_eq!(planned(&room), [6, 8]);
        room.look(&joined("three", 20), &node(gib(12)));
        assert_eq!(planned(&room), [8, 8], "more than announced is not counted on");
        assert!(
            Arc::ptr_eq(&room.seen(&NodeClassRef::default(), &types()), &types()) || planned(&room) == [8, 8]
        );
    }

    #[test]
    fn types_not_seen_yet_are_to_lack_what_all_others_of_the_class_lack() {
        let of_type = |name: &str, instance_type: &str, announced| {
            let mut claim = (*joined(name, 0)).clone();
            claim.labels.insert(label::INSTANCE_TYPE.into(), instance_type.into());
            Arc::new(Claim { allocatable: gib(announced), ..claim })
        };
        // Memory announced and had by a first and a second type, and planned with for types of 8 GiB.
        let table = [
            ((16, 15), None, 8),           // One type may be odd by itself.
            ((16, 15), Some((32, 31)), 7), // 1 GiB of each is less than a 32nd of each.
            ((16, 12), Some((32, 30)), 7), // The smaller share, rounded up here: 7.5 GiB.
            ((16, 15), Some((32, 32)), 8), // One of them has what was announced.
            ((2, 1), Some((4, 3)), 7),     // Small types lose much of their room to what is the same for all.
        ];
        for (first, second, expected) in table {
            let mut room = Room::default();
            for (index, (announced, had)) in [Some(first), second].into_iter().flatten().enumerate() {
                room.look(
                    &of_type(&index.to_string(), &format!("c{index}.large"), announced),
                    &node(gib(had)),
                );
            }
            assert_eq!(planned(&room), [expected, expected], "{first:?} {second:?}");
            let coming = claim("coming", 9, &[ConditionType::Launched]);
            assert_eq!(room.expected(&coming).allocatable.amount("memory").as_units_ceil() >> 30, expected);
        }
    }

    #[test]
    fn a_machine_that_has_not_joined_is_expected_to_have_no_more() {
        let mut room = Room::default();
        room.look(&joined("one", 0), &node(gib(2)));
        let coming = claim("two", 10, &[ConditionType::Launched]);
        assert_eq!(room.expected(&coming).allocatable, gib(2));
        assert_eq!(room.expected(&joined("three", 10)).allocatable, gib(8), "its Node says what it has");
    }

    #[test]
    fn nonsense_is_not_believed_and_devices_only_once_they_are_up() {
        let mut room = Room::default();
        let zero = gib(0).with("cpu", Quantity::from_units(-2));
        for allocatable in [Resources::new(), zero] {
            room.look(&joined("one", 0), &node(allocatable));
            assert_eq!(planned(&room), [8, 8]);
        }
        let gpu = |amount| Resources::new().with("nvidia.com/gpu", Quantity::from_units(amount));
        let initialized = claim("two", 1, &[ConditionType::Registered, ConditionType::Initialized]);
        for (claim, expected) in [(joined("two", 1), None), (initialized, Some(gpu(1)))] {
            room.look(&claim, &node(gpu(1)));
            let seen = &room.classes[&NodeClassRef::default()].types["m5.large"];
            assert_eq!(missing(&gpu(2), &seen.allocatable), expected);
        }
    }

    #[test]
    fn another_version_of_the_class_is_another_matter() {
        let mut room = Room::default();
        room.look(&joined("one", 0), &node(gib(2)));
        room.forget(|_| true, [joined("one", 0)].iter());
        assert_eq!(planned(&room), [8, 8]);
        room.look(&joined("one", 0), &node(gib(2)));
        assert_eq!(planned(&room), [8, 8], "it is of the version before");
        room.look(&joined("two", 1), &node(gib(3)));
        assert_eq!(planned(&room), [3, 8]);
        room.look(&claim("two", 1, &[ConditionType::Registered, ConditionType::Drifted]), &node(gib(3)));
        assert_eq!(planned(&room), [8, 8], "it has drifted");
    }

    #[test]
    fn what_a_class_showed_is_forgotten_although_none_of_its_nodes_is_left() {
        let mut room = Room::default();
        room.look(&joined("one", 0), &node(gib(2)));
        room.take_news();
        room.forget(|_| true, [].iter());
        assert_eq!(planned(&room), [8, 8]);
        assert_eq!(room.take_news().len(), 1, "the class is planned with again");
    }
}
