//! Taints, tolerations and their match (spec scheduling 2 and 9).

use std::fmt;

use serde::Serialize;

use crate::names::taint;

/// Effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can; the planner treats it as hard until relaxed (spec scheduling 20).
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
}

impl Effect {
    /// The effect as it is spelled in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// The effect spelled `text`, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute].into_iter().find(|e| e.as_str() == text)
    }
}

/// A taint of a node, pool or claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Taint {
    /// Taint key.
    pub key: String,
    /// Taint value, empty when absent.
    pub value: String,
    /// Taint effect.
    pub effect: Effect,
}

/// Taints that come and go while a node starts, by exact key and effect (spec scheduling 2).
pub const EPHEMERAL: [(&str, Effect); 5] = [
    (taint::NOT_READY, Effect::NoSchedule),
    (taint::NOT_READY, Effect::NoExecute),
    (taint::UNREACHABLE, Effect::NoSchedule),
    (taint::CLOUD_UNINITIALIZED, Effect::NoSchedule),
    (taint::UNREGISTERED, Effect::NoExecute),
];

/// Taints that every pod of a daemon set tolerates, because its controller makes it so, by exact key and effect.
pub const OF_DAEMONS: [(&str, Effect); 6] = [
    (taint::NOT_READY, Effect::NoExecute),
    (taint::UNREACHABLE, Effect::NoExecute),
    (taint::DISK_PRESSURE, Effect::NoSchedule),
    (taint::MEMORY_PRESSURE, Effect::NoSchedule),
    (taint::PID_PRESSURE, Effect::NoSchedule),
    (taint::UNSCHEDULABLE, Effect::NoSchedule),
];

impl Taint {
    /// A taint from its parts.
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// The taint of a node that is being disrupted: `karpenter.sh/disrupted:NoSchedule`.
    pub fn disrupted() -> Self {
        Self::new(taint::DISRUPTED, "", Effect::NoSchedule)
    }

    /// The taint of a node whose instance is rebooted: `karpenter.sh/rebooting:NoSchedule`.
    pub fn rebooting() -> Self {
        Self::new(taint::REBOOTING, "", Effect::NoSchedule)
    }

    /// The taint of a node that has not registered yet: `karpenter.sh/unregistered:NoExecute`.
    pub fn unregistered() -> Self {
        Self::new(taint::UNREGISTERED, "", Effect::NoExecute)
    }

    /// Same key and effect; values are ignored, as Kubernetes does when it compares taints.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Returns whether the taint is only there while a node starts.
    pub fn is_ephemeral(&self) -> bool {
        self.key.starts_with(taint::READINESS_PREFIX)
            || EPHEMERAL.iter().any(|(key, effect)| self.key == *key && self.effect == *effect)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect.as_str())
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect.as_str())
        }
    }
}

/// Comparison of a toleration's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// Same value (the default).
    Equal,
    /// Any value; with an empty key, any taint.
    Exists,
    /// The taint's value is an integer greater than the toleration's.
    Gt,
    /// The taint's value is an integer less than the toleration's.
    Lt,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Taint key; empty matches every key (with `Exists`).
    pub key: String,
    /// Comparison of values.
    pub operator: TolerationOperator,
    /// Value to compare with.
    pub value: String,
    /// Effect; `None` matches every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// A toleration of every taint.
    pub fn everything() -> Self {
        Self { key: String::new(), operator: TolerationOperator::Exists, value: String::new(), effect: None }
    }

    /// The toleration that the last relaxation step adds: every `PreferNoSchedule` taint.
    pub fn prefer_no_schedule() -> Self {
        Self { effect: Some(Effect::PreferNoSchedule), ..Self::everything() }
    }

    /// Returns whether this toleration accepts `taint`, by the rules of the Kubernetes scheduler.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Gt => compare(taint, self).is_some_and(|(taint, own)| taint > own),
            TolerationOperator::Lt => compare(taint, self).is_some_and(|(taint, own)| taint < own),
        }
    }
}

/// The values of `taint` and `toleration` as integers; Kubernetes accepts neither leading zeros nor `+`.
fn compare(taint: &Taint, toleration: &Toleration) -> Option<(i64, i64)> {
    let integer = |text: &str| text.parse::<i64>().ok().filter(|value| value.to_string() == text);
    Some((integer(&taint.value)?, integer(&toleration.value)?))
}

/// The taints none of `tolerations` accepts, in their order; every effect counts.
pub fn untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> impl Iterator<Item = &'t Taint> {
    taints.iter().filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// The first taint none of `tolerations` accepts; every effect counts.
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    untolerated(taints, tolerations).next()
}

/// Appends to `taints` those of `more` that have no match (key, effect) yet.
pub fn merge(taints: &mut Vec<Taint>, more: &[Taint]) {
    for taint in more {
        if !taints.iter().any(|known| known.matches(taint)) {
            taints.push(taint.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(
        key: &str,
        operator: TolerationOperator,
        value: &str,
        effect: Option<Effect>,
    ) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect }
    }

    #[test]
    fn tolerates_as_the_kubernetes_scheduler_does() {
        use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
        use TolerationOperator::{Equal, Exists, Gt, Lt};
        let taint = |value: &str| Taint::new("k", value, NoSchedule);
        let table = [
            (toleration("k", Equal, "v", None), taint("v"), true),
            (toleration("k", Equal, "v", Some(NoSchedule)), taint("v"), true),
            (toleration("k", Equal, "v", Some(NoExecute)), taint("v"), false),
            (toleration("k", Equal, "w", None), taint("v"), false),
            (toleration("other", Equal, "v", None), taint("v"), false),
            (toleration("k", Exists, "", None), taint("v"), true),
            (toleration("", Exists, "", None), taint("v"), true),
            (toleration("", Exists, "", Some(PreferNoSchedule)), taint("v"), false),
            (toleration("k", Gt, "3", None), taint("4"), true),
            (toleration("k", Gt, "4", None), taint("4"), false),
            (toleration("k", Lt, "4", None), taint("-3"), true),
            (toleration("k", Lt, "4", None), taint("4"), false),
            (toleration("k", Lt, "4", None), taint("three"), false),
            (toleration("k", Lt, "04", None), taint("3"), false),
            (toleration("k", Gt, "", None), taint("3"), false),
        ];
        for (toleration, taint, expected) in table {
            assert_eq!(toleration.tolerates(&taint), expected, "{toleration:?} {taint}");
        }
    }

    #[test]
    fn prefer_no_schedule_is_hard_until_tolerated() {
        let taints = [Taint::new("soft", "", Effect::PreferNoSchedule)];
        assert_eq!(first_untolerated(&taints, &[]), Some(&taints[0]));
        assert_eq!(first_untolerated(&taints, &[Toleration::prefer_no_schedule()]), None);
    }

    #[test]
    fn ephemeral_taints_match_key_and_effect_and_ignore_the_value() {
        let table = [
            (Taint::new("node.kubernetes.io/not-ready", "x", Effect::NoExecute), true),
            (Taint::new("node.kubernetes.io/unreachable", "", Effect::NoSchedule), true),
            (Taint::new("node.kubernetes.io/unreachable", "", Effect::NoExecute), false),
            (Taint::new("node.cloudprovider.kubernetes.io/uninitialized", "true", Effect::NoSchedule), true),
            (Taint::unregistered(), true),
            (Taint::new("readiness.k8s.io/gpu", "", Effect::NoSchedule), true),
            (Taint::disrupted(), false),
        ];
        for (taint, ephemeral) in table {
            assert_eq!(taint.is_ephemeral(), ephemeral, "{taint}");
        }
    }

    #[test]
    fn merge_keeps_the_first_of_each_key_and_effect() {
        let mut taints = vec![Taint::new("a", "1", Effect::NoSchedule)];
        merge(
            &mut taints,
            &[Taint::new("a", "2", Effect::NoSchedule), Taint::new("a", "2", Effect::NoExecute)],
        );
        let text: Vec<String> = taints.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["a=1:NoSchedule", "a=2:NoExecute"]);
    }
}
