//! The rows of the list: machines that pass the filter in their order, or pools that can be unfolded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::filter::Filter;
use crate::machine::Machine;
use crate::order::Sort;
use crate::totals::Totals;

/// Choices of the user about all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) sort: Sort,
    pub(crate) filter: Filter,
    /// Machines are below their pools, which are folded unless they are in `unfolded`.
    pub(crate) by_pool: bool,
    pub(crate) unfolded: BTreeSet<Arc<str>>,
}

/// Subject of a row: the identity of a row, whatever it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    /// A pool; empty for machines without one.
    Pool(Arc<str>),
    /// A machine, by its name.
    Machine(Arc<str>),
}

/// A row.
#[derive(Debug)]
pub(crate) enum Row<'a> {
    Pool { name: Arc<str>, totals: Totals, unfolded: bool },
    Machine(Box<Machine<'a>>),
}

impl Row<'_> {
    pub(crate) fn id(&self) -> Id {
        match self {
            Self::Pool { name, .. } => Id::Pool(Arc::clone(name)),
            Self::Machine(machine) => Id::Machine(Arc::clone(&machine.name)),
        }
    }
}

/// Sums over what is shown, and over everything.
#[derive(Debug)]
pub(crate) struct Sums {
    /// Over the machines that pass the filter.
    pub(crate) shown: Totals,
    /// Over all machines; none without a filter, when that is the same.
    pub(crate) all: Option<Totals>,
}

/// The rows of `machines`, and the sums over them.
pub(crate) fn rows<'a>(machines: Vec<Machine<'a>>, choice: &Choice) -> (Vec<Row<'a>>, Sums) {
    let mut machines = machines;
    let mut all = None;
    if !choice.filter.is_empty() {
        all = Some(Totals::of(&machines));
        machines.retain(|machine| choice.filter.matches(machine));
    }
    let totals = Sums { shown: Totals::of(&machines), all };
    choice.sort.sort(&mut machines);
    if !choice.by_pool {
        return (machines.into_iter().map(|machine| Row::Machine(Box::new(machine))).collect(), totals);
    }
    // The order of a stable split is that of the machines, within each pool.
    let mut pools: BTreeMap<&str, Vec<Machine<'a>>> = BTreeMap::new();
    for machine in machines {
        pools.entry(machine.pool).or_default().push(machine);
    }
    let mut rows = Vec::new();
    for (name, machines) in pools {
        let unfolded = choice.unfolded.contains(name);
        rows.push(Row::Pool { name: name.into(), totals: Totals::of(&machines), unfolded });
        if unfolded {
            rows.extend(machines.into_iter().map(|machine| Row::Machine(Box::new(machine))));
        }
    }
    (rows, totals)
}

#[cfg(test)]
mod tests {
    use karpenter_model::Price;
    use karpenter_model::names::label::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL};
    use serde_json::json;

    use super::*;
    use crate::facts::Shown;
    use crate::machine::machines;
    use crate::order::SortBy;
    use crate::prices::Prices;
    use crate::world::World;

    fn world() -> World {
        let mut world = World::new(Shown::new(&[]));
        let nodes = [
            ("a", "web", "m5.large", "spot", "team=x", "2", 10),
            ("b", "web", "m5.xlarge", "on-demand", "team=y", "4", 30),
            ("c", "", "m5.large", "on-demand", "team=x", "2", 20),
        ];
        for (name, pool, kind, capacity, team, cpu, second) in nodes {
            let (key, value) = team.split_once('=').unwrap();
            let mut node = json!({
                "metadata": {"name": name, "labels": {INSTANCE_TYPE: kind, CAPACITY_TYPE: capacity, key: value},
                             "creationTimestamp": format!("2026-01-01T00:00:{second}Z")},
                "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"},
                           "conditions": [{"type": "Ready", "status": if name == "c" { "False" } else { "True" }}]},
            });
            if !pool.is_empty() {
                node["metadata"]["labels"][NODE_POOL] = pool.into();
            }
            world.put_node(&serde_json::from_value(node).unwrap());
            let pod = json!({"metadata": {"namespace": "d", "name": name}, "spec": {"nodeName": name, "containers":
                [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": format!("{second}Mi")}}}]}});
            world.put_pod(&serde_json::from_value(pod).unwrap());
        }
        world
    }

    fn shown(choice: &Choice) -> String {
        let book: crate::PriceBook = Arc::new(|kind, _, capacity| {
            (kind == "m5.xlarge" || capacity == "spot")
                .then(|| Price::from_nanos(if kind == "m5.xlarge" { 9 } else { 8 }))
        });
        let world = world();
        let (rows, totals) = rows(machines(&world, &Prices::Known(book)), choice);
        let text = rows.iter().map(|row| match row {
            Row::Pool { name, totals, .. } => format!("[{name} {}]", totals.machines),
            Row::Machine(machine) => machine.name.to_string(),
        });
        format!("{}: {}", totals.shown.machines, text.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_order_puts_first_what_one_looks_for() {
        let table = [
            (SortBy::Name, "a b c"),
            (SortBy::Pool, "c a b"),
            (SortBy::Type, "a c b"),
            (SortBy::Zone, "a b c"),
            (SortBy::Capacity, "b c a"),
            (SortBy::Price, "b a c"),
            (SortBy::Cpu, "a c b"),
            (SortBy::Memory, "b c a"),
            (SortBy::Pods, "a b c"),
            (SortBy::Age, "b c a"),
            (SortBy::State, "c a b"),
        ];
        for (by, expected) in table {
            let choice = Choice { sort: Sort { by, reversed: false }, ..Choice::default() };
            assert_eq!(shown(&choice), format!("3: {expected}"), "{by:?}");
            assert_eq!(by.as_str().parse(), Ok(by));
            let reversed = Choice { sort: Sort { by, reversed: true }, ..Choice::default() };
            let backwards: Vec<&str> = expected.split(' ').rev().collect();
            assert_eq!(shown(&reversed), format!("3: {}", backwards.join(" ")), "{by:?}");
        }
        assert!(
            "size".parse::<SortBy>().unwrap_err().contains("cannot sort by `size`; use one of name, pool")
        );
    }

    #[test]
    fn filters_take_words_labels_and_short_words() {
        let table = [
            ("", "3: a b c"),
            ("xlarge", "1: b"),
            ("pool=web", "2: a b"),
            ("pool=", "1: c"),
            ("pool!=web", "1: c"),
            ("team=x type=m5.large", "2: a c"),
            ("team=x capacity=spot", "1: a"),
            ("team!=x", "1: b"),
            ("state=ready xlarge", "1: b"),
            ("zone=nowhere", "0: "),
        ];
        for (text, expected) in table {
            let choice = Choice { filter: Filter::new(text), ..Choice::default() };
            assert_eq!(shown(&choice), expected, "{text}");
        }
    }

    #[test]
    fn pools_are_folded_one_by_one() {
        let folded = Choice { by_pool: true, ..Choice::default() };
        assert_eq!(shown(&folded), "3: [ 1] [web 2]");
        let unfolded = Choice { unfolded: ["web".into()].into(), ..folded };
        assert_eq!(shown(&unfolded), "3: [ 1] [web 2] a b");
    }
}
