//! Worlds drawn by seed: pods with every constraint that the engine supports, on and beside nodes that are half full.
//!
//! Worlds are small, so that constraints meet: a handful of apps, each some pods of one class, that select each other by
//! labels that they share.

mod admission;
mod affinity;
mod daemons;
mod nodes;
mod pods;
mod pools;
mod volumes;

use fastrand::Rng;
use karpenter_model::names::label;
use serde_json::{Value, json};

use crate::catalogue::class;

/// Namespaces of pods, with labels that pods of other namespaces select by.
const NAMESPACES: [(&str, &str); 2] = [("default", "grey"), ("shop", "blue")];

/// The objects of a world.
pub fn draw(seed: u64) -> Vec<Value> {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mut objects = vec![class()];
    let labelled = |name: &str, color: &str| {
        let labels = json!({label::NAMESPACE_NAME: name, "color": color});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    };
    objects.extend(NAMESPACES.map(|(name, color)| labelled(name, color)));
    objects.push(labelled("kube-system", "grey"));
    objects.extend(volumes::classes());
    objects.extend(pods::priorities());
    objects.extend(admission::draw(rng));
    objects.extend(pools::draw(rng));
    objects.extend(nodes::draw(rng));
    objects.extend(daemons::draw(rng));
    let apps = rng.usize(1..=4);
    for app in 0..apps {
        objects.extend(pods::draw(app, apps, rng));
    }
    objects
}

/// Returns true in `percent` of a hundred cases.
fn happens(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

/// Returns one of some values.
fn one<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    &values[rng.usize(0..values.len())]
}
