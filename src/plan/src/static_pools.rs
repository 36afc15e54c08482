//! Pools with a fixed number of nodes: the machines that are missing, and those that are too many. Only with the feature
//! gate `StaticCapacity`.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_lifecycle::pool::static_capacity::{Members, missing, surplus};
use karpenter_model::{ClaimName, InstanceType, Launch, Node, OfferingRef, Pool, Resources, Snapshot};

/// Changes that bring static pools to their number.
pub(crate) struct StaticPools {
    /// Machines that are missing, as far as limits allow.
    pub(crate) launches: Vec<Launch>,
    /// The cluster with those marked that are too many.
    pub(crate) snapshot: Snapshot,
    /// Claims of those.
    pub(crate) surplus: BTreeSet<ClaimName>,
    /// Machines that limits forbid.
    pub(crate) notes: Vec<String>,
}

/// Counts the machines of every static pool.
pub(crate) fn static_pools(snapshot: &Snapshot) -> StaticPools {
    let mut counted = StaticPools {
        launches: Vec::new(),
        snapshot: snapshot.clone(),
        surplus: BTreeSet::new(),
        notes: Vec::new(),
    };
    if !snapshot.settings.gates.static_capacity {
        return counted;
    }
    for pool in snapshot.pools.iter().filter(|pool| pool.replicas.is_some()) {
        let members = Members::of(&pool.name, snapshot.nodes.iter().map(AsRef::as_ref));
        let wanted = missing(pool, &members);
        let room = room(snapshot, pool);
        if wanted > room {
            let (name, refused) = (&pool.name, wanted - room);
            counted.notes.push(format!("limits of pool `{name}` forbid {refused} of its replicas"));
        }
        let launch = Launch::from_template(pool, &snapshot.settings, &snapshot.registry);
        let launch = Launch { cheapest: cheapest(snapshot, pool, &launch), ..launch };
        counted.launches.extend(std::iter::repeat_n(launch, wanted.min(room)));
        counted.surplus.extend(surplus(pool, &members, snapshot.now));
    }
    for node in &mut counted.snapshot.nodes {
        let goes =
            |node: &Node| node.claim.as_ref().is_some_and(|claim| counted.surplus.contains(&claim.name));
        if goes(node) {
            *node = Arc::new(Node { marked_for_deletion: true, ..Node::clone(node) });
        }
    }
    counted
}

/// Returns the number of machines that the limits of a pool allow besides those there are, also those that are leaving.
fn room(snapshot: &Snapshot, pool: &Pool) -> usize {
    let of_pool =
        || snapshot.nodes.iter().filter(|node| node.is_managed() && node.pool().as_ref() == Some(&pool.name));
    let staying = of_pool().filter(|node| !node.is_leaving());
    let used = staying.fold(Resources::new(), |mut used, node| {
        used.add(&node.effective_capacity());
        used
    });
    if !pool.beyond_limits(&used).is_empty() {
        return 0;
    }
    usize::try_from(pool.nodes_max()).unwrap_or(usize::MAX).saturating_sub(of_pool().count())
}

/// The cheapest offering the template allows.
fn cheapest(snapshot: &Snapshot, pool: &Pool, launch: &Launch) -> Option<OfferingRef> {
    let types = snapshot.instance_types.get(&pool.name)?;
    let allowed = |one: &&Arc<InstanceType>| launch.requirements.intersects(&one.requirements).is_ok();
    let offerings = types.iter().filter(allowed).flat_map(|one| {
        let sold = one.compatible_offerings(&launch.requirements, &snapshot.registry);
        sold.map(move |offering| (one, offering))
    });
    let (one, offering) =
        offerings.min_by_key(|(one, offering)| (offering.price, one.name.clone(), offering.zone.clone()))?;
    Some(OfferingRef {
        instance_type: one.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
        price: offering.price,
    })
}
