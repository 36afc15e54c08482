//! What daemon sets will take of a new or existing node (spec scheduling 16).

use std::collections::BTreeMap;

use karpenter_model::names::label;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    Daemon, HostPort, LabelRegistry, Pod, Pool, Requirement, Requirements, Resources, Settings, Taint,
    Toleration,
};

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{IxVec, VariantIx};
use crate::rules::{RuleSetId, Rules};

/// Instance types on which exactly the same daemons will run.
#[derive(Debug, Clone)]
pub(crate) struct DaemonGroup {
    /// The instance types.
    pub(crate) variants: Bits<VariantIx>,
    /// What the daemons request, pod slots included.
    pub(crate) requests: Resources,
    /// The same, dense.
    pub(crate) overhead: Amounts,
    /// Host ports the daemons hold.
    pub(crate) ports: Vec<HostPort>,
}

/// Daemons that can be planned for: those with resource claims are left out while claims are ignored.
pub(crate) fn planned<'a>(daemons: impl Iterator<Item = &'a Daemon>, settings: &Settings) -> Vec<&'a Daemon> {
    daemons.filter(|daemon| !(settings.ignore_dra_requests && daemon.pod.has_resource_claims)).collect()
}

/// The requirement sets of `pod`, one per required node affinity term that could be the one that holds;
/// preferences do not count.
pub(crate) fn alternatives(pod: &Pod, registry: &LabelRegistry) -> Vec<Requirements> {
    let base = Requirements::from_labels(registry, &pod.node_selector);
    if pod.required_terms.is_empty() {
        return vec![base];
    }
    let with_term = |term: &karpenter_model::NodeTerm| {
        let mut requirements = base.clone();
        requirements.add_all(&Requirements::from_expressions(registry, &term.expressions));
        requirements
    };
    pod.required_terms.iter().map(with_term).collect()
}

/// Groups the instance types of `pool` by the daemons that will run on them.
pub(crate) fn groups<'a>(
    pool: &Pool,
    template: &Requirements,
    daemons: &[&Daemon],
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
    resources: &mut ResourceIndex,
) -> Vec<DaemonGroup> {
    let simulated = with_life_cycle_labels(template, rules.registry());
    let simulated = rules.set(&simulated);
    let mut daemons_of: IxVec<VariantIx, Vec<usize>> = IxVec::filled(Vec::new(), catalogue.len());
    for (index, daemon) in daemons.iter().enumerate() {
        if tolerates(&daemon.pod, &pool.template.taints) {
            for variant in variants_for(&daemon.pod, simulated, catalogue, rules).iter() {
                daemons_of[variant].push(index);
            }
        }
    }
    let mut groups: BTreeMap<Vec<usize>, Bits<VariantIx>> = BTreeMap::new();
    for (variant, running) in daemons_of.into_enumerated() {
        groups.entry(running).or_insert_with(|| Bits::none(catalogue.len())).insert(variant);
    }
    let group = |(running, variants): (Vec<usize>, Bits<VariantIx>)| {
        let pods = || running.iter().map(|index| &daemons[*index].pod);
        let requests: Resources = pods().map(|pod| &pod.requests).sum();
        let overhead = resources.amounts(&requests);
        DaemonGroup {
            variants,
            requests,
            overhead,
            ports: pods().flat_map(|pod| pod.host_ports.clone()).collect(),
        }
    };
    groups.into_iter().map(group).collect()
}

/// Daemons may select nodes by labels that only appear once a node is up; claims never carry those.
fn with_life_cycle_labels(template: &Requirements, registry: &LabelRegistry) -> Requirements {
    let mut simulated = template.clone();
    for key in [label::REGISTERED, label::INITIALIZED] {
        simulated.add(Requirement::one_of(registry.normalize_key(&key.into()), ["true".into()]));
    }
    simulated
}

/// The daemon controller adds no toleration of `PreferNoSchedule`, but the scheduler does not insist on it.
pub(crate) fn tolerates(pod: &Pod, taints: &[Taint]) -> bool {
    let mut tolerations = pod.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    first_untolerated(taints, &tolerations).is_none()
}

fn variants_for<'a>(
    pod: &Pod,
    template: RuleSetId,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
) -> Bits<VariantIx> {
    let mut variants = Bits::none(catalogue.len());
    for alternative in alternatives(pod, rules.registry()) {
        let alternative = rules.set(&alternative);
        if rules.meet(template, alternative).is_some() {
            variants.unite(&catalogue.requirement_mask(alternative, rules));
        }
    }
    variants
}
