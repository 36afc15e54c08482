//! Objects that get new hash annotations (spec disruption 1.7).
//!
//! A change of the algorithm's version stamps claims with the new version and hash, so that it does not read as drift; a
//! claim that has drifted already keeps its old hash, so that real drift survives the upgrade.

use karpenter_model::names::annotation;
use karpenter_model::{Annotations, Claim, ClaimName, ConditionType};

/// Annotations to write, claims first: a crash in between leaves the pool's version old and the migration is redone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stamps {
    /// Annotations per claim.
    pub claims: Vec<(ClaimName, Annotations)>,
    /// Annotations of the pool; empty when it is up to date.
    pub pool: Annotations,
}

/// Compares a pool's stored annotations with its present hash. `claims` are those of the pool.
pub fn stamps<'a>(stored: &Annotations, hash: &str, claims: impl IntoIterator<Item = &'a Claim>) -> Stamps {
    let version = karpenter_model::pool::HASH_VERSION;
    let mut stamps = Stamps::default();
    if stored.get(annotation::POOL_HASH_VERSION).map(String::as_str) != Some(version) {
        for claim in claims {
            if claim.annotations.get(annotation::POOL_HASH_VERSION).map(String::as_str) == Some(version) {
                continue;
            }
            let mut annotations = stamp(annotation::POOL_HASH_VERSION, version);
            if !claim.is_true(ConditionType::Drifted) {
                annotations.extend(stamp(annotation::POOL_HASH, hash));
            }
            stamps.claims.push((claim.name.clone(), annotations));
        }
    }
    for (key, value) in [(annotation::POOL_HASH, hash), (annotation::POOL_HASH_VERSION, version)] {
        if stored.get(key).map(String::as_str) != Some(value) {
            stamps.pool.extend(stamp(key, value));
        }
    }
    stamps
}

fn stamp(key: &str, value: &str) -> Annotations {
    Annotations::from([(key.to_owned(), value.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{claim, holding};

    fn stored(hash: &str, version: &str) -> Annotations {
        let mut all = stamp(annotation::POOL_HASH, hash);
        all.extend(stamp(annotation::POOL_HASH_VERSION, version));
        all
    }

    #[test]
    fn same_version_leaves_claims_alone() {
        let old = Claim { annotations: stored("1", "v2"), ..claim() };
        let stamps = stamps(&stored("1", "v3"), "2", [&old]);
        assert_eq!(stamps.claims, []);
        assert_eq!(stamps.pool, stamp(annotation::POOL_HASH, "2"));
    }

    #[test]
    fn a_new_version_stamps_claims_and_drifted_ones_keep_their_hash() {
        let old = Claim { annotations: stored("1", "v2"), ..claim() };
        let drifted = holding(old.clone(), &[ConditionType::Drifted]);
        let current = Claim { annotations: stored("1", "v3"), ..claim() };
        let stamps = stamps(&stored("1", "v2"), "2", [&old, &drifted, &current]);
        assert_eq!(
            stamps.claims,
            [
                ("web-1".into(), stored("2", "v3")),
                ("web-1".into(), stamp(annotation::POOL_HASH_VERSION, "v3")),
            ]
        );
        assert_eq!(stamps.pool, stored("2", "v3"));
    }

    #[test]
    fn nothing_to_write_when_up_to_date() {
        assert_eq!(stamps(&stored("2", "v3"), "2", [&claim()]), Stamps::default());
    }
}
