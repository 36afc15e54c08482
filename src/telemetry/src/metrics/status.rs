//! Metrics about status conditions and deletion, one set of families per kind of object (spec disruption 6).
//!
//! Claims and Nodes carry further labels, whose names depend on the provider; so these families are registered when
//! the kinds are first named. The reference also exports each family without the kind in its name, with labels `group`
//! and `kind` instead; it calls them deprecated, but dashboards use them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::area::{Descriptor, Kind, Stability};
use super::buckets;
use super::family::Family;
use super::registry::Registry;

/// A kind of object with status conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    NodeClaim,
    NodePool,
    Node,
    NodeClass,
    CapacityBuffer,
}

impl Watched {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::NodeClaim, Self::NodePool, Self::Node, Self::NodeClass, Self::CapacityBuffer];
}

macro_rules! tables {
    ($($kind:ident $word:literal $buckets:ident;)*) => {
        impl Watched {
            /// The families of the kind.
            pub const fn table(self) -> &'static [Descriptor; 6] {
                match self { $(Self::$kind => const { &[
                    descriptor(concat!("operator_", $word, "_status_condition_count"), Kind::Gauge, OF_CONDITION, &[], "Objects by the state of a condition"),
                    descriptor(concat!("operator_", $word, "_status_condition_current_status_seconds"), Kind::Gauge, OF_CONDITION, &[], "How long a condition has been as it is"),
                    descriptor(concat!("operator_", $word, "_status_condition_transitions_total"), Kind::Counter, &["type", "status", "reason"], &[], "Changes of a condition"),
                    descriptor(concat!("operator_", $word, "_status_condition_transition_seconds"), Kind::Histogram, &["type", "status"], buckets::$buckets, "How long a condition had been as it was before it changed"),
                    descriptor(concat!("operator_", $word, "_termination_current_time_seconds"), Kind::Gauge, &["namespace", "name"], &[], "Time since the deletion of an object that is still there"),
                    descriptor(concat!("operator_", $word, "_termination_duration_seconds"), Kind::Histogram, &[], buckets::$buckets, "From the deletion of an object until it was gone"),
                ] },)* }
            }
        }
    };
}

const OF_CONDITION: &[&str] = &["namespace", "name", "type", "status", "reason"];

// The reference's provider sets no buckets for its node classes.
tables! {
    NodeClaim "nodeclaim" CONDITION;
    NodePool "nodepool" CONDITION;
    Node "node" CONDITION;
    NodeClass "ec2nodeclass" DEFAULT;
    CapacityBuffer "capacitybuffer" CONDITION;
}

const fn descriptor(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind, labels, stability: Stability::Beta, help, buckets }
}

/// Families of status conditions without the kind in their names; they have no series of Nodes, as in the reference.
pub(super) const DEPRECATED: &[Descriptor; 6] = &[
    deprecated(
        "operator_status_condition_count",
        Kind::Gauge,
        &["namespace", "name", "type", "status", "reason", "group", "kind"],
        "Objects by the state of a condition",
    ),
    deprecated(
        "operator_status_condition_current_status_seconds",
        Kind::Gauge,
        &["namespace", "name", "type", "status", "reason", "group", "kind"],
        "How long a condition has been as it is",
    ),
    deprecated(
        "operator_status_condition_transitions_total",
        Kind::Counter,
        &["type", "status", "reason", "group", "kind"],
        "Changes of a condition",
    ),
    deprecated(
        "operator_status_condition_transition_seconds",
        Kind::Histogram,
        &["type", "status", "group", "kind"],
        "How long a condition had been as it was before it changed",
    ),
    deprecated(
        "operator_termination_current_time_seconds",
        Kind::Gauge,
        &["namespace", "name", "group", "kind"],
        "Time since the deletion of an object that is still there",
    ),
    deprecated(
        "operator_termination_duration_seconds",
        Kind::Histogram,
        &["group", "kind"],
        "From the deletion of an object until it was gone",
    ),
];

const fn deprecated(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Descriptor {
    let buckets = if matches!(kind, Kind::Histogram) { buckets::DEFAULT } else { &[] };
    Descriptor { stability: Stability::Deprecated, ..descriptor(name, kind, labels, buckets, help) }
}

/// The families of one kind, or the ones that all kinds share.
#[derive(Debug)]
pub struct StatusFamilies {
    pub count: Family,
    pub current_status_seconds: Family,
    transitions_total: prometheus::IntCounterVec,
    transition_seconds: prometheus::HistogramVec,
    pub termination_current_time_seconds: Family,
    termination_duration_seconds: prometheus::HistogramVec,
}

impl StatusFamilies {
    /// Registers `table`, each family with `further` labels in front of its own.
    pub(super) fn register(registry: &Registry, table: &'static [Descriptor; 6], further: &[String]) -> Self {
        let further = || further.iter().map(String::as_str);
        let [count, current, transitions, transition, termination, duration] = table;
        let labels =
            |row: &'static Descriptor| -> Vec<&str> { further().chain(row.labels.iter().copied()).collect() };
        let histogram = |row: &'static Descriptor| {
            let opts = prometheus::HistogramOpts::new(row.name, row.help).buckets(row.buckets.to_vec());
            let family = prometheus::HistogramVec::new(opts, &labels(row)).expect(VALID);
            registry.register(&labels(row), &family);
            family
        };
        let counter = prometheus::IntCounterVec::new(
            prometheus::Opts::new(transitions.name, transitions.help),
            &labels(transitions),
        )
        .expect(VALID);
        registry.register(&labels(transitions), &counter);
        Self {
            count: Family::register(registry, count, further()),
            current_status_seconds: Family::register(registry, current, further()),
            transitions_total: counter,
            transition_seconds: histogram(transition),
            termination_current_time_seconds: Family::register(registry, termination, further()),
            termination_duration_seconds: histogram(duration),
        }
    }

    /// A condition became `status` for `reason`, after `lasted` of having been `before`. `further` and `last` are the
    /// values of the labels around the families' own.
    pub fn transition(
        &self,
        further: &[&str],
        (kind, before, status, reason): (&str, &str, &str, &str),
        last: &[&str],
        lasted: Duration,
    ) {
        let values = |own: &[&str]| -> Vec<String> {
            further.iter().chain(own).chain(last).map(ToString::to_string).collect()
        };
        self.transitions_total.with_label_values(&values(&[kind, status, reason])).inc();
        self.transition_seconds.with_label_values(&values(&[kind, before])).observe(lasted.as_secs_f64());
    }

    /// An object is gone that long after its deletion was asked for. `labels` are all its labels.
    pub fn gone(&self, labels: &[&str], after: Duration) {
        self.termination_duration_seconds.with_label_values(labels).observe(after.as_secs_f64());
    }

    /// How often a condition changed; `labels` are all labels of the family.
    pub fn transitions(&self, labels: &[&str]) -> u64 {
        self.transitions_total.with_label_values(labels).get()
    }
}

/// The families of every kind that is watched.
#[derive(Debug)]
pub struct Statuses {
    kinds: BTreeMap<Watched, StatusFamilies>,
    /// Families without the kind in the name.
    pub deprecated: StatusFamilies,
}

impl Statuses {
    /// Registers everything; `further` are the names of the labels that objects of a kind have in front.
    pub(super) fn register(registry: &Registry, further: impl Fn(Watched) -> Vec<String>) -> Self {
        let kinds =
            Watched::ALL.map(|kind| (kind, StatusFamilies::register(registry, kind.table(), &further(kind))));
        Self { kinds: kinds.into(), deprecated: StatusFamilies::register(registry, DEPRECATED, &[]) }
    }

    /// The families of one kind.
    pub fn of(&self, kind: Watched) -> &StatusFamilies {
        self.kinds.get(&kind).expect("invariant: every kind is registered")
    }
}

const VALID: &str = "invariant: further labels are distinct and valid names";
