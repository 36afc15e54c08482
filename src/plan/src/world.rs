//! Makes the snapshot that a plan is made from, out of objects.
//!
//! Objects are read by the controller's own view; what is added before is in `workloads` and `settle`. Nothing here asks a
//! server or a clock: what pools can launch comes from the caller or from the export itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodePool;
use karpenter_api::convert::{self, Refused};
use karpenter_cloud::NodeClassKind;
use karpenter_controllers::View;
use karpenter_model::repair::RepairPolicy;
use karpenter_model::settings::FeatureGates;
use karpenter_model::{LabelRegistry, Pool, PoolName, Settings, Snapshot, Zone};
use serde::Deserialize;
use serde_json::Value;

use crate::export::{self, About, Header};
use crate::forecast::{Forecast, forecast_without};
use crate::objects::{ObjectKey, Objects, is_foreign};
use crate::offerings::{INSTANCE_TYPE, Offerings};
use crate::settle::MayDrift;
use crate::what_if::{self, NoMatch, WhatIf};
use crate::workloads::{Refusals, TooMany, too_many};
use crate::{buffers, overlays, settle, workloads};

/// Inputs of a plan that are no objects of the cluster: the provider's names and the settings of the decisions.
#[derive(Clone, Debug)]
pub struct PlanInputs {
    /// Registry of label keys.
    pub registry: Arc<LabelRegistry>,
    /// Node classes of the provider; pools of others take no part.
    pub classes: Vec<NodeClassKind>,
    pub settings: Arc<Settings>,
    /// Conditions of nodes for which the controller replaces them; none where it does not.
    pub repair: Arc<[RepairPolicy]>,
}

/// A cluster as its objects tell, ready to be asked what would happen.
#[derive(Clone, Debug)]
pub struct World {
    plan_inputs: PlanInputs,
    objects: Objects,
    at: Timestamp,
    exported: Option<Offerings>,
    what_if: WhatIf,
    /// Zones with nodes before anything was different.
    zones: BTreeSet<Zone>,
    /// Names of the pools before anything was different.
    pools_before: BTreeSet<PoolName>,
    /// Pools that are assumed to be deleted: their nodes cost what they cost until they are gone.
    deleted: Vec<Pool>,
    /// Nodes of classes whose selectors are different.
    may_drift: Vec<MayDrift>,
    notes: Vec<String>,
}

/// Objects of which no plan can be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// An export that cannot be read.
    #[error(
        "cannot read what the export says about {what}; write it again with this version of `karpenter export`"
    )]
    Export {
        /// Part of the export.
        what: &'static str,
        /// Error of the reader.
        source: serde_json::Error,
    },
    /// An object that asks for more pods or nodes than a cluster can have.
    #[error("cannot plan {object}: `spec.{field}` {asked}")]
    TooMany {
        /// Kind, namespace and name.
        object: String,
        /// The field that says so.
        field: &'static str,
        /// Value of the field.
        asked: TooMany,
    },
    /// A workload whose number of pods is no number.
    #[error(
        "cannot plan {object}: `spec.{field}` is {written}; write a whole number that is not negative, such as 3"
    )]
    NoNumber {
        /// Kind, namespace and name.
        object: String,
        /// The field that says so.
        field: &'static str,
        /// Value of the field, as JSON.
        written: Value,
    },
    /// Pods that manifests ask for and that an API server would refuse. Left out, they would pass for pods that have a place.
    #[error("{}", unplanned(.0))]
    Unreadable(Vec<RefusedPod>),
}

/// A pod of a manifest that no API server stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPod {
    /// Namespace and name.
    pub pod: String,
    /// The field, what is wrong with it, and what to do.
    pub problem: String,
}

fn unplanned(pods: &[RefusedPod]) -> String {
    match pods {
        [RefusedPod { pod, problem }] => {
            format!("cannot plan pod `{pod}`, which a manifest asks for: {problem}")
        }
        all => {
            let lines: String =
                all.iter().map(|RefusedPod { pod, problem }| format!("\n  `{pod}`: {problem}")).collect();
            format!("cannot plan pods that manifests ask for; correct the manifests:{lines}")
        }
    }
}

impl World {
    /// The cluster of these objects with what is to be different, at this instant; an export brings its own instant, which
    /// counts.
    ///
    /// # Errors
    /// The objects are an export of another version, one of them asks for [too many](TooMany) or for no number, or a manifest
    /// for a pod that cannot be read.
    pub fn new(
        objects: impl IntoIterator<Item = Value>,
        at: Timestamp,
        plan_inputs: PlanInputs,
        what_if: WhatIf,
    ) -> Result<Self, WorldError> {
        let objects: Vec<Value> = objects.into_iter().collect();
        let mut read = objects.iter().chain(&what_if.manifests).filter(|object| !is_foreign(object));
        read.try_for_each(countable)?;
        let unread = what_if::without_effect(&objects);
        let mut objects: Objects = objects.into_iter().collect();
        let failed = |what| move |source| WorldError::Export { what, source };
        let header = Header::take(&mut objects).map_err(failed("its time"))?;
        let types: Vec<Value> = objects.of_kind(INSTANCE_TYPE).map(|(_, object)| object.clone()).collect();
        let exported = match &header {
            Some(header) => {
                let types =
                    Offerings::read(&types, &plan_inputs.registry).map_err(failed("instance types"))?;
                Some(Offerings {
                    types,
                    problems: header.problems.clone(),
                    zones_away: header.zones_away.clone(),
                    partial: header.partial,
                })
            }
            None => None,
        };
        let (at, mut notes) = match header {
            Some(header) => (header.taken_at, header.notes),
            None => (at, Vec::from_iter(unread)),
        };
        let mut refused = workloads::expand(&mut objects, &[], at);
        // A change counts against what was true before it: machines of manifests carry the hash of the pool as it was.
        let _unready = settle::pools(&mut objects, &plan_inputs.registry, at);
        let zones = what_if::zones_of(&objects);
        let pools_before = objects.of_kind("NodePool").map(|(key, _)| key.name.as_str().into()).collect();
        let mut deleted = pools_of(&objects, &plan_inputs);
        deleted.retain(|pool| what_if.deleted_pools.contains(&pool.name));
        let classes = settle::classes::digests(&objects);
        let exported = exported.map(|exported| (exported, pools_of(&objects, &plan_inputs)));
        let (changes, refused_more) = what_if.change(&mut objects, at);
        notes.extend(changes);
        refused.extend(refused_more);
        readable(&objects)?;
        notes.extend(admitted(refused)?);
        let exported = exported.map(|(exported, pools)| {
            let mut wanted = pools_of(&objects, &plan_inputs);
            wanted.extend(deleted.iter().cloned());
            exported.of_classes(&pools, &wanted)
        });
        let may_drift = settle::classes::drift(&mut objects, &classes, at);
        notes.extend(what_if::without_effect(&what_if.manifests));
        notes.extend(settle::pools(&mut objects, &plan_inputs.registry, at));
        settle::budgets(&mut objects);
        settle::nodes::keep_taints(&mut objects);
        settle::volumes::bind(&mut objects);
        notes.extend(closed_gates(&objects, &plan_inputs.settings));
        Ok(Self {
            plan_inputs,
            objects,
            at,
            exported,
            what_if,
            zones,
            pools_before,
            deleted,
            may_drift,
            notes,
        })
    }

    /// The feature gates of the controller.
    pub fn gates(&self) -> FeatureGates {
        self.plan_inputs.settings.gates
    }

    /// The instant plans are made for.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The pools whose instance types are needed, by name.
    pub fn pools(&self) -> Vec<Pool> {
        let mut pools = pools_of(&self.objects, &self.plan_inputs);
        pools.extend(self.deleted.iter().cloned());
        pools
    }

    /// Node classes as they are in the objects.
    pub fn node_classes(&self) -> Vec<Value> {
        let kinds = self.plan_inputs.classes.iter();
        kinds.flat_map(|kind| self.objects.of_kind(kind.kind)).map(|(_, object)| object.clone()).collect()
    }

    /// Returns the offerings of the export; `None` when the objects are no export.
    pub fn exported(&self) -> Option<&Offerings> {
        self.exported.as_ref()
    }

    /// Refuses what is to be different where nothing is of what it names; `offerings` as they are without it.
    ///
    /// # Errors
    /// A pool that is not there, a zone that nothing is in, or a price that nothing has.
    pub fn check_what_if(&self, offerings: &Offerings) -> Result<(), NoMatch> {
        self.what_if.check(&self.zones, &self.pools_before, offerings)
    }

    /// Everything a plan looks at, and what there is to say about how it was made.
    pub fn snapshot(&self, offerings: &Offerings) -> (Snapshot, Vec<String>) {
        let offerings = self.what_if.offered(offerings.clone());
        let mut notes = self.notes.clone();
        let (offerings, refused) = if self.plan_inputs.settings.gates.node_overlay {
            overlays::laid(&self.objects, &self.pools(), offerings, &self.plan_inputs.registry)
        } else {
            (offerings, Vec::new())
        };
        notes.extend(refused);
        let mut objects = self.objects.clone();
        let types = |pool: &Pool| offerings.types.get(&pool.name).map(|types| &**types);
        let disruption = &self.plan_inputs.settings.disruption;
        settle::drift(&mut objects, &self.plan_inputs.registry, types, disruption, self.at);
        let PlanInputs { registry, classes, settings, repair } = &self.plan_inputs;
        let view = View::new(Arc::clone(settings), Arc::clone(registry), classes);
        notes.extend(view.load(&objects.values()).iter().map(ToString::to_string));
        // The view leaves pods out that it cannot read, and logs them, which is of no use here.
        let pods = objects.of_kind("Pod").filter_map(|(_, pod)| Pod::deserialize(pod).ok());
        notes.extend(pods.filter_map(|pod| convert::pod(&pod).err()).map(|error| error.to_string()));
        for (pool, types) in &offerings.types {
            view.set_instance_types(pool, Some(Arc::clone(types)));
        }
        for (pool, problem) in &offerings.problems {
            notes.push(format!("instance types of pool `{pool}` are not known: {problem}"));
        }
        let mut snapshot = view.snapshot(self.at).expect("invariant: a loaded view is complete");
        for pool in &self.deleted {
            if let Some(types) = offerings.types.get(&pool.name) {
                snapshot.instance_types.insert(pool.name.clone(), Arc::clone(types));
            }
        }
        snapshot.zones_away.clone_from(&offerings.zones_away);
        snapshot.repair = Arc::clone(repair);
        if settings.gates.capacity_buffer {
            let (room, unknown) = buffers::pods(&self.objects, self.at);
            // After the pods that wait, as the controller has them.
            snapshot.pending.extend(room.into_iter().map(Arc::new));
            notes.extend(unknown);
        }
        (snapshot, notes)
    }

    /// Forecasts the changes; `notes` are those of the caller, before those of the plan.
    pub fn forecast(&self, offerings: &Offerings, mut notes: Vec<String>) -> Forecast {
        let (snapshot, more) = self.snapshot(offerings);
        notes.extend(more);
        let deleted = self.deleted.iter().map(|pool| pool.name.clone()).collect();
        forecast_without(&snapshot, &deleted, notes).with_may_drift(self.may_drift.clone())
    }

    /// The world as one stream of documents that plans the same.
    pub fn export(&self, offerings: &Offerings, about: About<'_>, anonymous: bool) -> String {
        export::stream(&self.objects, self.at, offerings, about, anonymous)
    }
}

/// Pools of node classes that the provider has.
fn pools_of(objects: &Objects, plan_inputs: &PlanInputs) -> Vec<Pool> {
    let read = |object: &Value| NodePool::deserialize(object).ok();
    let pools = objects.of_kind("NodePool").filter_map(|(_, object)| read(object));
    let pools = pools.filter_map(|pool| convert::pool(&pool, &plan_inputs.registry).ok());
    let ours = |pool: &Pool| plan_inputs.classes.iter().any(|kind| kind.owns(&pool.template.node_class));
    pools.filter(ours).collect()
}

/// Refuses an object of which it cannot be said how many pods or nodes it is to have, or that has more than there can be.
fn countable(object: &Value) -> Result<(), WorldError> {
    let name = || ObjectKey::of(object).to_string();
    if let Some((field, asked)) = too_many(object) {
        return Err(WorldError::TooMany { object: name(), field, asked });
    }
    match workloads::no_number(object) {
        Some((field, written)) => {
            Err(WorldError::NoNumber { object: name(), field, written: written.clone() })
        }
        None => Ok(()),
    }
}

/// Refuses pods of manifests that an API server would refuse.
fn readable(objects: &Objects) -> Result<(), WorldError> {
    let (mut found, mut said) = (Vec::new(), BTreeSet::new());
    for (key, pod) in objects.of_kind("Pod").filter(|(_, pod)| workloads::is_planned(pod)) {
        let read = serde_path_to_error::deserialize(pod);
        let read = read.map_err(|error| format!("{error}; correct the manifest"));
        let read = read.and_then(|pod: Pod| convert::pod(&pod).map_err(|error| error.to_string()));
        if let Err(problem) = read {
            let pod = format!("{}/{}", key.namespace, key.name);
            // Pods of one workload have the same fault.
            if said.insert(problem.replace(&pod, "")) {
                found.push(RefusedPod { pod, problem });
            }
        }
    }
    none(found)
}

/// Refuses pods of manifests that an API server would not store. Of a class that is not among the objects it is not known
/// whether the cluster has it; says what is missing without it.
fn admitted(refused: Refusals) -> Result<Vec<String>, WorldError> {
    let (mut notes, mut found) = (Vec::new(), Vec::new());
    for (why, key) in refused {
        let pod = format!("{}/{}", key.namespace, key.name);
        match why {
            Refused::NoPriorityClass(name) => notes.push(format!(
                "PriorityClass `{name}` of pod `{pod}` is not among the objects: it is planned without a priority"
            )),
            Refused::NoRuntimeClass(name) => notes.push(format!(
                "RuntimeClass `{name}` of pod `{pod}` is not among the objects: its overhead, node selector and \
                 tolerations do not count"
            )),
            Refused::Forbidden(problem) => found.push(RefusedPod { pod, problem }),
        }
    }
    none(found).map(|()| notes)
}

fn none(found: Vec<RefusedPod>) -> Result<(), WorldError> {
    if found.is_empty() { Ok(()) } else { Err(WorldError::Unreadable(found)) }
}

/// Objects that the controller does not look at with these settings.
fn closed_gates(objects: &Objects, settings: &Settings) -> Vec<String> {
    let gates = &settings.gates;
    let there = |kind: &str| objects.of_kind(kind).next().is_some();
    let has_static_pools = objects.of_kind("NodePool").any(|(_, pool)| !pool["spec"]["replicas"].is_null());
    let closed = [
        (!gates.node_overlay && there("NodeOverlay"), "NodeOverlays", "NodeOverlay"),
        (!gates.capacity_buffer && there("CapacityBuffer"), "CapacityBuffers", "CapacityBuffer"),
        (!gates.static_capacity && has_static_pools, "pools with replicas", "StaticCapacity"),
    ];
    let said = |(closed, what, gate): (bool, &str, &str)| {
        closed.then(|| {
            format!(
                "{what} take no part: feature gate {gate} is closed; --set feature-gates={gate}=true opens it"
            )
        })
    };
    closed.into_iter().filter_map(said).collect()
}
