//! Expected place of a pod, as an event and as the name of a node.
//!
//! A promise of the plan, not of the scheduler: the pod may go elsewhere, or its claim may never become a Node.

use karpenter_model::names::reason;
use karpenter_model::pod::affinity::WhenUnsatisfiable;
use karpenter_model::{Pod, Target};

use crate::step::{About, Event, PodRef};

/// A pod was promised a place.
pub fn nominated(pod: &Pod, target: &Target) -> Event {
    let place = match target {
        Target::Node(node) => format!("node/{node}"),
        Target::Claim(claim) => format!("nodeclaim/{claim}"),
    };
    let message = format!("Pod should schedule on: {place}");
    Event::new(About::Pod(PodRef::of(pod)), reason::NOMINATED, message)
}

/// Pods of `promised`, all of which wait for a place on one node, that may be named that node at the same time.
///
/// The scheduler tries a pod on a node as if all others that are named there, and are no less important, were on it already. Where
/// a spread counts more of them than its skew allows, each keeps out the others, none is bound, and each try takes their names
/// away. So of pods that count for a hard spread of each other only as many are named as its skew is; once they are bound it is
/// the turn of the next.
pub fn nameable<'a>(promised: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a Pod> {
    let mut named: Vec<&Pod> = Vec::new();
    for pod in promised {
        let crowded = named.iter().chain([&pod]).any(|one| {
            let hard =
                one.spread.iter().filter(|rule| rule.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
            hard.filter_map(|rule| Some((rule.selector.as_ref()?, rule.max_skew))).any(|(selector, skew)| {
                let counts = |other: &&&Pod| {
                    other.key.namespace == one.key.namespace && selector.matches(&other.labels)
                };
                // The pod itself is checked first: most pods of a node belong to other applications.
                counts(&&pod)
                    && named.iter().filter(counts).count() >= usize::try_from(skew).unwrap_or(usize::MAX)
            })
        });
        if !crowded {
            named.push(pod);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use karpenter_model::pod::affinity::{NodeInclusion, SpreadConstraint};
    use karpenter_model::{LabelSelector, PodKey};

    use super::*;
    use crate::fixture::at;

    #[test]
    fn the_event_names_the_kind_of_the_place_and_its_name() {
        let pod = Pod::pending(PodKey::new("ns", "web"), "uid", at(0));
        for (target, place) in
            [(Target::Node("n".into()), "node/n"), (Target::Claim("c".into()), "nodeclaim/c")]
        {
            let event = nominated(&pod, &target);
            assert_eq!(
                (event.reason, event.message, event.topic),
                ("Nominated", format!("Pod should schedule on: {place}"), None)
            );
        }
    }

    /// A pod of `app` that spreads over zones with this skew, if there is one.
    fn spread(name: &str, app: &str, skew: Option<u32>) -> Pod {
        let mut pod = Pod::pending(PodKey::new("ns", name), name, at(0));
        pod.labels.insert("app".into(), app.into());
        pod.spread = skew
            .map(|max_skew| SpreadConstraint {
                max_skew,
                topology_key: "topology.kubernetes.io/zone".into(),
                when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
                selector: Some(LabelSelector::from_labels(&pod.labels)),
                min_domains: None,
                node_affinity_policy: NodeInclusion::Honor,
                node_taints_policy: NodeInclusion::Ignore,
                match_label_keys: Vec::new(),
            })
            .into_iter()
            .collect();
        pod
    }

    #[test]
    fn of_pods_that_spread_as_many_are_named_as_the_skew_allows() {
        let named = |pods: &[Pod]| -> Vec<String> {
            nameable(pods).into_iter().map(|pod| pod.key.name.to_string()).collect()
        };
        let free = [spread("a", "web", None), spread("b", "web", None)];
        assert_eq!(named(&free), ["a", "b"]);
        let strict = [
            spread("a", "web", Some(1)),
            spread("b", "web", Some(1)),
            spread("c", "api", Some(1)),
            spread("d", "db", Some(2)),
            spread("e", "db", Some(2)),
            spread("f", "db", Some(2)),
        ];
        assert_eq!(named(&strict), ["a", "c", "d", "e"]);
        let counted = [spread("a", "web", Some(1)), spread("b", "web", None)];
        assert_eq!(named(&counted), ["a"], "the first could not be bound beside the second");
        let mut soft = [spread("a", "web", Some(1)), spread("b", "web", Some(1))];
        for pod in &mut soft {
            pod.spread[0].when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
        }
        assert_eq!(named(&soft), ["a", "b"]);
    }
}
