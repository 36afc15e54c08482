//! Comparison with an exhaustive search on tiny worlds: the greedy planner may leave a pod waiting only where
//! no pool could host it alone either, as far as limits are not in the way.

use karpenter_audit::audit;
use karpenter_model::names::{annotation, label};
use karpenter_model::{
    BinId, Effect, InstanceType, Launch, Plan, PodOutcome, Pool, Requirement, Requirements, Resources,
    Snapshot, Undefined,
};
use karpenter_testkit::small;

/// Every single-pod launch of every pool and instance type, accepted or not by the auditor. Slow and obvious.
fn hostable_alone(snapshot: &Snapshot, pod: &karpenter_model::Pod) -> Option<String> {
    for pool in &snapshot.pools {
        let Some(types) = snapshot.instance_types.get(&pool.name) else { continue };
        for instance_type in types.iter() {
            for requirements in narrowings(snapshot, pool, instance_type, pod) {
                let launch = launch(pool, instance_type, requirements, pod, snapshot);
                let Some(launch) = launch else { continue };
                let plan = Plan { revision: snapshot.revision, launches: vec![launch], ..Plan::default() };
                if audit(snapshot, &plan).is_empty() {
                    return Some(format!("{} on {}", pool.name, instance_type.name));
                }
            }
        }
    }
    None
}

/// The requirements a claim for `pod` could have: pool, labels and one way to satisfy the pod.
fn narrowings(
    snapshot: &Snapshot,
    pool: &Pool,
    instance_type: &InstanceType,
    pod: &karpenter_model::Pod,
) -> Vec<Requirements> {
    let registry = &snapshot.registry;
    let mut base = pool.template.requirements.clone();
    base.add_all(&Requirements::from_labels(registry, &pool.template.labels));
    base.add(Requirement::one_of(label::NODE_POOL.into(), [pool.name.as_str().into()]));
    base.add(Requirement::one_of(label::INSTANCE_TYPE.into(), [instance_type.name.as_str().into()]));
    let selector = Requirements::from_labels(registry, &pod.node_selector);
    let terms: Vec<Requirements> = if pod.required_terms.is_empty() {
        vec![Requirements::new()]
    } else {
        pod.required_terms
            .iter()
            .map(|term| Requirements::from_expressions(registry, &term.expressions))
            .collect()
    };
    let mut narrowings = Vec::new();
    for term in terms {
        for zone in ["a", "b"] {
            let mut narrowed = base.clone();
            let compatible = [&selector, &term].into_iter().all(|wanted| {
                let fits = narrowed.compatible(wanted, Undefined::WellKnown(registry)).is_ok();
                narrowed.add_all(wanted);
                fits
            });
            narrowed.add(Requirement::one_of(label::ZONE.into(), [zone.into()]));
            if compatible {
                narrowings.push(narrowed);
            }
        }
    }
    narrowings
}

fn launch(
    pool: &Pool,
    instance_type: &InstanceType,
    requirements: Requirements,
    pod: &karpenter_model::Pod,
    snapshot: &Snapshot,
) -> Option<Launch> {
    let registry = &snapshot.registry;
    let cheapest = instance_type
        .compatible_offerings(&requirements, registry)
        .min_by_key(|offering| (offering.price, offering.capacity_type))?;
    let mut labels = pool.template.labels.clone();
    labels.insert(label::NODE_POOL.into(), pool.name.as_str().into());
    for requirement in
        requirements.iter().filter(|requirement| !registry.is_well_known(requirement.key().as_str()))
    {
        labels.extend(requirement.any().map(|value| (requirement.key().clone(), value)));
    }
    Some(Launch {
        bin: BinId(1),
        pool: pool.name.clone(),
        pool_hash: pool.hash.clone(),
        labels,
        annotations: [(annotation::POOL_HASH.into(), pool.hash.clone())].into(),
        taints: pool.template.taints.clone(),
        startup_taints: pool.template.startup_taints.clone(),
        node_class: pool.template.node_class.clone(),
        expire_after: pool.template.expire_after,
        termination_grace_period: None,
        requests: [&pod.requests].into_iter().sum::<Resources>(),
        instance_types: [instance_type.name.clone()].into(),
        cheapest: Some(karpenter_model::OfferingRef {
            instance_type: instance_type.name.clone(),
            zone: cheapest.zone.clone(),
            capacity_type: cheapest.capacity_type,
            price: cheapest.price,
        }),
        requirements,
        pods: vec![pod.key.clone()],
    })
}

/// Rules about others and limits make the answer depend on other pods, `minValues` on the number of types, and a soft
/// taint may only be tolerated after every preference is gone; the search knows none of these.
fn simple(snapshot: &Snapshot) -> bool {
    let mut pods = snapshot.nodes.iter().flat_map(|node| &node.pods).chain(&snapshot.pending);
    if pods.any(|pod| !pod.spread.is_empty() || !pod.pod_anti_affinity.required.is_empty()) {
        return false;
    }
    snapshot.pools.iter().all(|pool| {
        let soft = pool.template.taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule);
        pool.limits.is_none() && !pool.template.requirements.has_min_values() && !soft
    })
}

#[test]
fn a_pod_waits_only_where_no_pool_could_host_it() {
    let mut compared = 0;
    for seed in 0..4000 {
        let snapshot = small::world(seed);
        if !simple(&snapshot) {
            continue;
        }
        let (_, report) = karpenter_engine::plan(&snapshot);
        for pod in snapshot.waiting() {
            if let PodOutcome::Unschedulable(refusals) = &report.pods[&pod.key] {
                compared += 1;
                let alternative = hostable_alone(&snapshot, pod);
                assert_eq!(alternative, None, "seed {seed}: {} waits: {refusals:?}", pod.key);
            }
        }
    }
    assert!(compared > 100, "only {compared} waiting pods were compared");
}
