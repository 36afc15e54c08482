//! NodeOverlays over what pools can launch, judged as the controller judges them: one that is wrong or in conflict applies
//! nowhere, and the notes say why. Only with the feature gate `NodeOverlay`.

use std::sync::Arc;

use karpenter_api::{NodeOverlay, convert};
use karpenter_cloud::overlay::{Sight, judge, labels_of};
use karpenter_model::{LabelRegistry, Pool};
use serde::Deserialize;

use crate::objects::Objects;
use crate::offerings::Offerings;

/// Offerings as pools see them, and which overlays do not apply.
pub(crate) fn laid(
    objects: &Objects,
    pools: &[Pool],
    mut offerings: Offerings,
    registry: &LabelRegistry,
) -> (Offerings, Vec<String>) {
    let (mut valid, mut notes) = (Vec::new(), Vec::new());
    for (key, object) in objects.of_kind("NodeOverlay") {
        if object["metadata"].get("deletionTimestamp").is_some() {
            continue;
        }
        let read = NodeOverlay::deserialize(object).map_err(|error| error.to_string());
        match read.and_then(|object| convert::overlay(&object, registry)) {
            Ok(overlay) => valid.push(Arc::new(overlay)),
            Err(problem) => notes.push(format!("overlay `{}` does not apply: {problem}", key.name)),
        }
    }
    let sight = |pool: &Pool| {
        let types = Arc::clone(offerings.types.get(&pool.name)?);
        Some(Sight { pool: pool.name.clone(), labels: labels_of(pool, registry), types })
    };
    let sights: Vec<Sight> = pools.iter().filter_map(sight).collect();
    let judged = judge(valid, &sights, registry);
    notes.extend(
        judged
            .conflicts
            .iter()
            .map(|(name, conflict)| format!("overlay `{name}` does not apply: {conflict}")),
    );
    for pool in pools {
        if let Some(types) = offerings.types.get_mut(&pool.name)
            && let Some(through) = judged.overlays.of(pool, registry)
        {
            *types = through.lay_over(types, registry);
        }
    }
    (offerings, notes)
}
