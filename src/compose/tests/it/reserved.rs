//! Plans from files count what capacity reservations have left (aws#8255).

use std::sync::Arc;

use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::registry::label_registry;
use karpenter_compose::WallClock;
use karpenter_compose::offered::{OfferingsReader, in_memory};
use karpenter_model::CapacityType;
use karpenter_plan::{PlanInputs, WhatIf, World};
use karpenter_testkit::objects::{class_ref, node_class, node_pool, one_of, with};
use serde_json::{Value, json};

/// The counts of reserved offerings of r5.12xlarge, and what the reader has to say.
async fn reserved(status: Value) -> (Vec<u32>, Vec<String>) {
    let of_class = json!({"template": {"spec": {"nodeClassRef": class_ref("reserved")}}});
    let terms = json!({"capacityReservationSelectorTerms": [{"id": "cr-0000000000000000a"}]});
    let class = node_class("reserved", "demo", &terms);
    let status = json!({
        "subnets": [{"id": "subnet-a", "zone": "us-west-2a"}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "capacityReservations": status,
    });
    let objects = [
        node_pool("reserved", &[one_of("karpenter.sh/capacity-type", &["reserved"])], &of_class),
        with(class, &json!({"status": status})),
    ];
    let plan_inputs = PlanInputs {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        settings: Arc::new(karpenter_model::Settings::default()),
        repair: Arc::default(),
    };
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    let world = World::new(objects, at, plan_inputs, WhatIf::default()).unwrap();
    let clock = Arc::new(WallClock);
    let (clients, _) = in_memory("us-west-2", clock.clone());
    let settings = karpenter_aws::Settings::new("demo", "https://demo.invalid");
    let mut reader = OfferingsReader::new(clients, settings, clock).await.unwrap();
    let offerings = reader.offerings(&world.pools(), &world.node_classes()).await;
    let types = offerings.types.values().flat_map(|types| types.iter());
    let sold = types.filter(|known| known.name.as_str() == "r5.12xlarge").flat_map(|known| &known.offerings);
    let sold = sold.filter(|one| one.capacity_type == CapacityType::Reserved);
    (sold.filter_map(|one| Some(one.reservation.as_ref()?.count)).collect(), reader.notes)
}

fn entry(more: Value) -> Value {
    let mut entry = json!({
        "id": "cr-0000000000000000a", "availabilityZone": "us-west-2a", "instanceType": "r5.12xlarge",
        "instanceMatchCriteria": "targeted", "ownerID": "000000000000", "reservationType": "default", "state": "active",
    });
    let (Value::Object(entry_fields), Value::Object(more)) = (&mut entry, more) else { return entry };
    entry_fields.extend(more);
    entry
}

#[tokio::test]
async fn what_a_reservation_has_left_is_read_from_the_status() {
    let (counts, notes) = reserved(json!([entry(json!({"availableInstanceCount": 2}))])).await;
    assert_eq!((counts, notes), (vec![2], vec![]));
}

#[tokio::test]
async fn a_reservation_of_which_no_count_is_known_is_named() {
    let (counts, notes) = reserved(json!([entry(json!({}))])).await;
    assert_eq!(counts, [0]);
    assert!(
        notes.iter().any(|note| note.contains("`cr-0000000000000000a` has left is not known")),
        "{notes:?}"
    );
    let (counts, notes) = reserved(json!([])).await;
    assert_eq!(counts, [0; 0]);
    assert!(
        notes.iter().any(|note| note.contains("no capacity reservation of EC2NodeClass `reserved`")),
        "{notes:?}"
    );
}
