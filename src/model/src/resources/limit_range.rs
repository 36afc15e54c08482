//! What a namespace gives containers that do not say what they need (`LimitRange` objects, items of type `Container`).
//!
//! Pods that exist have been through admission and say it all; the template of a daemon set without pods has not
//! (spec scheduling 16).

use crate::Resources;

/// The defaults of one item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerDefaults {
    /// `defaultRequest`: requests of containers that have none.
    pub requests: Resources,
    /// `default`: limits of containers that have none.
    pub limits: Resources,
}

/// What a container with `requests` and `limits` requests once it is admitted, in the order the API server works:
/// a limit is the request where there is none, then each item of `defaults`, by name of its object, fills what is
/// still missing; a default limit without a default request is the request too.
pub fn admitted_requests(
    requests: &Resources,
    limits: &Resources,
    defaults: &[ContainerDefaults],
) -> Resources {
    let mut admitted = requests.clone();
    let mut fill = |from: &Resources| {
        for (name, quantity) in from.iter() {
            if admitted.get(name.as_str()).is_none() {
                admitted.set(name.as_str(), *quantity);
            }
        }
    };
    fill(limits);
    for item in defaults {
        fill(&item.requests);
        fill(&item.limits);
    }
    admitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(text: &str) -> Resources {
        let entries = text.split_whitespace().filter_map(|entry| entry.split_once('='));
        entries.map(|(name, quantity)| (name.into(), quantity.parse().unwrap())).collect()
    }

    #[test]
    fn what_a_container_says_wins_then_its_limits_then_the_first_default() {
        type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);
        let table: [Case; 7] = [
            ("", "", &[], ""),
            ("cpu=1", "cpu=2", &[("cpu=3", "cpu=4")], "cpu=1"),
            ("", "cpu=2", &[("cpu=3", "cpu=4")], "cpu=2"),
            ("", "", &[("cpu=3", "cpu=4")], "cpu=3"),
            ("", "", &[("", "cpu=4")], "cpu=4"),
            ("cpu=0", "", &[("cpu=3 memory=1Gi", "")], "cpu=0 memory=1Gi"),
            ("", "", &[("cpu=1", ""), ("cpu=2 memory=1Gi", "memory=2Gi")], "cpu=1 memory=1Gi"),
        ];
        for (requests, limits, defaults, expected) in table {
            let item = |(requests, limits): &(&str, &str)| ContainerDefaults {
                requests: resources(requests),
                limits: resources(limits),
            };
            let defaults: Vec<ContainerDefaults> = defaults.iter().map(item).collect();
            let admitted = admitted_requests(&resources(requests), &resources(limits), &defaults);
            assert_eq!(admitted, resources(expected), "{requests} / {limits} with {defaults:?}");
        }
    }
}
