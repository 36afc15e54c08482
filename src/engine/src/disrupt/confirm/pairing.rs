//! Pairs of new nodes that stand for each other: the same nodes may come out of a second look in another order.

use std::collections::BTreeSet;

use karpenter_model::{InstanceTypeName, Launch};

/// Returns for each of `wanted` the position of one of `fresh` that may be bought as every instance type of it, each taken
/// once; or an instance type of one for which there is none.
pub(super) fn order(wanted: &[&Launch], fresh: &[&Launch]) -> Result<Vec<usize>, InstanceTypeName> {
    let offered: Vec<BTreeSet<_>> =
        fresh.iter().map(|launch| launch.instance_types.iter().collect()).collect();
    let lacks = |one: &Launch, position: usize| {
        one.instance_types.iter().find(|name| !offered[position].contains(name)).cloned()
    };
    let fits: Vec<Vec<usize>> = wanted
        .iter()
        .map(|one| (0..fresh.len()).filter(|position| lacks(one, *position).is_none()).collect())
        .collect();
    let mut takers: Vec<Option<usize>> = vec![None; fresh.len()];
    for (index, one) in wanted.iter().enumerate() {
        if !seat(index, &fits, &mut takers, &mut BTreeSet::new()) {
            let missing = lacks(one, index).or_else(|| one.instance_types.first().cloned());
            return Err(missing.unwrap_or_else(|| "".into()));
        }
    }
    let position = |index| takers.iter().position(|taker| *taker == Some(index));
    Ok((0..wanted.len()).filter_map(position).collect())
}

/// Finds a place for `index`, if need be by moving others that fit elsewhere.
fn seat(
    index: usize,
    fits: &[Vec<usize>],
    takers: &mut [Option<usize>],
    tried: &mut BTreeSet<usize>,
) -> bool {
    for &position in &fits[index] {
        if !tried.insert(position) {
            continue;
        }
        // First come, first served could take the only counterpart of a later one, and reject a command that
        // still holds.
        if takers[position].is_none_or(|other| seat(other, fits, takers, tried)) {
            takers[position] = Some(index);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::{LabelRegistry, Pool, Settings};

    use super::*;

    fn launches(types: &[&str]) -> Vec<Launch> {
        let launch = |names: &&str| {
            let names: Arc<[InstanceTypeName]> = names.split_whitespace().map(Into::into).collect();
            let (pool, registry) = (Pool::bare("web"), LabelRegistry::default());
            Launch { instance_types: names, ..Launch::from_template(&pool, &Settings::default(), &registry) }
        };
        types.iter().map(launch).collect()
    }

    #[test]
    fn machines_are_told_by_what_they_may_be_and_not_by_their_place_in_the_list() {
        /// Wanted, at hand, and which stands for which.
        type Row = (&'static [&'static str], &'static [&'static str], Result<&'static [usize], &'static str>);
        let table: [Row; 6] = [
            (&["a"], &["a b"], Ok(&[0])),
            (&["a", "b"], &["b", "a"], Ok(&[1, 0])),
            (&["a", "a b"], &["a b", "a"], Ok(&[1, 0])),
            // The first that fits the first is the only one that fits the second.
            (&["a", "a b", "c"], &["a b", "a c", "c"], Ok(&[1, 0, 2])),
            (&["a", "c"], &["a", "b"], Err("c")),
            (&["a", "a"], &["a", "b"], Err("a")),
        ];
        for (wanted, fresh, expected) in table {
            let (known, now) = (launches(wanted), launches(fresh));
            let found = order(&known.iter().collect::<Vec<_>>(), &now.iter().collect::<Vec<_>>());
            assert_eq!(found, expected.map(<[usize]>::to_vec).map_err(Into::into), "{wanted:?} {fresh:?}");
        }
    }
}
