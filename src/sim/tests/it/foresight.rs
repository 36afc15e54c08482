//! The plan of `karpenter plan` is what the controller then does: in every one of these worlds the claims it creates first, the
//! nodes it disrupts first and the pods it refuses are those of the plan of an export.

use karpenter_sim::{Foreseen, foresee};

/// Worlds that are compared every time; `FORESEEN_WORLDS` sets another number.
const WORLDS: u64 = 20;

#[test]
fn the_controller_does_what_was_planned() {
    let worlds = karpenter_testkit::number("FORESEEN_WORLDS").unwrap_or(WORLDS);
    let failed =
        |error: anyhow::Error| Foreseen { differences: vec![format!("{error:#}")], ..Foreseen::default() };
    let all: Vec<(u64, Foreseen)> =
        (0..worlds).map(|seed| (seed, foresee(seed).unwrap_or_else(failed))).collect();
    let wrong: Vec<String> = all
        .iter()
        .filter(|(_, foreseen)| !foreseen.differences.is_empty())
        .map(|(seed, foreseen)| {
            format!("world {seed}: {}\n{}", foreseen.differences.join("\n"), foreseen.text)
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {worlds} worlds\n{}", wrong.len(), wrong.join("\n"));
    let sum = |of: fn(&Foreseen) -> usize| all.iter().map(|(_, one)| of(one)).sum::<usize>();
    let (launches, removals, pending) =
        (sum(|one| one.launches), sum(|one| one.removals), sum(|one| one.pending));
    assert!(
        launches > 0 && removals > 0 && pending > 0,
        "{launches} launches, {removals} removals, {pending} pods that wait: too little for equality to mean anything"
    );
}
