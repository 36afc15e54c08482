//! The scheduler of simulations, held against the one of Kubernetes: pod by pod, the nodes that fit and their scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_judge::catalogue::Catalogue;
use karpenter_judge::objects::{is_daemon, key, node_of, of_kind};
use karpenter_judge::scheduler::{Binds, Scheduler};
use karpenter_judge::trial::{expected, with_nodes};
use karpenter_judge::world;
use karpenter_kube_sim::kube_system::scheduler::scores;
use karpenter_testkit::number;
use serde_json::{Value, json};

/// Worlds that are tried, unless their number is given.
const WORLDS: u64 = 300;

#[test]
fn the_stand_in_scores_the_nodes_that_fit_as_the_scheduler_does() {
    let catalogue = Catalogue::read().unwrap();
    let mut scheduler = Scheduler::start_telling().unwrap();
    let first = number("FRESH_SEED").unwrap_or(1);
    let (mut tries, mut choices) = (0, 0);
    let mut differences = Vec::new();
    for seed in first..first + number("JUDGED_WORLDS").unwrap_or(WORLDS) {
        let mut objects = with_nodes(&world::draw(seed), seed, &catalogue).unwrap();
        add_owners(&mut objects, &mut Rng::with_seed(seed));
        let verdict = scheduler.bind(&objects).unwrap();
        let mut now: BTreeMap<_, Arc<Value>> =
            objects.into_iter().map(|object| (key(&object), Arc::new(object))).collect();
        let mut changed = verdict.changed.into_iter();
        let mut known = 0;
        for one in verdict.tries {
            let new: Vec<Value> = changed.by_ref().take(one.after - known).collect();
            now.extend(new.into_iter().map(|object| (key(&object), Arc::new(object))));
            known = one.after;
            // The claims that pods bring along are not among the objects.
            if is_daemon(&one.pod) || one.pod.pointer("/spec/volumes/0/ephemeral").is_some() {
                continue;
            }
            let all: Vec<Arc<Value>> = now.values().cloned().collect();
            let scores = scores(&all, &one.pod);
            tries += 1;
            choices += usize::from(one.scores.len() > 1);
            if scores != one.scores {
                differences.push(format!(
                    "world {seed}, pod {} of {}: {scores:?}, the scheduler {:?}",
                    one.pod["metadata"]["name"], one.pod["spec"], one.scores
                ));
            }
        }
    }
    eprintln!("{tries} tries, {choices} of them between nodes, {} differ", differences.len());
    // A difference in ten thousand fresh tries is one more thing that is not played, and no reason to stop a change.
    assert!(differences.len() <= tries / 1000, "{}", differences.join("\n"));
}

#[test]
fn the_planner_expects_as_many_pods_to_be_bound_as_the_scheduler_binds() {
    let catalogue = Catalogue::read().unwrap();
    let mut scheduler = Scheduler::start().unwrap();
    let first = number("FRESH_SEED").unwrap_or(1);
    let worlds = number("JUDGED_WORLDS").unwrap_or(WORLDS / 3);
    let (mut pods, mut there, mut fewer, mut more) = (0, 0, 0, 0);
    for seed in first..first + worlds {
        let objects = with_nodes(&world::draw(seed), seed, &catalogue).unwrap();
        let expected = expected(&objects, &catalogue).unwrap();
        let verdict = scheduler.bind(&objects).unwrap();
        let bound = of_kind(&verdict.changed, "Pod").filter(|pod| !is_daemon(pod));
        let bound = bound.filter_map(|pod| {
            let (_, namespace, name) = key(pod);
            Some((format!("{namespace}/{name}"), node_of(pod)?.to_owned()))
        });
        let bound: BTreeMap<String, String> = bound.collect();
        pods += bound.len();
        there += bound.iter().filter(|(pod, node)| expected.get(*pod) == Some(node)).count();
        let difference = expected.len().cmp(&bound.len());
        fewer += u64::from(difference.is_lt());
        more += u64::from(difference.is_gt());
    }
    let figures = format!(
        "{pods} pods bound, {there} where the planner expects them; of {worlds} worlds it expects fewer in {fewer}, more in {more}"
    );
    // Preferences are not scored, and ties are drawn: 20 of 300 worlds differ.
    assert!(fewer + more <= worlds.div_ceil(8), "{figures}");
    eprintln!("{figures}");
}

/// Gives the pods of some apps an owner and a Service, by which they are spread where they have no constraint.
fn add_owners(objects: &mut Vec<Value>, rng: &mut Rng) {
    let waits = |pod: &&Value| pod["spec"]["nodeName"].is_null() && !is_daemon(pod);
    let apps: std::collections::BTreeSet<(String, String)> = of_kind(objects, "Pod")
        .filter(waits)
        .filter_map(|pod| {
            let app = pod["metadata"]["labels"]["app"].as_str()?;
            Some((pod["metadata"]["namespace"].as_str()?.to_owned(), app.to_owned()))
        })
        .collect();
    for (namespace, app) in apps {
        let kind = ["ReplicaSet", "StatefulSet", "", ""][rng.usize(0..4)];
        let metadata = json!({"name": app, "namespace": namespace, "uid": format!("{kind}-{app}")});
        if !kind.is_empty() {
            let selector = json!({"matchLabels": {"app": app}});
            objects.push(json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
                "spec": {"selector": selector, "serviceName": app, "template": {"metadata": {"labels": {"app": app}}}}}));
            let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": app,
                "uid": format!("{kind}-{app}"), "controller": true}]);
            let own = |pod: &&mut Value| {
                pod["kind"] == "Pod"
                    && pod["metadata"]["namespace"] == namespace.as_str()
                    && pod["metadata"]["labels"]["app"] == app.as_str()
            };
            objects.iter_mut().filter(own).for_each(|pod| pod["metadata"]["ownerReferences"] = owner.clone());
        }
        if rng.u32(0..3) == 0 {
            objects.push(json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": app, "namespace": namespace}, "spec": {"selector": {"tier": "p"}}}));
        }
    }
}
