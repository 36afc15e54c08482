//! The zones that the cluster is shifted away from, by name.

use std::collections::BTreeSet;

use karpenter_model::Zone;

use super::AwsProvider;

impl AwsProvider {
    /// Shifts name zones by their ids. Their names are taken from descriptions since the start, and
    /// from node classes that were resolved before.
    pub(super) fn zones_shifted_away(&self) -> BTreeSet<Zone> {
        let ids = self.zonal_shifts.away();
        if ids.is_empty() {
            return BTreeSet::new();
        }
        let classes = self.classes.all().unwrap_or_default();
        let subnets = classes.iter().flat_map(|class| &class.status).flat_map(|status| &status.subnets);
        let away = subnets.filter(|subnet| subnet.zone_id.as_deref().is_some_and(|id| ids.contains(id)));
        let resolved = away.map(|subnet| subnet.zone.as_str().into());
        let described = self.zone_names.of(&ids);
        resolved.chain(described.iter().map(|zone| zone.as_str().into())).collect()
    }
}
