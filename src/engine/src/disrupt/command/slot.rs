//! A node in a reservation that has no instance left: what would fit if its own were free (core #3312).

use std::sync::Arc;

use karpenter_model::{CapacityType, Node, NodeId, ReservationId, Snapshot};

use crate::disrupt::candidate::Candidate;

/// `snapshot` as it will be once the instance of `candidate` is free again, and those of nodes of its reservation that go
/// already; `None` unless its reservation is full, and nothing else is wrong with it.
pub(in crate::disrupt) fn freed(
    snapshot: &Snapshot,
    candidate: &Candidate<'_>,
    goes: impl Fn(&NodeId) -> bool,
) -> Option<Snapshot> {
    let id = reservation(candidate.node, snapshot)?;
    let zone = candidate.node.zone()?;
    let mut offerings = candidate.instance_type?.offerings.iter();
    let own = offerings.find(|offering| {
        offering.zone == zone && offering.reservation.as_ref().is_some_and(|one| one.id == id)
    })?;
    let full = own.available && own.reservation.as_ref().is_some_and(|one| one.count == 0);
    if !full {
        return None;
    }
    let others = snapshot.nodes.iter().filter(|node| node.id != candidate.node.id);
    let leaving = others.filter(|node| node.is_leaving() || goes(&node.id));
    let slots = 1 + leaving.filter(|node| reservation(node, snapshot).as_ref() == Some(&id)).count();
    Some(with_slots(snapshot, &id, u32::try_from(slots).unwrap_or(u32::MAX)))
}

/// The reservation that `node` takes an instance of.
fn reservation(node: &Node, snapshot: &Snapshot) -> Option<ReservationId> {
    if node.capacity_type() != Some(CapacityType::Reserved) {
        return None;
    }
    let key = snapshot.registry.reservation_id.as_ref()?;
    node.effective_labels().get(key).map(|id| id.as_str().into())
}

/// Returns `snapshot` with this number of instances in the reservation `id`.
fn with_slots(snapshot: &Snapshot, id: &ReservationId, slots: u32) -> Snapshot {
    let mut freed = snapshot.clone();
    for types in freed.instance_types.values_mut() {
        *types = types
            .iter()
            .map(|known| {
                let is_it = |reservation: &karpenter_model::Reservation| reservation.id == *id;
                if !known.offerings.iter().any(|one| one.reservation.as_ref().is_some_and(is_it)) {
                    return Arc::clone(known);
                }
                let mut known = (**known).clone();
                for reservation in known.offerings.iter_mut().filter_map(|one| one.reservation.as_mut()) {
                    if is_it(reservation) {
                        reservation.count = slots;
                    }
                }
                Arc::new(known)
            })
            .collect();
    }
    freed
}
