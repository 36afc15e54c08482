//! The pods of generated worlds: what they request, select, tolerate and what they say about each other.

use std::collections::BTreeSet;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use karpenter_model::names::label;
use karpenter_model::pod::affinity::{NodeInclusion, WeightedAffinityTerm};
use karpenter_model::{
    AffinityTerm, Expression, LabelSelector, Labels, NodeTerm, Operator, Pod, PodKey, SpreadConstraint,
    Toleration, WhenUnsatisfiable,
};

/// Demands of the pods of a generated world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// CPU and memory only.
    Generic,
    /// Half of the pods select zones, architectures or capacity types.
    Selectors,
    /// Half of the pods tolerate and select a tainted pool.
    Taints,
    /// A third of the pods spread over zones, a sixth over hosts, a tenth keep apart or together.
    Topology,
    /// Equal parts of everything: generic, spread over zones, spread over hosts, together in a zone, together on
    /// a host, one to a host, and pods with preferences. The parts that keep apart need a machine for each pod.
    Diverse,
    /// Selectors and taints.
    Mixed,
    /// A third of the pods mount a volume of their own, in one zone.
    Volumes,
}

/// Pod number `index` of a world.
pub(super) fn pod(index: usize, mix: Mix, now: Timestamp, rng: &mut Rng) -> Pod {
    let cpu = ["100m", "250m", "500m", "1", "1500m", "2"][rng.usize(0..6)];
    let memory = ["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"][rng.usize(0..6)];
    let key = PodKey::new("default", &format!("pod-{index:05}"));
    let created_at = now - SignedDuration::from_secs(rng.i64(0..600));
    let mut pod = Pod::pending(key, &format!("uid-{index:05}"), created_at);
    pod.requests.set("cpu", cpu.parse().unwrap_or_default());
    pod.requests.set("memory", memory.parse().unwrap_or_default());
    let app = rng.u32(0..40);
    pod.labels = [("app".into(), format!("app-{app}").into())].into();
    if matches!(mix, Mix::Selectors | Mix::Mixed) && rng.bool() {
        select(&mut pod, rng);
    }
    if matches!(mix, Mix::Taints | Mix::Mixed) && rng.bool() {
        pod.tolerations.push(Toleration { key: "team".into(), ..Toleration::everything() });
        if rng.bool() {
            pod.node_selector.insert("team".into(), "a".into());
        }
    }
    match mix {
        Mix::Topology => relate(&mut pod, rng),
        Mix::Diverse => diversify(&mut pod, index, rng),
        Mix::Generic | Mix::Selectors | Mix::Taints | Mix::Mixed | Mix::Volumes => {}
    }
    pod
}

/// A hard spread over the pods that match `labels`.
fn spread(labels: &Labels, key: &str, max_skew: u32) -> SpreadConstraint {
    SpreadConstraint {
        max_skew,
        topology_key: key.into(),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(LabelSelector::from_labels(labels)),
        min_domains: None,
        node_affinity_policy: NodeInclusion::Honor,
        node_taints_policy: NodeInclusion::Ignore,
        match_label_keys: Vec::new(),
    }
}

/// A term about the pods of the namespace that match `labels`.
fn term(labels: &Labels, key: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: key.into(),
        selector: Some(LabelSelector::from_labels(labels)),
        namespaces: BTreeSet::new(),
        namespace_selector: None,
    }
}

/// Rules about pods of the same app for half of the pods.
fn relate(pod: &mut Pod, rng: &mut Rng) {
    match rng.u8(0..60) {
        0..20 => pod.spread = vec![spread(&app_of(pod, "zones"), label::ZONE, 1)],
        20..30 => pod.spread = vec![spread(&app_of(pod, "hosts"), label::HOSTNAME, 5)],
        30..33 => pod.pod_affinity.required = vec![term(&app_of(pod, "together"), label::ZONE)],
        33..36 => pod.pod_anti_affinity.required = vec![term(&app_of(pod, "apart"), label::HOSTNAME)],
        _ => {}
    }
}

/// Makes `pod` one of the app of `kind` with its number: pods of one app ask the same, as those of one deployment do, so that
/// none has a rule about pods that do not have it.
fn app_of(pod: &mut Pod, kind: &str) -> Labels {
    for app in pod.labels.values_mut() {
        *app = format!("{app}-{kind}").into();
    }
    pod.labels.clone()
}

/// Makes the pod one of seven kinds. Twenty at a time stay together on a host; those that keep apart are all of one
/// app, so that each needs a machine of its own.
fn diversify(pod: &mut Pod, index: usize, rng: &mut Rng) {
    let app = app_of(pod, &(index % 7).to_string());
    match index % 7 {
        0 => {}
        1 => pod.spread = vec![spread(&app, label::ZONE, 1)],
        2 => pod.spread = vec![spread(&app, label::HOSTNAME, 1)],
        3 => pod.pod_affinity.required = vec![term(&app, label::ZONE)],
        4 => {
            let group: Labels = [("group".into(), format!("g{}", index / 140).into())].into();
            pod.pod_affinity.required = vec![term(&group, label::HOSTNAME)];
            pod.labels.extend(group);
        }
        5 => {
            pod.labels = [("app".into(), "apart".into())].into();
            pod.pod_anti_affinity.required = vec![term(&pod.labels, label::HOSTNAME)];
        }
        _ => prefer(pod, &app, rng),
    }
}

/// Preferences of every kind, some of which cannot be met.
fn prefer(pod: &mut Pod, app: &Labels, rng: &mut Rng) {
    let node = |key: &str, values: &[&str]| {
        let expressions = vec![Expression::new(key, Operator::In, values)];
        NodeTerm { expressions, ..NodeTerm::default() }
    };
    let zone = ["a", "b", "c", "nowhere"][rng.usize(0..4)];
    pod.preferred_terms = vec![(10, node(label::ZONE, &[zone])), (5, node(label::ARCH, &["arm64"]))];
    if rng.bool() {
        let term = term(app, label::HOSTNAME);
        pod.pod_anti_affinity.preferred = vec![WeightedAffinityTerm { weight: 1, term }];
    } else {
        let soft = WhenUnsatisfiable::ScheduleAnyway;
        pod.spread = vec![SpreadConstraint { when_unsatisfiable: soft, ..spread(app, label::ZONE, 1) }];
    }
}

fn select(pod: &mut Pod, rng: &mut Rng) {
    let mut require = |key, operator, values: &[&str]| {
        let expressions = vec![Expression::new(key, operator, values)];
        pod.required_terms = vec![NodeTerm { expressions, ..NodeTerm::default() }];
    };
    match rng.u8(0..5) {
        0 => require(label::ZONE, Operator::In, &[["a", "b", "c"][rng.usize(0..3)]]),
        1 => require(label::ARCH, Operator::In, &["amd64"]),
        2 => require(label::CAPACITY_TYPE, Operator::In, &["on-demand"]),
        3 => require(label::ZONE, Operator::NotIn, &["a"]),
        _ => require(label::ARCH, Operator::In, &["arm64"]),
    }
}
