//! Nodes that are alike as one box.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::Price;

use crate::picture::{Amounts, Drawn, Fate, Filling};

/// Most boxes of nodes that are alike in every pod; above it those of one pool and type are one.
const BOXES: usize = 48;
/// Most pods drawn one by one.
const PODS: usize = 40;

/// Nodes drawn as one box.
pub(super) struct Block<'a> {
    pub(super) first: &'a Drawn,
    pub(super) names: Vec<&'a str>,
    pub(super) zones: BTreeSet<&'a str>,
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) price: Option<Price>,
    pub(super) room: Amounts,
    pub(super) taken: Amounts,
    /// Parts that fill it, in the order they are drawn.
    pub(super) parts: Vec<Part<'a>>,
}

/// A part of a box: one pod, or all of one workload.
pub(super) struct Part<'a> {
    pub(super) workload: &'a str,
    pub(super) daemon: bool,
    pub(super) pods: usize,
    pub(super) takes: Amounts,
}

/// The boxes of `nodes`.
pub(super) fn blocks(nodes: &[Drawn]) -> Vec<Block<'_>> {
    let mut alike: BTreeMap<Drawn, Vec<&Drawn>> = BTreeMap::new();
    for node in nodes {
        alike.entry(Drawn { name: None, ..node.clone() }).or_default().push(node);
    }
    if alike.len() <= BOXES {
        return alike.into_values().filter_map(|nodes| block(&nodes)).collect();
    }
    let mut alike: BTreeMap<(&str, &str, &str, Fate), Vec<&Drawn>> = BTreeMap::new();
    for node in nodes {
        let key = (node.pool.as_str(), node.instance_type.as_str(), node.capacity_type.as_str(), node.fate);
        alike.entry(key).or_default().push(node);
    }
    alike.into_values().filter_map(|nodes| block(&nodes)).collect()
}

fn block<'a>(nodes: &[&'a Drawn]) -> Option<Block<'a>> {
    let (first, rest) = nodes.split_first()?;
    let all = || nodes.iter().flat_map(|node| &node.pods);
    let sum = |amounts: &mut dyn Iterator<Item = Amounts>| amounts.fold(Amounts::default(), Amounts::plus);
    let pods = all().filter(|pod| pod.workload != DAEMONS).count();
    let identical = rest.iter().all(|node| node.pods == first.pods);
    // Nodes that are alike are drawn as one of them, others as their sum.
    let (room, taken) = if identical {
        (first.room, sum(&mut first.pods.iter().map(|pod| pod.takes)))
    } else {
        (sum(&mut nodes.iter().map(|node| node.room)), sum(&mut all().map(|pod| pod.takes)))
    };
    let parts = match (identical, first.pods.len()) {
        (true, ..=PODS) => first.pods.iter().map(part).collect(),
        (true, _) => merged(first.pods.iter()),
        (false, _) => merged(all()),
    };
    Some(Block {
        first,
        names: nodes.iter().filter_map(|node| node.name.as_deref()).collect(),
        zones: nodes.iter().map(|node| node.zone.as_str()).filter(|zone| !zone.is_empty()).collect(),
        nodes: nodes.len(),
        pods,
        price: nodes.iter().map(|node| node.price).sum(),
        room,
        taken,
        parts,
    })
}

/// Name of the room that daemon sets take on a node that does not exist yet.
const DAEMONS: &str = "daemon sets";

fn part(pod: &Filling) -> Part<'_> {
    Part { workload: &pod.workload, daemon: pod.daemon, pods: 1, takes: pod.takes }
}

fn merged<'a>(pods: impl Iterator<Item = &'a Filling>) -> Vec<Part<'a>> {
    let mut by_workload: BTreeMap<(bool, &str), Part<'a>> = BTreeMap::new();
    for pod in pods {
        let all = by_workload.entry((pod.daemon, &pod.workload)).or_insert_with(|| Part {
            pods: 0,
            takes: Amounts::default(),
            ..part(pod)
        });
        all.pods += 1;
        all.takes = all.takes.plus(pod.takes);
    }
    by_workload.into_values().collect()
}

/// The workloads that take most, with the class of their colour.
pub(super) fn colours<'a>(nodes: impl Iterator<Item = &'a Drawn>) -> Vec<(&'a str, &'static str)> {
    const CLASSES: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
    let mut taken: BTreeMap<&str, Amounts> = BTreeMap::new();
    for pod in nodes.flat_map(|node| &node.pods).filter(|pod| !pod.daemon) {
        let sum = taken.entry(&pod.workload).or_default();
        *sum = sum.plus(pod.takes);
    }
    let mut ranked: Vec<(&str, Amounts)> = taken.into_iter().collect();
    ranked.sort_by(|(name, one), (other, two)| two.cmp(one).then(name.cmp(other)));
    ranked.into_iter().zip(CLASSES).map(|((name, _), class)| (name, class)).collect()
}
