//! Orders machines for display.

use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::str::FromStr;

use crate::machine::Machine;
use crate::text::per_mille;

/// Column by which machines are sorted; among equals by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    #[default]
    Name,
    Pool,
    Type,
    Zone,
    Capacity,
    /// The most expensive first.
    Price,
    /// The fullest first.
    Cpu,
    /// The fullest first.
    Memory,
    /// The most first.
    Pods,
    /// The youngest first.
    Age,
    /// Machines that need attention first.
    State,
}

impl SortBy {
    /// Every order, as the key for the next one goes through them.
    const ALL: [Self; 11] = [
        Self::Name,
        Self::Pool,
        Self::Type,
        Self::Zone,
        Self::Capacity,
        Self::Price,
        Self::Cpu,
        Self::Memory,
        Self::Pods,
        Self::Age,
        Self::State,
    ];

    /// The word for it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Pool => "pool",
            Self::Type => "type",
            Self::Zone => "zone",
            Self::Capacity => "capacity",
            Self::Price => "price",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pods => "pods",
            Self::Age => "age",
            Self::State => "state",
        }
    }

    /// The order after this one.
    pub(crate) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|by| *by == self).unwrap_or_default();
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    fn compare(self, a: &Machine<'_>, b: &Machine<'_>) -> Ordering {
        let filled = |machine: &Machine<'_>, index: usize| {
            per_mille(
                machine.requested.get(index).copied().unwrap_or_default(),
                machine.allocatable.get(index).copied().unwrap_or_default(),
            )
        };
        match self {
            Self::Name => Ordering::Equal,
            Self::Pool => a.pool.cmp(b.pool),
            Self::Type => a.instance_type.cmp(b.instance_type),
            Self::Zone => a.zone.cmp(b.zone),
            Self::Capacity => a.capacity.cmp(b.capacity),
            Self::Price => Reverse(a.price).cmp(&Reverse(b.price)),
            // Cpu and memory are the first of the resources shown, always.
            Self::Cpu => filled(b, 0).cmp(&filled(a, 0)),
            Self::Memory => filled(b, 1).cmp(&filled(a, 1)),
            Self::Pods => b.pods.cmp(&a.pods),
            Self::Age => b.created.cmp(&a.created),
            Self::State => a.state.phase.cmp(&b.state.phase).then(a.state.why.cmp(b.state.why)),
        }
    }
}

impl FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|by| by.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|by| by.as_str()).collect();
            format!("cannot sort by `{text}`; use one of {}", known.join(", "))
        })
    }
}

/// An order and its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// Column that decides.
    pub by: SortBy,
    /// The other way round.
    pub reversed: bool,
}

impl Sort {
    /// Sorts `machines`.
    pub(crate) fn sort(self, machines: &mut [Machine<'_>]) {
        machines.sort_by(|a, b| {
            let order = self.by.compare(a, b).then_with(|| a.name.cmp(&b.name));
            if self.reversed { order.reverse() } else { order }
        });
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.by.as_str())?;
        f.write_str(if self.reversed { ", reversed" } else { "" })
    }
}
