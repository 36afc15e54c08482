//! Daemon sets on a node, the same whether it is planned, coming up or there (spec scheduling 16).
//!
//! A node counts as it will be once it is up: with its life-cycle labels, without the taints of its start, and with a host
//! name. The host name of a node that does not exist yet is one that no daemon set can ask for. Some labels of a node that
//! is not registered are unknown: daemons that may run there count, as they did when it was planned.
//! [`groups`](Daemons::groups) returns them for new nodes, [`on_nodes`](Daemons::on_nodes) for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::pod::NODE_NAME;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    Daemon, HostPort, HostPorts, InstanceType, LabelKey, LabelRegistry, LabelValue, Node, Pod, Pool,
    PoolName, Requirement, Requirements, Resources, Snapshot, Taint, Toleration,
};

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::conjunction::alternatives;
use crate::index::{DaemonIx, IxVec, SnapshotNodeIx, VariantIx};
use crate::interning::InternedMap;
use crate::node_labels::{Fact, fact};
use crate::rules::{RuleSetId, Rules};
use crate::volumes::Volumes;

/// Name of a node that no daemon set can ask for, because it is not a valid name.
const UNNAMED: &str = "?";

/// Labels that every node we manage has once it is up.
const LIFE_CYCLE: [&str; 2] = [label::REGISTERED, label::INITIALIZED];

/// A daemon set that is planned for.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) daemon: &'a Daemon,
    /// Alternatives for its nodes, one of which must hold.
    pub(crate) alternatives: Vec<Requirements>,
    /// Attachments of its volumes.
    attachments: Resources,
}

/// The daemon sets that are planned for: those with resource claims are not while claims are ignored.
#[derive(Debug)]
pub(crate) struct Daemons<'a> {
    all: IxVec<DaemonIx, Planned<'a>>,
    registry: &'a LabelRegistry,
    /// Label keys that they name.
    keys: Vec<LabelKey>,
}

/// Instance types on which exactly the same daemons will run.
#[derive(Debug, Clone)]
pub(crate) struct DaemonGroup {
    /// The instance types.
    pub(crate) variants: Bits<VariantIx>,
    pub(crate) daemons: Vec<DaemonIx>,
    /// Requests of the daemons, pod slots included.
    pub(crate) requests: Resources,
    /// Requests with attachments of the daemons' volumes, dense.
    pub(crate) overhead: Amounts,
    /// Host ports the daemons hold.
    pub(crate) ports: Vec<HostPort>,
}

/// The daemons that are still to come to a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coming {
    /// Daemons that have no pod there; `true` where it comes whatever the node turns out to be, and has room.
    pub(crate) daemons: Vec<(DaemonIx, bool)>,
    /// Requests in addition to those of the daemons that run there.
    pub(crate) requests: Resources,
    /// Attachments of their volumes.
    pub(crate) attachments: Resources,
}

/// Facts that decide about the daemons of a node.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    /// Facts about the keys that daemon sets name, in their order.
    facts: Vec<Fact>,
    taints: Vec<Taint>,
    /// Pool of a node that is not registered, and the fact about its instance type.
    unregistered: Option<(Option<PoolName>, Fact)>,
}

impl<'a> Daemons<'a> {
    /// The daemon sets of `snapshot` with their volumes.
    pub(crate) fn new(snapshot: &'a Snapshot, volumes: &Volumes<'_>) -> Self {
        let ignored = snapshot.settings.ignore_dra_requests;
        let all = snapshot.daemons.iter().filter(|daemon| !(ignored && daemon.pod.has_resource_claims));
        let planned = |daemon: &'a Arc<Daemon>| Planned {
            daemon,
            alternatives: alternatives(&daemon.pod, &snapshot.registry),
            attachments: volumes.attachments(&daemon.pod),
        };
        let all: IxVec<DaemonIx, Planned<'_>> = all.map(planned).collect();
        let asked = all.iter().flat_map(|daemon| &daemon.alternatives).flat_map(Requirements::iter);
        let keys: BTreeSet<LabelKey> = asked.map(|asked| asked.key().clone()).collect();
        Self { all, registry: &snapshot.registry, keys: keys.into_iter().collect() }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DaemonIx, &Planned<'a>)> {
        self.all.enumerate()
    }

    /// The daemon set `index`.
    pub(crate) fn at(&self, index: DaemonIx) -> &Planned<'a> {
        &self.all[index]
    }

    /// Groups the instance types of `pool` by the daemons that will run on them.
    pub(crate) fn groups<'s>(
        &self,
        pool: &Pool,
        template: &Requirements,
        catalogue: &mut Catalogue<'s>,
        rules: &mut Rules<'s>,
        resources: &mut ResourceIndex,
    ) -> Vec<DaemonGroup> {
        let template = rules.set(&once_up(template, rules.registry()));
        let mut daemons_of: IxVec<VariantIx, Vec<DaemonIx>> = IxVec::filled(Vec::new(), catalogue.len());
        for (index, planned) in self.iter() {
            // Startup taints are gone once the node is up, so they keep no daemon away (spec scheduling 16).
            if tolerates(&planned.daemon.pod, &pool.template.taints) {
                for variant in planned.variants(template, catalogue, rules).iter() {
                    daemons_of[variant].push(index);
                }
            }
        }
        let mut groups: BTreeMap<Vec<DaemonIx>, Bits<VariantIx>> = BTreeMap::new();
        for (variant, running) in daemons_of.into_enumerated() {
            groups.entry(running).or_insert_with(|| Bits::none(catalogue.len())).insert(variant);
        }
        let group = |(daemons, variants): (Vec<DaemonIx>, Bits<VariantIx>)| {
            let running = || daemons.iter().map(|index| &self.all[*index]);
            let requests: Resources = running().map(|planned| &planned.daemon.pod.requests).sum();
            let attachments: Resources = running().map(|planned| &planned.attachments).sum();
            let overhead = resources.amounts(&requests.merge(&attachments));
            let ports = running().flat_map(|planned| planned.daemon.pod.host_ports.clone()).collect();
            DaemonGroup { variants, daemons, requests, overhead, ports }
        };
        groups.into_iter().map(group).collect()
    }

    /// The daemons that are still to come to each node of `snapshot`; none to those that are leaving.
    pub(crate) fn on_nodes(&self, snapshot: &Snapshot) -> IxVec<SnapshotNodeIx, Coming> {
        if self.all.is_empty() {
            return IxVec::filled(Coming::default(), snapshot.nodes.len());
        }
        // By kind: the daemons that run there, and whether they do whatever the node turns out to be.
        let mut known: InternedMap<Kind, Vec<(DaemonIx, bool)>> = InternedMap::default();
        let coming = |node: &Arc<Node>| {
            if node.is_leaving() {
                return Coming::default();
            }
            let running =
                known.entry(self.kind(node)).or_insert_with_key(|kind| self.running(kind, snapshot));
            self.coming(node, running)
        };
        snapshot.nodes.iter().map(coming).collect()
    }

    /// Returns the daemons that `node`, on which `running` run, is still to get.
    fn coming(&self, node: &Node, running: &[(DaemonIx, bool)]) -> Coming {
        let mut coming = Coming::default();
        let there: Vec<&Pod> =
            node.pods.iter().map(AsRef::as_ref).filter(|pod| pod.is_daemon() && !pod.is_terminal()).collect();
        let mut left = None;
        for (index, certain) in running {
            let Planned { daemon, attachments, .. } = &self.all[*index];
            let own = || there.iter().filter(|pod| daemon.owns(pod));
            let has: Resources = own().map(|pod| &pod.requests).sum();
            // A pod of an earlier template may be smaller than the one that replaces it.
            coming.requests.add(&daemon.pod.requests.subtract(&has).floor_zero());
            if own().next().is_none() {
                coming.attachments.add(attachments);
                let left = left.get_or_insert_with(|| Left::of(node));
                coming.daemons.push((*index, *certain && left.holds(&daemon.pod)));
            }
        }
        coming
    }

    fn kind(&self, node: &Node) -> Kind {
        let facts = self.keys.iter().map(|key| self.fact(node, key)).collect();
        let unregistered = (!node.registered())
            .then(|| (node.pool(), fact(node, &label::INSTANCE_TYPE.into(), self.registry)));
        Kind { facts, taints: node.effective_taints(), unregistered }
    }

    /// Returns the fact about `key` of `node` once it is up.
    fn fact(&self, node: &Node, key: &LabelKey) -> Fact {
        if LIFE_CYCLE.contains(&key.as_str()) && node.is_managed() {
            return Fact::Is("true".into());
        }
        let name = node.name.as_ref().map(|name| LabelValue::from(name.as_str()));
        let name = match key.as_str() {
            NODE_NAME => name,
            label::HOSTNAME => node.labels.get(label::HOSTNAME).cloned().or(name),
            _ => return fact(node, key, self.registry),
        };
        // Most names appear in no daemon set, and all of those are the same to them.
        let mut asked = self.all.iter().flat_map(|planned| &planned.alternatives);
        let matters = |name: &LabelValue| {
            asked.any(|asked| {
                asked.get(key.as_str()).is_some_and(|own| own.allows(name.as_str()) != own.allows(UNNAMED))
            })
        };
        Fact::Is(name.filter(matters).unwrap_or_else(|| UNNAMED.into()))
    }

    /// The daemons that run on nodes of `kind`, and whether they do whatever such a node turns out to be.
    fn running(&self, kind: &Kind, snapshot: &Snapshot) -> Vec<(DaemonIx, bool)> {
        let types = kind.unregistered.as_ref().and_then(|(pool, own)| {
            let types = snapshot.instance_types.get(pool.as_ref()?)?.iter();
            let may_be = |one: &&Arc<InstanceType>| match own {
                Fact::Is(name) => one.name.as_str() == name.as_str(),
                Fact::Within(own) => own.allows(one.name.as_str()),
                Fact::Absent => true,
            };
            Some(types.filter(may_be).collect::<Vec<_>>())
        });
        let certain = |asked: &Requirements| asked.iter().all(|asked| self.of(kind, asked).satisfies(asked));
        let possible = |asked: &Requirements| {
            let may = |asked: &Requirement| match self.of(kind, asked) {
                Fact::Is(value) => asked.allows(value.as_str()),
                Fact::Within(own) => {
                    // `DoesNotExist` and `NotIn` need share no value: a node without the label satisfies
                    // both.
                    own.intersects(asked) || own.accepts_absence() && asked.accepts_absence()
                }
                // A well-known label that is missing may still come with the machine.
                Fact::Absent => asked.accepts_absence() || self.registry.is_well_known(asked.key().as_str()),
            };
            let comes_as = |one: &&Arc<InstanceType>| one.requirements.intersects(asked).is_ok();
            asked.iter().all(may) && types.as_ref().is_none_or(|types| types.iter().any(comes_as))
        };
        let running = self.iter().filter_map(|(index, planned)| {
            let certain = planned.alternatives.iter().any(certain);
            let runs = certain || kind.unregistered.is_some() && planned.alternatives.iter().any(possible);
            (runs && tolerates(&planned.daemon.pod, &kind.taints)).then_some((index, certain))
        });
        running.collect()
    }

    /// Returns the fact about the key of `asked` on nodes of `kind`.
    fn of<'k>(&self, kind: &'k Kind, asked: &Requirement) -> &'k Fact {
        let place = self.keys.binary_search(asked.key());
        place.map_or(&Fact::Absent, |place| &kind.facts[place])
    }
}

impl Planned<'_> {
    /// The instance types on which its pods run in a pool of this `template`.
    fn variants<'s>(
        &self,
        template: RuleSetId,
        catalogue: &mut Catalogue<'s>,
        rules: &mut Rules<'s>,
    ) -> Bits<VariantIx> {
        let mut variants = Bits::none(catalogue.len());
        for alternative in &self.alternatives {
            let alternative = rules.set(alternative);
            if rules.meet(template, alternative).is_some() {
                variants.unite(&catalogue.requirement_mask(alternative, rules));
            }
        }
        variants
    }
}

/// Room left on a node for daemons that have no pod there.
struct Left {
    room: Resources,
    ports: HostPorts,
}

impl Left {
    fn of(node: &Node) -> Self {
        let mut ports = HostPorts::default();
        node.pods.iter().for_each(|pod| ports.add(&pod.key, &pod.host_ports));
        Self { room: node.effective_allocatable().subtract(&node.requested()), ports }
    }

    fn holds(&self, pod: &Pod) -> bool {
        pod.requests.fits(&self.room) && self.ports.conflict(&pod.key, &pod.host_ports).is_none()
    }
}

/// Returns whether the launch of a node has no choice about the label `key`.
pub(crate) fn comes_by_itself(key: &str) -> bool {
    LIFE_CYCLE.contains(&key) || key == label::HOSTNAME || key == NODE_NAME
}

/// `template` with what nodes have once they are up; claims never carry it.
fn once_up(template: &Requirements, registry: &LabelRegistry) -> Requirements {
    let mut once_up = template.clone();
    let names = [(label::HOSTNAME, UNNAMED), (NODE_NAME, UNNAMED)];
    for (key, value) in LIFE_CYCLE.map(|key| (key, "true")).into_iter().chain(names) {
        once_up.add(Requirement::one_of(registry.normalize_key(&key.into()), [value.into()]));
    }
    once_up
}

/// The daemon controller adds no toleration of `PreferNoSchedule`, but the scheduler does not insist on it.
fn tolerates(pod: &Pod, taints: &[Taint]) -> bool {
    let mut tolerations = pod.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    first_untolerated(taints, &tolerations).is_none()
}
