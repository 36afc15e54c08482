//! The spread of pods that have none of their own: over what Services and owners select, as the watches show them.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_model::Settings;
use karpenter_model::pod::affinity::WhenUnsatisfiable;
use karpenter_model::settings::DefaultSpread;
use kube::ResourceExt;
use serde_json::json;

use crate::disruption::set;
use crate::world::{World, is_running};

/// Two pods without an owner.
fn bare(world: &World) {
    for name in ["one", "two"] {
        world.load(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_zones_by_what_their_owner_or_a_service_selects() {
    // Columns: a Service selects the pods; a ReplicaSet owns them; number of zones they get.
    for (service, owned, zones) in [(false, true, 2), (false, false, 1), (true, false, 2)] {
        let world = World::new().await;
        world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
        if service {
            world.load(&json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}},
            }));
        }
        if owned {
            set(&world, "web", 2, "100m", &json!({}));
        } else {
            bare(&world);
        }
        let key = "topology.kubernetes.io/zone";
        let spread = DefaultSpread::new(key.into(), 1, WhenUnsatisfiable::DoNotSchedule);
        let settings = Settings { default_spread: vec![spread], ..Settings::default() };
        let process = world.start_deciding(settings);
        let running = || async { world.pods().len() == 2 && world.pods().iter().all(is_running) };
        world.until("both pods run", Duration::from_mins(10), running).await;
        let found: BTreeSet<String> =
            world.claims().iter().filter_map(|claim| claim.labels().get(key).cloned()).collect();
        assert_eq!(found.len(), zones, "service {service}, owner {owned}: {found:?}");
        process.stop().await;
    }
}
