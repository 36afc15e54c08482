//! Reasons why a machine may not be disrupted are published again when something else keeps it, not
//! when only the words differ.

use std::collections::BTreeSet;

use karpenter_engine::disrupt::{Memory, Note, NoteKind, Standing, decide};
use karpenter_testkit::snapshot;

/// The note about the only machine that is kept.
fn told(text: &str) -> Note {
    let snapshot = snapshot(text);
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let decision = decide(&snapshot, &mut Memory::default(), &standing);
    let mut blocked = decision.notes.iter().filter(|note| note.kind == NoteKind::DisruptionBlocked);
    let (note, more) = (blocked.next().cloned(), blocked.next());
    assert_eq!(more, None);
    note.expect("it is reported")
}

/// A drifted machine in a pool that has no room for another one; `more` pods are on it.
fn stuck(limit: u32, more: &str) -> Note {
    told(&format!(
        "type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a
pool web types=* limit=cpu={limit} budget=100%
node d pool=web type=s zone=a capacity=on-demand drifted=1h
node o pool=web type=s zone=a capacity=on-demand
pod m cpu=1 on=d
pod o cpu=1500m on=o
{more}"
    ))
}

#[test]
fn amounts_and_further_pods_are_no_news_about_a_machine_and_another_pod_is() {
    let first = stuck(2, "");
    for same in [stuck(3, ""), stuck(2, "pod n cpu=900m on=d\n")] {
        assert_ne!(first.message, same.message);
        assert_eq!(first.distinguished_by, same.distinguished_by, "{} / {}", first.message, same.message);
    }
    let other = stuck(2, "pod a cpu=900m on=d\n");
    assert_ne!(first.distinguished_by, other.distinguished_by);
}
