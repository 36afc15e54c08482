//! Counts without some machines, and back again: every change while a journal is kept can be taken back.

use std::collections::BTreeMap;

use karpenter_model::{LabelRegistry, Labels, Namespace, Node, NodeId, Pod, label};

use super::group::Kind;
use super::lookup::Lookup;
use super::{Change, ChangeKind, Domain, ProfileId, Topology, domain_of};

/// Groups that count pods which end with their machine, by machine; one entry for each pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bystanders(BTreeMap<NodeId, Vec<usize>>);

impl Topology {
    /// What `pods` count for on their machines. Groups are numbered by now: none may be added later.
    pub(crate) fn bystanders<'p>(&self, pods: impl Iterator<Item = (&'p NodeId, &'p Pod)>) -> Bystanders {
        let lookup = Lookup::new(self.groups.keys());
        let mut known: BTreeMap<(&Namespace, &Labels), Vec<usize>> = BTreeMap::new();
        let mut bystanders = Bystanders::default();
        for (node, pod) in pods {
            let (namespace, labels) = (&pod.key.namespace, &pod.labels);
            let counting = known.entry((namespace, labels)).or_insert_with(|| {
                let counts = |group: &usize| {
                    let key = &self.groups.keys()[*group];
                    key.kind != Kind::Inverse && key.selects(namespace, labels)
                };
                lookup.candidates(labels).into_iter().filter(counts).collect()
            });
            if !counting.is_empty() {
                bystanders.0.entry(node.clone()).or_default().extend_from_slice(counting);
            }
        }
        bystanders
    }

    /// The pods of `node` that end with it count no more.
    pub(crate) fn forget_bystanders(&mut self, all: &Bystanders, node: &Node, registry: &LabelRegistry) {
        self.uncount(all.0.get(&node.id).into_iter().flatten().copied(), node, registry);
    }

    /// Keeps a journal from now on.
    pub(crate) fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Forgets what could have been taken back: it is how things are now.
    pub(crate) fn settle(&mut self) {
        self.journal.iter_mut().for_each(Vec::clear);
    }

    /// Takes back every change since the journal was begun or settled.
    pub(crate) fn revert(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        for Change { group, domain, kind } in journal.drain(..).rev() {
            let (_, group) = self.groups.get_index_mut(group).expect("invariant: groups are never removed");
            match kind {
                ChangeKind::Added => group.remove(&domain),
                ChangeKind::Removed => group.add(domain),
                ChangeKind::Unknown => {
                    if let Domain::Value(value) = domain {
                        group.know(value, 1);
                    }
                }
            }
        }
        self.journal = Some(journal);
    }

    /// Counts a pod of this profile no more on `node`, where it counts now: as one that others look for when
    /// `matched`, as one that keeps others away when `owner`.
    pub(crate) fn forget_pod(
        &mut self,
        id: ProfileId,
        matched: bool,
        owner: bool,
        node: &Node,
        registry: &LabelRegistry,
    ) {
        let (profile, links) = self.entry(id);
        let matched = links.counted.iter().filter(|_| matched);
        let keeping_away = profile.owned_inverse.iter().filter(|_| owner);
        let counting: Vec<usize> = matched.chain(keeping_away).copied().collect();
        self.uncount(counting.into_iter(), node, registry);
    }

    /// One pod less on `node` in each of `groups`, as far as they count pods there.
    fn uncount(&mut self, groups: impl Iterator<Item = usize>, node: &Node, registry: &LabelRegistry) {
        for index in groups {
            let (key, group) = self.groups.get_index_mut(index).expect("invariant: groups are never removed");
            if let (Some(domain), true) =
                (domain_of(node, &key.topology_key), key.counts_node(node, registry))
            {
                let domain = Domain::Value(domain);
                group.remove(&domain);
                let change = Change { group: index, domain, kind: ChangeKind::Removed };
                self.journal.iter_mut().for_each(|journal| journal.push(change.clone()));
            }
        }
    }

    /// `node` no longer makes its domains known.
    pub(crate) fn forget_node(&mut self, node: &Node, registry: &LabelRegistry) {
        for (index, (key, group)) in self.groups.iter_mut().enumerate() {
            if key.topology_key == label::HOSTNAME || !key.counts_node(node, registry) {
                continue;
            }
            if let Some(domain) = domain_of(node, &key.topology_key) {
                group.unknow(&domain);
                let change =
                    Change { group: index, domain: Domain::Value(domain), kind: ChangeKind::Unknown };
                self.journal.iter_mut().for_each(|journal| journal.push(change.clone()));
            }
        }
    }
}
