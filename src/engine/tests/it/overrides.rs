//! Offerings that give a machine another capacity or overhead than its type (spec scheduling 10).

use std::sync::Arc;

use karpenter_audit::audit;
use karpenter_model::{InstanceType, PodOutcome, Quantity, Resources, Snapshot};

const CLUSTER: &str = "\
    type m cpu=2 mem=8Gi pods=10 od=0.10 zones=a,b,c\n\
    pool web types=*\n";

/// A cluster in which zone b gives eight cores, of which the system keeps two, and `pod` waits.
fn cluster(pod: &str, available: bool) -> Snapshot {
    let mut snapshot = karpenter_testkit::snapshot(&format!("{CLUSTER}pod p {pod}\n"));
    let larger = |known: &Arc<InstanceType>| {
        let mut known = InstanceType::clone(known);
        for offering in known.offerings.iter_mut().filter(|offering| offering.zone == *"b") {
            offering.capacity_override = Resources::new().with("cpu", Quantity::from_units(8));
            offering.overhead_override = Resources::new().with("cpu", Quantity::from_units(2));
            offering.available = available;
        }
        Arc::new(known)
    };
    for types in snapshot.instance_types.values_mut() {
        *types = types.iter().map(larger).collect();
    }
    snapshot
}

/// Returns the zone of `pod`, if it gets a place.
fn zone(pod: &str, available: bool) -> Option<String> {
    let snapshot = cluster(pod, available);
    let (plan, report) = karpenter_engine::plan(&snapshot);
    assert_eq!(audit(&snapshot, &plan), [], "{pod}");
    assert_eq!(report.pods.values().all(PodOutcome::is_placed), !plan.launches.is_empty());
    plan.launches.first()?.cheapest.as_ref().map(|offering| offering.zone.to_string())
}

#[test]
fn room_and_offering_must_be_of_the_same_group() {
    assert_eq!(zone("cpu=2", true).as_deref(), Some("a"), "the base group has room");
    assert_eq!(zone("cpu=6", true).as_deref(), Some("b"), "replaced, not added: 8 cores less 2");
    assert_eq!(zone("cpu=6100m", true), None, "with the type's own two cores on top it would fit");
    assert_eq!(zone("cpu=6 select=zone=a", true), None, "the room is elsewhere");
    assert_eq!(zone("cpu=6", false), None, "the offering that has the room is gone");
}
