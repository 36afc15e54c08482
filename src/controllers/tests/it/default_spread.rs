//! The spread of pods that have none of their own: over what Services and owners select, as the watches show them.

use std::collections::BTreeSet;

use karpenter_model::Settings;
use karpenter_model::pod::affinity::WhenUnsatisfiable;
use karpenter_model::settings::DefaultSpread;
use karpenter_testkit::objects::pod;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, World};

#[tokio::test(start_paused = true)]
async fn pods_spread_over_zones_by_what_their_owner_or_a_service_selects() {
    // Columns: a Service selects the pods; a ReplicaSet owns them; number of zones they get.
    for (service, owned, zones) in [(false, true, 2), (false, false, 1), (true, false, 2)] {
        let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
        if service {
            world.load(&json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}},
            }));
        }
        if owned {
            world.set("web", 2, "100m");
        } else {
            let web = json!({"metadata": {"labels": {"app": "web"}}});
            for name in ["one", "two"] {
                world.load(&pod(name, "100m", &web));
            }
        }
        let key = "topology.kubernetes.io/zone";
        let spread = DefaultSpread::new(key.into(), 1, WhenUnsatisfiable::DoNotSchedule);
        let settings = Settings { default_spread: vec![spread], ..Settings::default() };
        let process = world.start_deciding(settings);
        world.until("both pods run", 10 * MINUTE, || world.runs(2)).await;
        let found: BTreeSet<String> =
            world.claims().iter().filter_map(|claim| claim.labels().get(key).cloned()).collect();
        assert_eq!(found.len(), zones, "service {service}, owner {owned}: {found:?}");
        process.stop().await;
    }
}
