//! Scores of moves in small pools (spec disruption 8.8).

use std::fmt::Write;

use karpenter_testkit::snapshot;

use super::*;

const TYPES: &str = "
type  small cpu=2 mem=4Gi od=0.10 spot=0.04 zones=a,b
type  large cpu=8 mem=16Gi od=0.40 spot=0.16 zones=a,b gone=b/od
";

/// Weighs replacing `nodes` by something for `price`, pool by pool: the score, or nothing if unscored.
fn weigh(text: &str, nodes: &[&str], price: &str) -> Vec<(String, Option<String>, bool)> {
    let snapshot = snapshot(&format!("{TYPES}{text}"));
    let lookup = Lookup::new(&snapshot);
    let totals = Totals::new(&lookup);
    let candidates: Vec<Candidate<'_>> = nodes
        .iter()
        .filter_map(|name| snapshot.nodes.iter().find(|node| node.id.as_str() == *name))
        .filter_map(|node| Candidate::of(node, &lookup).ok())
        .collect();
    assert_eq!(candidates.len(), nodes.len(), "all are candidates");
    let candidates: Vec<&Candidate<'_>> = candidates.iter().collect();
    let judgement = totals.judge(&candidates, price.parse().unwrap_or_default());
    let shown = |weighed: &Weighed| {
        let Move { pool, decision, score, .. } = &weighed.outcome;
        (pool.to_string(), score.map(|score| score.to_string()), *decision == MoveDecision::Approved)
    };
    judgement.pools.iter().map(shown).collect()
}

/// The score of the only pool.
fn score(text: &str, nodes: &[&str], price: &str) -> (String, bool) {
    let [(_, Some(score), approved)] = &weigh(text, nodes, price)[..] else { panic!("one scored pool") };
    (score.clone(), *approved)
}

/// A pool of `count` nodes with `pods` ordinary pods each.
fn uniform(count: usize, pods: usize) -> String {
    let mut text = String::from("pool web types=* policy=balanced\n");
    for node in 0..count {
        let _ = writeln!(text, "node n{node} pool=web type=large zone=a capacity=on-demand");
        let _ = writeln!(text, "pod p{node}-{{1..{pods}}} cpu=100m on=n{node}");
    }
    text
}

#[test]
fn deleting_an_average_machine_scores_one_however_large_the_pool_is() {
    for count in [1, 2, 7, 40] {
        assert_eq!(score(&uniform(count, 3), &["n0"], "0"), ("1.00".to_owned(), true), "{count}");
    }
}

#[test]
fn a_replacement_must_save_half_of_the_proportional_share() {
    let pool = uniform(4, 5);
    assert_eq!(score(&pool, &["n0"], "0.1"), ("0.75".to_owned(), true), "oversized");
    assert_eq!(score(&pool, &["n0"], "0.2"), ("0.50".to_owned(), true), "exactly half");
    assert!(!score(&pool, &["n0"], "0.200000001").1, "a billionth of a dollar less");
    assert_eq!(score(&pool, &["n0"], "0.4"), ("0.00".to_owned(), false), "no savings");
    assert_eq!(score(&pool, &["n0"], "0.5"), ("0.00".to_owned(), false), "more expensive");
}

#[test]
fn moves_from_crowded_machines_score_less_and_from_spare_ones_more() {
    let mut pool = uniform(4, 2);
    pool.push_str("node crowded pool=web type=large zone=a capacity=on-demand\n");
    pool.push_str("pod c-{1..20} cpu=100m on=crowded\n");
    pool.push_str("node spare pool=web type=large zone=a capacity=on-demand\n");
    // Six nodes of equal price; the pods count 2, 2, 2, 2, 20 and 0, each node one more.
    assert_eq!(score(&pool, &["crowded"], "0"), ("0.27".to_owned(), false));
    assert_eq!(score(&pool, &["n0"], "0"), ("1.89".to_owned(), true));
    assert_eq!(score(&pool, &["spare"], "0"), ("5.67".to_owned(), true));
    assert_eq!(score(&pool, &["n0", "spare"], "0"), ("2.83".to_owned(), true), "several at once");
}

#[test]
fn machines_of_unknown_price_save_nothing() {
    let pool = "pool web types=* policy=balanced\nnode n0 pool=web type=large capacity=spot\n";
    assert_eq!(
        score(pool, &["n0"], "0"),
        ("0.00".to_owned(), false),
        "the pool costs nothing as far as known"
    );
}

#[test]
fn offerings_that_are_sold_out_still_price_what_runs() {
    let pool = "
pool web types=* policy=balanced
node n0 pool=web type=large zone=b capacity=on-demand
node n1 pool=web type=large zone=a capacity=on-demand
";
    assert_eq!(score(pool, &["n0"], "0"), ("1.00".to_owned(), true));
}

#[test]
fn every_pool_is_weighed_by_its_share_and_others_pass_through() {
    let text = "
pool  a types=* policy=balanced
pool  b types=* policy=balanced
pool  c types=*
node  a1 pool=a type=large zone=a capacity=on-demand
node  a2 pool=a type=large zone=a capacity=on-demand
node  b1 pool=b type=small zone=a capacity=on-demand
node  b2 pool=b type=small zone=a capacity=on-demand
node  c1 pool=c type=small zone=a capacity=on-demand
pod   a1 cpu=100m on=a1
pod   a2 cpu=100m on=a2
pod   b1-{1..30} cpu=10m on=b1
pod   b2 cpu=100m on=b2
pod   c1-{1..50} cpu=10m on=c1
";
    let weighed = weigh(text, &["b1", "a1", "c1"], "0");
    let named = |name: &str| weighed.iter().find(|(pool, _, _)| pool == name).cloned();
    assert_eq!(named("a"), Some(("a".into(), Some("1.00".into()), true)));
    assert_eq!(named("b"), Some(("b".into(), Some("0.53".into()), true)));
    assert_eq!(named("c"), Some(("c".into(), None, true)), "not scored");
    // Half of what goes is bought again; each pool loses half of its savings.
    let weighed = weigh(text, &["b1", "a1", "c1"], "0.3");
    let verdicts: Vec<(&str, bool)> = weighed.iter().map(|(pool, _, ok)| (pool.as_str(), *ok)).collect();
    assert_eq!(verdicts, [("a", true), ("b", false), ("c", true)], "one rejects, all have an entry");
}

#[test]
fn nothing_to_weigh_is_not_worth_a_move() {
    let judgement = Totals::default().judge(&[], Price::ZERO);
    assert!(!judgement.approves());
    assert!(judgement.rejection().is_none());
}

#[test]
fn pools_nothing_is_known_about_reject() {
    let snapshot = snapshot(&format!("{TYPES}{}", uniform(2, 3)));
    let lookup = Lookup::new(&snapshot);
    let candidate = Candidate::of(&snapshot.nodes[0], &lookup).expect("invariant: it is a candidate");
    let judgement = Totals::default().judge(&[&candidate], Price::ZERO);
    assert_eq!(judgement.pools[0].outcome.score, Some(Score::ZERO));
    assert!(!judgement.approves());
    assert!(!Totals::default().rules_out(&candidate), "but it is looked at");
}

#[test]
fn machines_that_may_not_go_count_in_the_totals_with_all_their_pods() {
    let protected = "
node  kept pool=web type=large zone=a capacity=on-demand annotation=karpenter.sh/do-not-disrupt=true
pod   k-{1..9} cpu=100m on=kept
";
    let alone = score(&uniform(1, 3), &["n0"], "0.24");
    assert_eq!(alone, ("0.40".to_owned(), false), "0.16 of 0.40, for all the disruption there is");
    let with_others = score(&format!("{}{protected}", uniform(1, 3)), &["n0"], "0.24");
    assert_eq!(with_others, ("0.70".to_owned(), true), "a fifth of the cost for four of fourteen parts");
}

#[test]
fn what_could_not_even_be_deleted_is_ruled_out_before_anything_is_simulated() {
    let mut text = uniform(4, 2);
    text.push_str("node crowded pool=web type=large zone=a capacity=on-demand\n");
    text.push_str("pod c-{1..20} cpu=100m on=crowded\n");
    let ruled_out = |text: &str| {
        let snapshot = snapshot(&format!("{TYPES}{text}"));
        let lookup = Lookup::new(&snapshot);
        let totals = Totals::new(&lookup);
        let candidates = snapshot.nodes.iter().filter_map(|node| Candidate::of(node, &lookup).ok());
        let out = candidates.filter(|candidate| totals.rules_out(candidate));
        out.map(|candidate| candidate.node.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ruled_out(&text), ["crowded"]);
    assert_eq!(ruled_out(&text.replace(" policy=balanced", "")), Vec::<String>::new());
}

#[test]
fn events_say_score_threshold_factor_and_shares() {
    let snapshot = snapshot(&format!("{TYPES}{}", uniform(4, 5)));
    let lookup = Lookup::new(&snapshot);
    let totals = Totals::new(&lookup);
    let candidate = Candidate::of(&snapshot.nodes[0], &lookup).expect("invariant: it is a candidate");
    let judgement = totals.judge(&[&candidate], "0.1".parse().unwrap_or_default());
    let note = judgement.machine_note(&candidate).expect("invariant: the pool is scored");
    let text =
        "score 0.75 (threshold 0.50, k=2), savings 18.8% of pool cost, disruption 25.0% of pool disruption";
    assert_eq!(note.message, text);
    assert_eq!(judgement.pool_notes().map(|note| note.message).collect::<Vec<_>>(), [text]);
    let loss = totals.judge(&[&candidate], "0.402".parse().unwrap_or_default());
    let note = loss.machine_note(&candidate).expect("invariant: the pool is scored");
    assert!(note.message.contains("savings -0.1% of pool cost"), "{}", note.message);
}
