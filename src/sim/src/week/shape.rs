//! Size of the cluster, and the number of pods that are wanted at each time.

use std::time::Duration;

use karpenter_model::names::label;
use karpenter_testkit::objects::{node_pool, one_of};
use serde_json::{Value, json};

use crate::world::{budget, class};

/// Minutes between two changes of the number of pods.
pub(super) const STEP: u32 = 30;

/// Thousandths of a core that a pod of each workload requests.
const WORKLOADS: [u32; 8] = [500, 800, 1_100, 1_400, 1_700, 2_100, 2_600, 3_300];

/// Pods wanted at the beginning of each hour of a day, in thousandths of those of the busiest hour.
const DAY: [u32; 24] = [
    260, 230, 210, 200, 200, 220, 280, 400, 560, 720, 860, 950, 1_000, 990, 960, 930, 900, 850, 760, 640,
    520, 430, 360, 300,
];

/// Parameters of a week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Seed of the interruptions, and of every name and delay.
    pub seed: u64,
    /// Machines of the busiest hour, about.
    pub machines: u32,
    /// Duration in hours.
    pub hours: u32,
    /// The hour in which newer images are released.
    pub images_at: Option<u32>,
}

impl Shape {
    pub(super) fn lasts(&self) -> Duration {
        Duration::from_hours(self.hours.into())
    }

    /// Replicas of each workload in this minute: between the hours of [`DAY`] in a straight line, half of it on the sixth and
    /// seventh day.
    pub(super) fn replicas(&self, minute: u32) -> Vec<u32> {
        let (hour, within) = (minute / 60, minute % 60);
        let of = |hour: u32| DAY[usize::try_from(hour % 24).unwrap_or_default()];
        let now = (of(hour) * (60 - within) + of(hour + 1) * within) / 60;
        let now = if hour / 24 % 7 >= 5 { now / 2 } else { now };
        // Machines of four cores keep some for themselves: about 3.2 are for pods that leave gaps.
        let cores = u64::from(self.machines) * 3_200 * u64::from(now) / 1_000;
        let each = cores / WORKLOADS.len() as u64;
        WORKLOADS
            .iter()
            .map(|millis| u32::try_from(each / u64::from(*millis)).unwrap_or(u32::MAX).max(1))
            .collect()
    }

    /// Class, pool and workloads without pods.
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut objects = vec![class(), self.pool()];
        for number in 0..WORKLOADS.len() {
            objects.push(deployment(number, 0));
            objects.push(budget(&name(number), ""));
            objects[2 * number + 3]["spec"]["maxUnavailable"] = json!("10%");
        }
        objects
    }

    fn pool(&self) -> Value {
        let requirements = [
            one_of(label::CAPACITY_TYPE, &["spot", "on-demand"]),
            one_of(label::ARCH, &["amd64"]),
            one_of(label::aws::INSTANCE_CPU, &["2", "4"]),
        ];
        let spec = json!({
            "template": {"spec": {"expireAfter": "Never"}},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "5m",
                "budgets": [{"nodes": (self.machines / 10).max(1).to_string()}],
            },
        });
        node_pool("week", &requirements, &spec)
    }
}

/// The name of a workload.
pub(super) fn name(number: usize) -> String {
    format!("w{number}")
}

/// A workload.
pub(super) fn deployment(number: usize, replicas: u32) -> Value {
    let labels = json!({"app": name(number)});
    let millis = WORKLOADS[number];
    let requests = json!({"cpu": format!("{millis}m"), "memory": format!("{millis}Mi")});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name(number), "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noon_wants_most_and_the_weekend_half() {
        let shape = Shape { seed: 1, machines: 500, hours: 168, images_at: None };
        let cores = |minute: u32| -> u64 {
            let pods = shape.replicas(minute);
            pods.iter().zip(WORKLOADS).map(|(count, millis)| u64::from(*count) * u64::from(millis)).sum()
        };
        let noon = cores(12 * 60);
        assert!((1_550_000..=1_600_000).contains(&noon), "{noon}");
        assert!(cores(3 * 60) * 4 < noon, "nights are quiet");
        assert!(cores((5 * 24 + 12) * 60) * 2 <= noon, "the weekend too");
        assert!((0..168 * 60).all(|minute| cores(minute) <= noon));
    }
}
