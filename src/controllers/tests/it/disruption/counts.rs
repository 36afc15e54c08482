//! Counts of claims that are deleted and of the pods that this moves: the same labels wherever it happens.

use karpenter_cloud::DriftReason;
use karpenter_testkit::objects::merge;
use serde_json::{Value, json};

use super::{pool, settled};
use crate::world::{MINUTE, Process, SECOND, World};

/// Cause of the removal of a pool's only machine.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// Its pods are deleted.
    Emptied,
    /// Its large pod is deleted, and a smaller machine would do for the other.
    Oversized,
    Drift,
    /// Nothing: it expires by itself.
    Age,
    /// The instance is gone without a word.
    Vanished,
}

/// The samples of a family: labels as they are written, in their order, and value.
fn samples(process: &Process, family: &str) -> Vec<String> {
    let text = process.metrics.render();
    let own = text.lines().filter(|line| line.starts_with(&format!("{family}{{")));
    own.map(|line| line[family.len()..].to_owned()).collect()
}

async fn provoke(world: &World, cause: Cause) {
    match cause {
        Cause::Emptied => {
            world.scale("big", 0).await;
            world.scale("web", 0).await;
        }
        Cause::Oversized => world.scale("big", 0).await,
        Cause::Drift => {
            let machine = world.account.machines().remove(0);
            world.account.drift(&machine.provider_id, DriftReason::new("ImageDrift"));
        }
        Cause::Age => {}
        Cause::Vanished => world.account.vanish(&world.account.machines().remove(0).provider_id),
    }
}

#[tokio::test(start_paused = true)]
async fn each_way_to_go_is_one_series_with_policy_and_mode_of_the_drain() {
    let quick = json!({"consolidateAfter": "30s"});
    let never = json!({"consolidateAfter": "Never"});
    let policy = |name: &str| json!({"consolidateAfter": "30s", "consolidationPolicy": name});
    let template = |spec: Value| json!({"template": {"spec": spec}});
    // The pods that move are those that are on the machine when its claim is deleted.
    let table = [
        (Cause::Emptied, policy("WhenEmpty"), json!({}), "when_empty", "graceful", "empty", 0),
        (Cause::Emptied, policy("Balanced"), json!({}), "balanced", "graceful", "empty", 0),
        (
            Cause::Oversized,
            quick,
            template(json!({"terminationGracePeriod": "1h"})),
            "when_empty_or_underutilized",
            "eventual",
            "underutilized",
            1,
        ),
        (
            Cause::Drift,
            never.clone(),
            template(json!({"terminationGracePeriod": "0s"})),
            "",
            "forceful",
            "drifted",
            2,
        ),
        (Cause::Age, never.clone(), template(json!({"expireAfter": "10m"})), "", "graceful", "expired", 2),
        (Cause::Vanished, never, json!({}), "", "graceful", "garbage_collected", 2),
    ];
    for (cause, disruption, more, policy, mode, reason, pods) in table {
        let world = World::new().await;
        let mut spec = pool(&["small", "medium", "large"], &disruption);
        merge(&mut spec, &more);
        world.pool("default", &spec);
        world.set("big", 1, "12");
        world.set("web", 1, "1");
        let process = world.start();
        settled(&world, 2, 1).await;
        provoke(&world, cause).await;
        let counted = || !samples(&process, "karpenter_nodeclaims_disrupted_total").is_empty();
        world.until(&format!("{cause:?} is counted"), 20 * MINUTE, counted).await;
        tokio::time::sleep(SECOND).await;
        let labels = [
            ("capacity_type", "on-demand"),
            ("consolidation_policy", policy),
            ("nodepool", "default"),
            ("reason", reason),
            ("termination_mode", mode),
        ];
        let written: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let sample = |value: usize| vec![format!("{{{}}} {value}", written.join(","))];
        assert_eq!(samples(&process, "karpenter_nodeclaims_disrupted_total"), sample(1), "{cause:?}");
        assert_eq!(samples(&process, "karpenter_pods_disruption_initiated_total"), sample(pods), "{cause:?}");
        process.stop().await;
    }
}
