//! What is wrong with a plan.

use std::fmt;

/// The rules a plan must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The plan was made from another snapshot.
    Stale,
    /// A pod has two places.
    PlacedTwice,
    /// A pod needs no place, or does not exist.
    NotWaiting,
    /// A machine or pool is not there, or cannot be used.
    Unusable,
    /// A claim does not look like its pool says.
    Template,
    /// The list of instance types is empty, too long, unknown, or has repetitions.
    InstanceTypes,
    /// An instance type has no available offering the claim accepts.
    Offering,
    /// Instance types are not in price order, or the cheapest offering is not.
    PriceOrder,
    /// `minValues` do not hold.
    MinValues,
    /// Requirements of a pod do not hold.
    Requirements,
    /// A pod does not tolerate a hard taint.
    Taint,
    /// Pods and daemons do not fit.
    Capacity,
    /// Two pods want the same host port.
    HostPort,
    /// Required anti-affinity of a running pod forbids the place.
    AntiAffinity,
    /// A pod's required affinity or anti-affinity does not hold.
    PodAffinity,
    /// A hard topology spread constraint does not hold.
    Spread,
    /// A volume of a pod cannot be attached where the pod goes.
    Volume,
    /// A reservation is promised more often than it has instances.
    Reservation,
    /// A claim of a placed pod gets no devices, or a device is given twice.
    Devices,
    /// A placed pod needs something plans do not provide yet.
    Unmodelled,
    /// A pool overruns its limits.
    Limits,
    /// A machine may not be removed.
    Removal,
    /// More machines of a pool are removed than its budget allows.
    Budget,
    /// A command is not one its method may propose.
    Command,
    /// A pod of a machine that goes has no place in the command.
    Homeless,
    /// A command may end up costing more than it saves, or states a wrong price.
    Price,
    /// Spot machines are replaced as they must not be.
    Spot,
    /// A command is not worth what it disturbs.
    Score,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// What breaks it: a pod, bin, pool or node.
    pub subject: String,
    /// How.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, subject: impl fmt::Display, detail: impl fmt::Display) -> Self {
        Self { rule, subject: subject.to_string(), detail: detail.to_string() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: `{}`: {}", self.rule, self.subject, self.detail)
    }
}
