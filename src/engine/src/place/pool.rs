//! The pools that may open in-flight nodes, in the order they are tried (spec scheduling 11.6 and 15).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{
    InstanceType, Labels, Pool, PoolName, PoolOutcome, PoolRefusal, Reason, Requirements, Resources, Snapshot,
};

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::daemons::{DaemonGroup, Daemons};
use crate::index::{CatalogueIx, Ix, IxVec, PoolIx, VariantIx};
use crate::place::constraint::limits::{Limits, usage};
use crate::place::constraint::min_values;
use crate::rules::{RuleSetId, Rules};
use crate::volumes::Volumes;

/// A pool that takes part.
#[derive(Debug, Clone)]
pub(crate) struct PoolSpace<'a> {
    pub(crate) pool: &'a Pool,
    /// Labels of its claims: the template's, the pool's name and the node class.
    pub(crate) labels: Labels,
    /// Requirements that its claims start with: template requirements and labels.
    pub(crate) template: Requirements,
    /// Interned form of `template`.
    pub(crate) rules: RuleSetId,
    /// Catalogue that holds its instance types.
    pub(crate) catalogue: CatalogueIx,
    /// Instance types its own requirements leave.
    pub(crate) base: Bits<VariantIx>,
    /// Instance types of `base` by the daemons that will run on them.
    pub(crate) daemons: Vec<DaemonGroup>,
}

/// The pools of a pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pools<'a> {
    /// Pools that take part, in the order they are tried.
    pub(crate) spaces: IxVec<PoolIx, PoolSpace<'a>>,
    /// Outcome of each pool: it takes part, or the reason why not.
    pub(crate) outcomes: BTreeMap<PoolName, PoolOutcome>,
}

/// The pools of a snapshot, apart by how long their parts stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Gathered<'a> {
    /// Pools, which never change.
    pub(crate) pools: Pools<'a>,
    /// Instance types, shared by pools that offer the same ones.
    pub(crate) catalogues: IxVec<CatalogueIx, Catalogue<'a>>,
    /// Resources that each pool may still add, in the order of the pools.
    pub(crate) limits: IxVec<PoolIx, Limits>,
}

impl<'a> Gathered<'a> {
    /// Gathers the pools of `snapshot`. `asked` are resources that devices stand for where a machine has none.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        (volumes, daemons, asked): (&Volumes<'_>, &Daemons<'_>, &Resources),
        rules: &mut Rules<'a>,
        resources: &mut ResourceIndex,
    ) -> Self {
        let mut pools: Vec<&Pool> = snapshot.pools.iter().map(AsRef::as_ref).collect();
        // Heavier first; equal weights by name, descending, as users of the reference are used to.
        pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
        let usage = usage(snapshot);
        let mut gathered = Self::default();
        let mut sources: Vec<&[Arc<InstanceType>]> = Vec::new();
        for pool in pools {
            let types = match eligible(pool, snapshot) {
                Ok(types) => types,
                Err(reason) => {
                    gathered.pools.outcomes.insert(pool.name.clone(), PoolOutcome::Skipped(reason));
                    continue;
                }
            };
            let known = sources.iter().position(|source| same_types(source, types));
            let mut add = || {
                sources.push(types);
                gathered.catalogues.push(Catalogue::new(
                    types,
                    (volumes, asked, &snapshot.devices),
                    rules,
                    resources,
                ))
            };
            let catalogue = known.map_or_else(&mut add, CatalogueIx::new);
            let index = &mut gathered.catalogues[catalogue];
            match space(pool, (catalogue, index), daemons, snapshot, rules, resources) {
                Ok(space) => {
                    gathered.limits.push(Limits::new(pool, usage.get(&pool.name)));
                    gathered.pools.outcomes.insert(pool.name.clone(), PoolOutcome::Used { launches: 0 });
                    gathered.pools.spaces.push(space);
                }
                Err(reason) => {
                    gathered.pools.outcomes.insert(pool.name.clone(), PoolOutcome::Skipped(reason));
                }
            }
        }
        gathered
    }
}

impl Pools<'_> {
    /// Returns the refusals for a pod when no pool takes part: the reason of each pool that could, or that there is none.
    pub(crate) fn left_out(&self) -> Vec<PoolRefusal> {
        let without_types = |(name, outcome): (&PoolName, &PoolOutcome)| match outcome {
            PoolOutcome::Skipped(reason) => {
                // Pools that are static, going or not ready take no pod at all: their reasons say nothing about this one.
                let is_said = matches!(
                    reason.code,
                    ReasonCode::NoInstanceTypes | ReasonCode::NoCompatibleInstanceTypes
                );
                is_said.then(|| PoolRefusal { pool: Some(name.clone()), reason: reason.clone() })
            }
            PoolOutcome::Used { .. } => None,
        };
        let said: Vec<_> = self.outcomes.iter().filter_map(without_types).collect();
        if said.is_empty() {
            return vec![PoolRefusal { pool: None, reason: Reason::bare(ReasonCode::NoPools) }];
        }
        said
    }
}

/// The instance types of `pool`, if it may open in-flight nodes.
fn eligible<'a>(pool: &Pool, snapshot: &'a Snapshot) -> Result<&'a [Arc<InstanceType>], Reason> {
    if pool.replicas.is_some() {
        return Err(Reason::bare(ReasonCode::PoolStatic));
    }
    if pool.deleting {
        return Err(Reason::bare(ReasonCode::PoolDeleting));
    }
    if !pool.ready {
        return Err(Reason::bare(ReasonCode::PoolNotReady));
    }
    match snapshot.instance_types.get(&pool.name) {
        Some(types) if !types.is_empty() => Ok(types),
        _ => Err(Reason::bare(ReasonCode::NoInstanceTypes)),
    }
}

/// Returns whether two lists hold the very same objects, so that one catalogue serves both.
fn same_types(a: &[Arc<InstanceType>], b: &[Arc<InstanceType>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn space<'a>(
    pool: &'a Pool,
    (catalogue, index): (CatalogueIx, &mut Catalogue<'a>),
    daemons: &Daemons<'_>,
    snapshot: &Snapshot,
    rules: &mut Rules<'a>,
    resources: &mut ResourceIndex,
) -> Result<PoolSpace<'a>, Reason> {
    let labels = claim_labels(pool);
    let mut template = pool.template.requirements.clone();
    template.add_all(&Requirements::from_labels(rules.registry(), &labels));
    let set = rules.set(&template);
    // A type of which less than nothing is left holds no pod, not even one without requests.
    let base = index.mask(set, rules).both.and(&index.fitting(&Amounts::default()));
    if base.is_empty() {
        return Err(Reason::new(ReasonCode::NoCompatibleInstanceTypes, &template));
    }
    let short = min_values::shortfalls(set, base.iter(), index, rules);
    if !short.is_empty() && snapshot.settings.min_values_policy == MinValuesPolicy::Strict {
        return Err(Reason::new(ReasonCode::NoCompatibleInstanceTypes, min_values::reason(&short)));
    }
    let mut groups = daemons.groups(pool, &template, index, rules, resources);
    for group in &mut groups {
        group.variants.intersect(&base);
    }
    groups.retain(|group| !group.variants.is_empty());
    Ok(PoolSpace { pool, labels, template, rules: set, catalogue, base, daemons: groups })
}

/// Labels every claim of `pool` carries.
fn claim_labels(pool: &Pool) -> Labels {
    let mut labels = pool.template.labels.clone();
    labels.insert(label::NODE_POOL.into(), pool.name.as_str().into());
    let class = &pool.template.node_class;
    if !class.kind.is_empty() {
        labels.insert(class.label_key(), class.name.as_str().into());
    }
    labels
}
