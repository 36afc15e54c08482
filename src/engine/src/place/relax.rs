//! The order in which a pod gives up what it would like (spec core-scheduling 20).
//!
//! One step per failure: the first required node affinity term while there is another one, then the heaviest
//! preferred node affinity term, then `PreferNoSchedule` taints are tolerated. Preferred pod affinity and soft
//! spread come between the first two once they are planned for.
//!
//! The reference stops there, although a term given up early may have failed only because of a preference.
//! Before a pod is left waiting, the terms given up are tried once more without any.

use karpenter_model::settings::PreferencePolicy;
use karpenter_model::{Effect, NodeTerm, Pod, Toleration};

/// What is left of a pod's wishes at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish<'a> {
    /// The required node affinity term to satisfy.
    pub(crate) required: Option<&'a NodeTerm>,
    /// The preferred node affinity term to satisfy.
    pub(crate) preferred: Option<&'a NodeTerm>,
    /// Tolerate every `PreferNoSchedule` taint.
    pub(crate) tolerate_soft_taints: bool,
}

/// The wishes of `pod` in the order they are tried.
pub(crate) fn wishes(pod: &Pod, policy: PreferencePolicy, soft_taints: bool) -> Vec<Wish<'_>> {
    let mut preferred: Vec<&(i32, NodeTerm)> = match policy {
        PreferencePolicy::Respect => pod.preferred_terms.iter().collect(),
        PreferencePolicy::Ignore => Vec::new(),
    };
    preferred.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let preferred: Vec<&NodeTerm> = preferred.into_iter().map(|(_, term)| term).collect();
    let wish = |required, preferred| Wish { required, preferred, tolerate_soft_taints: false };

    let heaviest = preferred.first().copied();
    let mut wishes: Vec<Wish<'_>> =
        pod.required_terms.iter().map(|term| wish(Some(term), heaviest)).collect();
    if wishes.is_empty() {
        wishes.push(wish(None, heaviest));
    }
    let last_term = pod.required_terms.last();
    if !preferred.is_empty() {
        wishes.extend(preferred[1..].iter().map(|term| wish(last_term, Some(term))));
        wishes.push(wish(last_term, None));
    }
    let tolerate = soft_taints && !pod.tolerations.contains(&Toleration::prefer_no_schedule());
    if tolerate {
        wishes.push(Wish { tolerate_soft_taints: true, ..wish(last_term, None) });
    }
    if let Some((_, given_up)) = pod.required_terms.split_last()
        && (tolerate || !preferred.is_empty())
    {
        wishes.extend(
            given_up.iter().map(|term| Wish { tolerate_soft_taints: tolerate, ..wish(Some(term), None) }),
        );
    }
    wishes
}

/// Whether any of `taints` is soft.
pub(crate) fn has_soft_taint(taints: &[karpenter_model::Taint]) -> bool {
    taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::{Expression, Operator, PodKey};

    use super::*;

    fn term(zone: &str) -> NodeTerm {
        let expressions = vec![Expression::new("zone", Operator::In, &[zone])];
        NodeTerm { expressions, match_fields: false }
    }

    fn zone(term: Option<&NodeTerm>) -> &str {
        term.map_or("-", |term| term.expressions[0].values[0].as_str())
    }

    fn steps(pod: &Pod, policy: PreferencePolicy, soft_taints: bool) -> Vec<String> {
        let show = |wish: &Wish<'_>| {
            let soft = if wish.tolerate_soft_taints { " soft" } else { "" };
            format!("{}/{}{soft}", zone(wish.required), zone(wish.preferred))
        };
        wishes(pod, policy, soft_taints).iter().map(show).collect()
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
        pod.tolerations = vec![Toleration::prefer_no_schedule()];
        assert!(!steps(&pod, PreferencePolicy::Ignore, true).iter().any(|step| step.ends_with("soft")));
    }
}
