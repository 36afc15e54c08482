//! Names of zones that AWS refers to by id. Names differ from account to account, ids do not.
//!
//! Learnt from everything that is described with both, and never forgotten: nodes may stand in a zone whose subnets no
//! node class selects any more.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::id::{Zone, ZoneId};
use parking_lot::RwLock;

/// Names of zones by their ids.
#[derive(Debug, Default)]
pub struct ZoneNames(RwLock<BTreeMap<ZoneId, Zone>>);

impl ZoneNames {
    /// Records the names in descriptions; those without an id are skipped.
    pub fn learn<'a>(&self, described: impl IntoIterator<Item = (Option<&'a ZoneId>, &'a Zone)>) {
        // Descriptions rarely bring a new name, so the lock for writing is rarely taken.
        let new: Vec<(&ZoneId, &Zone)> = {
            let known = self.0.read();
            let with_id = described.into_iter().filter_map(|(id, zone)| Some((id?, zone)));
            with_id.filter(|(id, zone)| known.get(*id) != Some(*zone)).collect()
        };
        if !new.is_empty() {
            let mut known = self.0.write();
            known.extend(new.into_iter().map(|(id, zone)| (id.clone(), zone.clone())));
        }
    }

    /// The names of those of the zones whose names are known.
    pub fn of(&self, ids: &BTreeSet<ZoneId>) -> Vec<Zone> {
        let known = self.0.read();
        ids.iter().filter_map(|id| known.get(id).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_described_once_stays_known() {
        let names = ZoneNames::default();
        let (id, zone): (ZoneId, Zone) = ("usw2-az1".into(), "us-west-2c".into());
        let ids = BTreeSet::from([id.clone(), "usw2-az2".into()]);
        names.learn([(None, &zone)]);
        assert_eq!(names.of(&ids), Vec::<Zone>::new());
        names.learn([(Some(&id), &zone)]);
        names.learn([]);
        assert_eq!(names.of(&ids), [zone]);
    }
}
