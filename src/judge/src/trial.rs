//! One world before the judge.
//!
//! The engine plans until it launches nothing more, as a controller does whose nodes have joined. What it plans in a pass
//! must be bound in that pass; what it leaves pending in the end must be refused by any node that a pool could add.
//!
//! Pods of one class are interchangeable: it counts how many run, not which. The class of a pod is its annotation
//! [`CLASS`], or else its name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use fastrand::Rng;
use jiff::Timestamp;
use karpenter_model::{Plan, PodOutcome, Pool, Report, Snapshot};
use karpenter_plan::{WhatIf, World};
use serde_json::{Value, json};

use crate::catalogue::{AT, Catalogue, ZONES};
use crate::objects::{merge, node_of, of_kind, refuse_pods_without_node, waiting};
use crate::promise;
use crate::scheduler::Binds;

/// Annotation with the class of interchangeable pods.
pub(crate) const CLASS: &str = "judge.karpenter.sh/class";

/// Passes until nothing more has to be launched: a pod that has to wait for others to be bound needs another one. More
/// passes are nodes that are launched and do not help.
const PASSES: usize = 6;

/// Disagreement between plan and scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The plan has a place for more pods of a class than the scheduler binds.
    Refused {
        class: String,
        /// Pods that have a place in the plan.
        planned: usize,
        /// Pods that are bound.
        bound: usize,
        /// Reason why the scheduler refuses one of them.
        why: String,
    },
    /// The plan leaves a pod pending that would run on a node of a pool.
    Forsaken {
        /// Class of the pod.
        class: String,
        node: String,
        /// Reason why the plan leaves it pending.
        why: String,
    },
    /// Nodes are launched in every pass.
    Endless,
}

impl Difference {
    /// Returns whether another difference is of the same kind, whichever pod it is about.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Result of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Pods that present nodes take.
    pub taken: usize,
    /// Pods that a plan has a place for.
    pub planned: usize,
    /// Nodes that plans launch.
    pub launches: usize,
    /// Pods that wait in the end.
    pub pending: usize,
    /// Passes in which something was launched.
    pub passes: usize,
    /// Passes in which pods that the plan left pending were bound.
    pub overtaken: usize,
    /// Disagreements between plan and scheduler.
    pub differences: Vec<Difference>,
}

/// Plans a world and lets the scheduler judge. The seed decides which of its types and zones a launch becomes; with 0 each
/// becomes the cheapest.
///
/// # Errors
/// Objects that cannot be planned, or that the scheduler cannot read.
pub fn hold(
    objects: &[Value],
    seed: u64,
    catalogue: &Catalogue,
    scheduler: &mut dyn Binds,
) -> Result<Outcome> {
    let mut objects = objects.to_vec();
    karpenter_plan::resolve(&mut objects, &ZONES.map(str::to_owned), |_| Vec::new());
    let waiting = waiting(&objects).count();
    let first = scheduler.bind(&objects)?;
    merge(&mut objects, first.changed);
    let mut outcome = Outcome { taken: waiting - self::waiting(&objects).count(), ..Outcome::default() };

    let mut rng = (seed != 0).then(|| Rng::with_seed(seed));
    for pass in 0..PASSES {
        refuse_pods_without_node(&mut objects);
        let (snapshot, plan, report) = planned(&objects, catalogue)?;
        let mut after = objects.clone();
        join(&plan, pass, &mut after, catalogue, rng.as_mut())?;
        let last = scheduler.bind(&after)?;
        merge(&mut after, last.changed);
        let counts = Counts::of(&objects, &after, &report, &last.refused);
        outcome.planned += counts.0.values().map(|count| count.planned).sum::<usize>();
        objects = after;
        if counts.0.values().any(|count| count.bound > count.planned) {
            // Pods without a place in the plan took room on its nodes: more important ones do, whatever names are written.
            // A pod that lacks room for that has a place in the next plan.
            outcome.overtaken += 1;
        } else {
            outcome.differences = counts.differences();
            if !outcome.differences.is_empty() {
                return Ok(outcome);
            }
        }
        if plan.launches.is_empty() {
            outcome.pending = self::waiting(&objects).count();
            if !scheduler.is_quick() {
                return Ok(outcome);
            }
            outcome.differences = forsaken(&objects, &snapshot, &report, catalogue, scheduler)?;
            return Ok(outcome);
        }
        outcome.launches += plan.launches.len();
        outcome.passes += 1;
    }
    outcome.differences.push(Difference::Endless);
    Ok(outcome)
}

/// Returns a world in which the nodes of a plan for all its pods are there, and no pod has a node yet or names one.
///
/// # Errors
/// Objects that cannot be planned.
pub fn with_nodes(objects: &[Value], seed: u64, catalogue: &Catalogue) -> Result<Vec<Value>> {
    let mut objects = objects.to_vec();
    karpenter_plan::resolve(&mut objects, &ZONES.map(str::to_owned), |_| Vec::new());
    refuse_pods_without_node(&mut objects);
    let (_, plan, _) = planned(&objects, catalogue)?;
    join(&plan, 0, &mut objects, catalogue, Some(&mut Rng::with_seed(seed)))?;
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        pod["status"] = json!({"phase": "Pending"});
    }
    Ok(objects)
}

/// Returns the nodes to which the planner expects the scheduler to bind the waiting pods of `objects`, by the keys of these.
///
/// # Errors
/// Objects that cannot be planned.
pub fn expected(objects: &[Value], catalogue: &Catalogue) -> Result<BTreeMap<String, String>> {
    let mut objects = objects.to_vec();
    refuse_pods_without_node(&mut objects);
    let snapshot = snapshot(&objects, catalogue)?;
    let names: BTreeMap<_, _> = snapshot.nodes.iter().map(|node| (&node.id, node.display_name())).collect();
    let bound = karpenter_engine::bound(&snapshot).into_iter();
    Ok(bound.map(|(pod, node)| (pod.to_string(), names[&node].to_owned())).collect())
}

fn snapshot(objects: &[Value], catalogue: &Catalogue) -> Result<Snapshot> {
    let at: Timestamp = AT.parse()?;
    let world = World::new(objects.iter().cloned(), at, catalogue.plan_inputs.clone(), WhatIf::default())?;
    Ok(world.snapshot(&catalogue.offerings(&world)).0)
}

fn planned(objects: &[Value], catalogue: &Catalogue) -> Result<(Snapshot, Plan, Report)> {
    let snapshot = snapshot(objects, catalogue)?;
    let (plan, report) = karpenter_engine::plan(&snapshot);
    Ok((snapshot, plan, report))
}

/// The nodes of a plan join, and its pods name them, as the controller has them do.
fn join(
    plan: &Plan,
    pass: usize,
    objects: &mut Vec<Value>,
    catalogue: &Catalogue,
    mut rng: Option<&mut Rng>,
) -> Result<()> {
    for launch in &plan.launches {
        let name = format!("promised-{pass}-{}", launch.bin.0);
        objects.extend(promise::keep(launch, &name, catalogue, rng.as_deref_mut())?);
        for key in &launch.pods {
            let pod = objects.iter_mut().find(|object| {
                object["kind"] == "Pod"
                    && object["metadata"]["namespace"] == key.namespace.as_str()
                    && object["metadata"]["name"] == key.name.as_str()
            });
            let pod = pod.with_context(|| format!("find pod {key} of the plan"))?;
            pod["status"]["nominatedNodeName"] = json!(name);
        }
    }
    Ok(())
}

/// Pods that are left pending although one more node of some pool would take one of their class. Pools at their limits may
/// add none, and a pool with `minValues` none of a single type.
fn forsaken(
    objects: &[Value],
    snapshot: &Snapshot,
    report: &Report,
    catalogue: &Catalogue,
    scheduler: &mut dyn Binds,
) -> Result<Vec<Difference>> {
    let mut why = BTreeMap::new();
    for pod in waiting(objects) {
        let key = key_of(pod);
        let outcome = report.pods.iter().find(|(one, _)| format!("{}/{}", one.namespace, one.name) == key);
        why.insert(
            key,
            (class_of(pod), outcome.map(|(_, outcome)| format!("{outcome:?}")).unwrap_or_default()),
        );
    }
    if why.is_empty() {
        return Ok(Vec::new());
    }
    let asks_for_choice =
        |pool: &Pool| pool.template.requirements.iter().any(|one| one.min_values().is_some());
    let unlimited = snapshot.pools.iter().filter(|pool| pool.limits.is_none() && !asks_for_choice(pool));
    let mut found = BTreeMap::new();
    for node in unlimited.flat_map(|pool| promise::possible(pool, snapshot, catalogue)) {
        let mut with = objects.to_vec();
        with.extend(node.objects);
        let verdict = scheduler.bind(&with)?;
        let bound: BTreeSet<String> =
            of_kind(&verdict.changed, "Pod").filter(|pod| node_of(pod).is_some()).map(key_of).collect();
        for (class, why) in bound.iter().filter_map(|key| why.get(key)) {
            found.entry(class.clone()).or_insert_with(|| Difference::Forsaken {
                class: class.clone(),
                node: node.what.clone(),
                why: why.clone(),
            });
        }
    }
    Ok(found.into_values().collect())
}

#[derive(Default)]
struct Count {
    planned: usize,
    bound: usize,
    /// Reason why the scheduler refuses one of them.
    refused: String,
}

/// Counts by class of the pods that waited for the plan.
struct Counts(BTreeMap<String, Count>);

impl Counts {
    fn of(before: &[Value], after: &[Value], report: &Report, refused: &BTreeMap<String, String>) -> Self {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        let bound: BTreeSet<String> =
            of_kind(after, "Pod").filter(|pod| node_of(pod).is_some()).map(key_of).collect();
        let placed = report.pods.iter().filter(|(_, outcome)| PodOutcome::is_placed(outcome));
        let placed: BTreeSet<String> =
            placed.map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect();
        for pod in waiting(before) {
            let key = key_of(pod);
            let count = counts.entry(class_of(pod)).or_default();
            count.bound += usize::from(bound.contains(&key));
            count.planned += usize::from(placed.contains(&key));
            if let Some(why) = refused.get(&key) {
                count.refused.clone_from(why);
            }
        }
        Self(counts)
    }

    fn differences(self) -> Vec<Difference> {
        let fewer = self.0.into_iter().filter(|(_, count)| count.planned > count.bound);
        let fewer = fewer.map(|(class, count)| Difference::Refused {
            class,
            planned: count.planned,
            bound: count.bound,
            why: count.refused,
        });
        fewer.collect()
    }
}

fn class_of(pod: &Value) -> String {
    let class = pod["metadata"]["annotations"][CLASS].as_str();
    class.map_or_else(|| key_of(pod), str::to_owned)
}

fn key_of(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}
