//! Order in which the preferences of a pod are given up (spec scheduling 20).
//!
//! One step per failure, always the first that applies: the first required node affinity term while there is
//! another one, the heaviest preferred pod affinity, pod anti-affinity and node affinity term, a soft topology
//! spread, and last `PreferNoSchedule` taints are tolerated.
//!
//! The reference stops there, although a term given up early may have failed only because of a preference.
//! Before a pod is left waiting, the terms given up are tried once more without any.

use std::cmp::Reverse;

use karpenter_model::settings::PreferencePolicy;
use karpenter_model::{
    AffinityTerm, Effect, NodeTerm, Pod, PodAffinity, SpreadConstraint, Toleration, WhenUnsatisfiable,
};

/// Constraints of a pod that are left at one relaxation level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relaxed<'a> {
    /// The required node affinity term to satisfy.
    pub(crate) required: Option<&'a NodeTerm>,
    /// The preferred node affinity term to satisfy.
    pub(crate) preferred: Option<&'a NodeTerm>,
    /// Topology spread constraints, soft ones included.
    pub(crate) spread: Vec<&'a SpreadConstraint>,
    /// Preferred pod affinity terms; required ones are never given up.
    pub(crate) preferred_affinity: Vec<&'a AffinityTerm>,
    /// Pod anti-affinity terms, preferred ones included.
    pub(crate) anti_affinity: Vec<&'a AffinityTerm>,
    /// Tolerate every `PreferNoSchedule` taint.
    pub(crate) tolerate_soft_taints: bool,
}

/// Preferences not given up yet, heaviest first, and alternatives not given up yet.
#[derive(Clone)]
struct Relaxation<'a> {
    pod: &'a Pod,
    terms: &'a [NodeTerm],
    affinity: Vec<&'a AffinityTerm>,
    anti_affinity: Vec<&'a AffinityTerm>,
    node: Vec<&'a NodeTerm>,
    /// Hard ones, too: where a soft one stood, the last of all comes, as in the reference.
    spread: Vec<&'a SpreadConstraint>,
    tolerate: bool,
}

/// Returns the constraints of `pod` at each relaxation level, in the order they are tried.
pub(crate) fn levels(pod: &Pod, policy: PreferencePolicy, soft_taints: bool) -> Vec<Relaxed<'_>> {
    let mut left = Relaxation::new(pod, policy);
    let may_tolerate = soft_taints && !pod.tolerations.contains(&Toleration::prefer_no_schedule());
    let mut levels = vec![left.relaxed()];
    let mut gave_up_preferences = false;
    while let Some(step) = left.relax(may_tolerate) {
        gave_up_preferences |= step == Step::Preference;
        levels.push(left.relaxed());
    }
    if gave_up_preferences && let Some((_, given_up)) = pod.required_terms.split_last() {
        levels.extend(given_up.iter().map(|term| Relaxed { required: Some(term), ..left.relaxed() }));
    }
    levels
}

/// Constraint that was given up.
#[derive(PartialEq, Eq)]
enum Step {
    Alternative,
    Preference,
}

impl<'a> Relaxation<'a> {
    fn new(pod: &'a Pod, policy: PreferencePolicy) -> Self {
        let respect = policy == PreferencePolicy::Respect;
        let preferred = |affinity: &'a PodAffinity| {
            let mut terms: Vec<_> = affinity.preferred.iter().filter(|_| respect).collect();
            // A stable sort: terms of equal weight are given up in the order of the pod (spec scheduling 20).
            terms.sort_by_key(|term| Reverse(term.weight));
            terms.into_iter().map(|term| &term.term).collect()
        };
        let mut node: Vec<&(i32, NodeTerm)> = pod.preferred_terms.iter().filter(|_| respect).collect();
        node.sort_by_key(|(weight, _)| Reverse(*weight));
        Self {
            pod,
            terms: &pod.required_terms,
            affinity: preferred(&pod.pod_affinity),
            anti_affinity: preferred(&pod.pod_anti_affinity),
            node: node.into_iter().map(|(_, term)| term).collect(),
            spread: pod.spread.iter().filter(|spread| respect || !is_soft(spread)).collect(),
            tolerate: false,
        }
    }

    fn relaxed(&self) -> Relaxed<'a> {
        let hard = self.pod.spread.iter().filter(|spread| !is_soft(spread));
        let soft = self.spread.iter().copied().filter(|spread| is_soft(spread));
        let required_apart = self.pod.pod_anti_affinity.required.iter();
        Relaxed {
            required: self.terms.first(),
            preferred: self.node.first().copied(),
            spread: hard.chain(soft).collect(),
            preferred_affinity: self.affinity.clone(),
            anti_affinity: required_apart.chain(self.anti_affinity.iter().copied()).collect(),
            tolerate_soft_taints: self.tolerate,
        }
    }

    /// Gives up the next thing; nothing when all is given up.
    fn relax(&mut self, may_tolerate: bool) -> Option<Step> {
        // The last term is never given up: without it the pod could run where it must not (spec scheduling
        // 20).
        if let [_, rest @ ..] = self.terms
            && !rest.is_empty()
        {
            self.terms = rest;
            return Some(Step::Alternative);
        }
        if !self.affinity.is_empty() {
            self.affinity.remove(0);
        } else if !self.anti_affinity.is_empty() {
            self.anti_affinity.remove(0);
        } else if !self.node.is_empty() {
            self.node.remove(0);
        } else if let Some(soft) = self.spread.iter().position(|spread| is_soft(spread)) {
            // The last of the list takes its place, as in the reference (spec scheduling 20): of three that
            // cannot all be met, the order decides which one survives.
            self.spread.swap_remove(soft);
        } else if may_tolerate && !self.tolerate {
            self.tolerate = true;
        } else {
            return None;
        }
        Some(Step::Preference)
    }
}

fn is_soft(spread: &SpreadConstraint) -> bool {
    spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway
}

/// Returns whether any of `taints` is soft.
pub(crate) fn has_soft_taint(taints: &[karpenter_model::Taint]) -> bool {
    taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::pod::affinity::NodeInclusion;
    use karpenter_model::{Expression, Operator, PodKey};

    use super::*;

    fn term(zone: &str) -> NodeTerm {
        let expressions = vec![Expression::new("zone", Operator::In, &[zone])];
        NodeTerm { expressions, ..NodeTerm::default() }
    }

    fn spread(when_unsatisfiable: WhenUnsatisfiable) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1,
            topology_key: "zone".into(),
            when_unsatisfiable,
            selector: None,
            min_domains: None,
            node_affinity_policy: NodeInclusion::Honor,
            node_taints_policy: NodeInclusion::Ignore,
            match_label_keys: Vec::new(),
        }
    }

    fn zone(term: Option<&NodeTerm>) -> &str {
        term.map_or("-", |term| term.expressions[0].values[0].as_str())
    }

    fn steps(pod: &Pod, policy: PreferencePolicy, soft_taints: bool) -> Vec<String> {
        let show = |relaxed: &Relaxed<'_>| {
            let soft = if relaxed.tolerate_soft_taints { " soft" } else { "" };
            format!("{}/{}{soft}", zone(relaxed.required), zone(relaxed.preferred))
        };
        levels(pod, policy, soft_taints).iter().map(show).collect()
    }

    #[test]
    fn required_terms_go_first_then_the_heaviest_preference_then_soft_taints() {
        let mut pod = Pod::pending(PodKey::new("ns", "a"), "uid", Timestamp::UNIX_EPOCH);
        assert_eq!(steps(&pod, PreferencePolicy::Respect, false), ["-/-"]);
        pod.required_terms = vec![term("r1"), term("r2")];
        pod.preferred_terms = vec![(1, term("light")), (50, term("heavy")), (1, term("light2"))];
        assert_eq!(
            steps(&pod, PreferencePolicy::Respect, true),
            ["r1/heavy", "r2/heavy", "r2/light", "r2/light2", "r2/-", "r2/- soft", "r1/- soft"]
        );
        assert_eq!(steps(&pod, PreferencePolicy::Ignore, false), ["r1/-", "r2/-"]);
        pod.spread =
            vec![spread(WhenUnsatisfiable::ScheduleAnyway), spread(WhenUnsatisfiable::DoNotSchedule)];
        let spreads = |policy| -> Vec<usize> {
            levels(&pod, policy, false).iter().map(|relaxed| relaxed.spread.len()).collect()
        };
        assert_eq!(
            spreads(PreferencePolicy::Respect),
            [2, 2, 2, 2, 2, 1, 1],
            "soft spread goes after preferences"
        );
        assert_eq!(spreads(PreferencePolicy::Ignore), [1, 1]);
        pod.tolerations = vec![Toleration::prefer_no_schedule()];
        assert!(!steps(&pod, PreferencePolicy::Ignore, true).iter().any(|step| step.ends_with("soft")));
    }

    #[test]
    fn the_last_spread_comes_where_a_soft_one_stood() {
        use WhenUnsatisfiable::{DoNotSchedule, ScheduleAnyway};
        // Numbered by their skew; what is left after each step.
        let left = |kinds: &[WhenUnsatisfiable]| -> Vec<Vec<u32>> {
            let mut pod = Pod::pending(PodKey::new("ns", "a"), "uid", Timestamp::UNIX_EPOCH);
            let numbered = kinds.iter().zip(1..);
            pod.spread =
                numbered.map(|(kind, max_skew)| SpreadConstraint { max_skew, ..spread(*kind) }).collect();
            let skews = |relaxed: &Relaxed<'_>| {
                let mut skews: Vec<u32> = relaxed.spread.iter().map(|spread| spread.max_skew).collect();
                skews.sort_unstable();
                skews
            };
            levels(&pod, PreferencePolicy::Respect, false).iter().map(skews).collect()
        };
        let soft = [ScheduleAnyway; 3];
        assert_eq!(left(&soft), [vec![1, 2, 3], vec![2, 3], vec![2], vec![]]);
        let with_a_hard_one = [ScheduleAnyway, ScheduleAnyway, ScheduleAnyway, DoNotSchedule];
        assert_eq!(left(&with_a_hard_one), [vec![1, 2, 3, 4], vec![2, 3, 4], vec![3, 4], vec![4]]);
    }
}
