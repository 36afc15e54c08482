//! Every check against a world in which everything is right but one thing: it finds that, and nothing else does.
#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are handed over")]

mod account_cases;
mod cluster_cases;
mod emulated;
mod ordinary;
mod wording;
mod world;

use std::collections::BTreeSet;

use crate::check::{Look, Scope, Speaker};
use crate::diagnose::{Health, Report, diagnose};
use crate::facts::{Account, Answer, Cluster, Facts};

use world::healthy;

/// A check's id, and how its fault gets into a healthy world.
type Case = (&'static str, fn(&mut Facts));

fn cases() -> Vec<Case> {
    [account_cases::CASES, cluster_cases::CASES, cluster_cases::REPORTS].concat()
}

#[test]
fn nothing_is_wrong_in_a_healthy_world_and_everything_was_looked_at() {
    let report = diagnose(&healthy(), &[]);
    assert_eq!((report.findings, report.unseen), (vec![], vec![]));
}

#[test]
fn each_fault_is_found_by_its_check_alone() {
    for (id, fault) in cases() {
        let mut facts = healthy();
        fault(&mut facts);
        let report = diagnose(&facts, &[]);
        let found: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(found, [id], "{:#?}", report.findings);
        assert_eq!(unlooked(&report), Vec::<&str>::new(), "{id}");
    }
}

/// Reasons why checks did not look, apart from objects that cannot be decoded, which are a fault of their own.
fn unlooked(report: &Report) -> Vec<&str> {
    let reasons = report.unseen.iter().map(|unseen| unseen.why.as_str());
    reasons.filter(|why| !why.ends_with("cannot be decoded, see D-46")).collect()
}

#[test]
fn what_cannot_be_decoded_is_named_and_what_is_of_auto_mode_is_not() {
    let pool = |group: &str| {
        let class = serde_json::json!({"group": group, "kind": "C", "name": "default"});
        let requirements = serde_json::json!([{"key": "a", "operator": "Resembles"}]);
        let spec = serde_json::json!({"requirements": requirements, "nodeClassRef": class});
        serde_json::json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}})
    };
    let mut facts = healthy();
    world::push(&mut facts.cluster.node_pools, pool("eks.amazonaws.com"));
    let report = diagnose(&facts, &[]);
    assert_eq!((report.findings, report.unseen), (vec![], vec![]));
    world::push(&mut facts.cluster.node_pools, pool("karpenter.k8s.aws"));
    let mut claim = pool("")["spec"]["template"].clone();
    claim["metadata"]["name"] = "a".into();
    world::push(&mut facts.cluster.node_claims, claim);
    let class = serde_json::json!({"metadata": {"name": "a"}, "spec": {"ipPrefixCount": "many"}});
    world::push(&mut facts.cluster.node_classes, class);
    let report = diagnose(&facts, &[]);
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    let named: Vec<_> =
        finding.evidence.iter().map(|one| (one.object.as_str(), one.seen.split(": ").nth(1))).collect();
    let expected = [
        ("NodePool a", Some("spec.template.spec.requirements[0].operator")),
        ("NodeClaim a", Some("spec.requirements[0].operator")),
        ("EC2NodeClass a", Some("spec.ipPrefixCount")),
    ];
    assert_eq!(named, expected);
    // Some pool might launch spot instances, so their role matters.
    facts.account.spot_role = Answer::Seen(false);
    assert_eq!(diagnose(&facts, &["P-16".to_owned()]).health(), Health::Unhealthy);
}

#[test]
fn every_fix_names_a_command_to_type() {
    let tools = ["aws ", "docker ", "eksctl ", "helm ", "karpenter ", "kubectl "];
    for check in crate::checks() {
        let mut quoted = check.fix.split('`').skip(1).step_by(2);
        let has_command = quoted.any(|text| tools.iter().any(|tool| text.starts_with(tool)));
        // AWS ends a verification by itself.
        assert!(has_command || check.id == "P-23", "{}: {}", check.id, check.fix);
    }
}

#[test]
fn every_check_has_a_case() {
    let broken: BTreeSet<&str> = cases().into_iter().map(|(id, _)| id).collect();
    for check in crate::checks() {
        assert!(broken.contains(check.id), "{}", check.id);
        // A check that looks in two places has a broken case in both.
        if matches!(check.look, Look::Either(..)) {
            let of_reports: Vec<_> =
                cluster_cases::REPORTS.iter().filter(|(id, _)| *id == check.id).collect();
            let all: Vec<_> = cases().into_iter().filter(|(id, _)| *id == check.id).collect();
            assert!(!of_reports.is_empty() && all.len() > of_reports.len(), "{}", check.id);
        }
    }
}

#[test]
fn what_the_reference_says_is_also_known_in_the_words_of_this_controller() {
    for check in crate::checks() {
        let phrases = match check.look {
            Look::At(_) => &[],
            Look::Said(phrases) | Look::SaidUnless(_, phrases) | Look::Either(_, phrases) => phrases,
        };
        let is_known = |speakers: &[Speaker]| phrases.iter().any(|phrase| speakers.contains(&phrase.speaker));
        let others = [Speaker::Ours, Speaker::Both, Speaker::Aws, Speaker::Kubernetes];
        assert!(!is_known(&[Speaker::Reference]) || is_known(&others), "{}", check.id);
        for word in phrases.iter().flat_map(|phrase| phrase.words.iter().chain(phrase.without)) {
            assert_eq!(*word, word.to_lowercase(), "{}", check.id);
        }
    }
}

/// The log and the events of an hour are looked at, and `--fix` may have made the role in that time.
#[test]
fn failures_for_lack_of_the_spot_role_end_when_it_is_there() {
    let mut facts = healthy();
    cluster_cases::without_spot_role(&mut facts);
    cluster_cases::log(&mut facts, "AuthFailure.ServiceLinkedRoleCreationNotPermitted: not permitted");
    for (role, found) in [
        (Answer::Seen(false), &["D-02"][..]),
        (Answer::Unseen("forbidden".to_owned()), &["D-02"]),
        (Answer::Seen(true), &[]),
    ] {
        facts.account.spot_role = role;
        let report = diagnose(&facts, &[]);
        let ids: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, found, "{:?}", facts.account.spot_role);
    }
}

/// Checks that the specification does not have.
const LEARNED: &[&str] = &["P-31", "P-32", "P-33", "D-46", "D-47"];

#[test]
fn every_entry_of_the_specification_is_covered_once() {
    let checks = crate::checks();
    let ids: Vec<&str> =
        checks.iter().flat_map(|check| std::iter::once(check.id).chain(check.also.iter().copied())).collect();
    let wanted = (1..=30).map(|n| format!("P-{n}")).chain((1..=45).map(|n| format!("D-{n:02}")));
    let wanted: BTreeSet<String> = wanted.chain(LEARNED.iter().map(ToString::to_string)).collect();
    assert_eq!(ids.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), wanted);
    assert_eq!(ids.len(), wanted.len(), "an entry is there twice");
    for check in checks {
        assert!(
            [check.symptom, check.cause, check.fix]
                .iter()
                .all(|text| !text.is_empty() && !text.ends_with('.'))
        );
    }
}

#[test]
fn no_check_calls_what_it_could_not_see_all_right() {
    let mut facts = healthy();
    facts.account = Account::default();
    facts.cluster = Cluster::default();
    let report = diagnose(&facts, &[]);
    assert_eq!(report.findings, []);
    // The length of the cluster's name is known without a call.
    assert_eq!(report.passed, ["P-1"]);
    assert_eq!(report.health(), Health::Unknown);
}

#[test]
fn each_refused_list_keeps_some_check_from_looking() {
    let parts = serde_json::to_value(healthy()).unwrap();
    for part in ["account", "cluster"] {
        for field in parts[part].as_object().unwrap().keys() {
            let mut facts = healthy();
            // Endpoints are needed only by a VPC without a way out.
            if field == "endpoints" {
                account_cases::close(&mut facts);
            }
            // Where a controller is deployed, and where nothing waits for one, its Lease says nothing more.
            if field == "leases" {
                cluster_cases::abandoned(&mut facts);
            }
            // Without a feature that needs more, no right is looked for.
            if field.starts_with("cluster_role") {
                cluster_cases::open_gate(&mut facts);
            }
            let mut value = serde_json::to_value(facts).unwrap();
            value[part][field] = serde_json::json!({"unseen": "forbidden"});
            let facts: Facts = serde_json::from_value(value).unwrap();
            let report = diagnose(&facts, &[]);
            assert_eq!(report.findings, [], "{part}.{field}");
            assert!(report.unseen.iter().all(|unseen| unseen.why == "forbidden"), "{part}.{field}");
            assert!(!report.unseen.is_empty(), "no check needs {part}.{field}");
        }
    }
}

/// Returns how many repairs the report offers.
fn repairs(facts: &Facts) -> usize {
    let report = diagnose(facts, &[]);
    let evidence = report.findings.iter().flat_map(|finding| &finding.evidence);
    evidence.filter(|evidence| evidence.repair.is_some()).count()
}

#[test]
fn a_finalizer_is_only_dropped_without_a_leader_and_a_while_after_the_deletion() {
    let (fresh, stale) = ("2026-01-01T11:59:50Z", "2026-01-01T11:54:00Z");
    let (recent, long_ago) = ("2026-01-01T11:59:50Z", "2026-01-01T11:45:00Z");
    for (renewed, at, ids, offered) in [
        (Some(fresh), recent, &[][..], 0),
        (Some(fresh), long_ago, &[], 0),
        (Some(stale), recent, &["D-10"], 0),
        (Some(stale), long_ago, &["D-10"], 1),
        (None, recent, &["D-10"], 0),
        (None, long_ago, &["D-10"], 1),
    ] {
        let mut facts = healthy();
        cluster_cases::deleted(&mut facts, at);
        if let Some(renewed) = renewed {
            world::push(
                &mut facts.cluster.leases,
                cluster_cases::lease("karpenter-leader-election", renewed),
            );
        }
        let found: Vec<_> = diagnose(&facts, &[]).findings.iter().map(|finding| finding.id).collect();
        assert_eq!((found.as_slice(), repairs(&facts)), (ids, offered), "{renewed:?} {at}");
    }
}

#[test]
fn what_ends_is_left_to_a_controller_that_leads_without_a_deployment() {
    let mut facts = healthy();
    facts.cluster.deployments = Answer::Seen(Vec::new());
    let ending = serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T11:00:00Z"}});
    world::change(world::first(&mut facts.cluster.node_claims), ending);
    let ids = |facts: &Facts| -> Vec<_> {
        diagnose(facts, &[]).findings.iter().map(|finding| finding.id).collect()
    };
    assert_eq!(ids(&facts), ["P-26"]);
    let lease = cluster_cases::lease("karpenter-leader-election", "2026-01-01T11:59:50Z");
    world::push(&mut facts.cluster.leases, lease);
    assert_eq!(ids(&facts), Vec::<&str>::new());
}

#[test]
fn before_an_installation_the_account_is_looked_at() {
    let mut facts = healthy();
    facts.cluster = Cluster::default();
    facts.account.spot_role = Answer::Seen(false);
    let report = diagnose(&facts, &[]);
    assert_eq!(report.findings.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["P-16"]);
    let of_account = crate::checks().into_iter().filter(|check| check.scope == Scope::Account);
    for check in of_account.filter(|check| check.id != "P-16") {
        assert!(report.passed.contains(&check.id), "{} needs a cluster", check.id);
    }
}

#[test]
fn some_checks_can_be_named_also_by_their_other_names() {
    let report = diagnose(&healthy(), &["d-33".to_owned(), "P-16".to_owned()]);
    assert_eq!(report.passed, ["P-16", "P-18"]);
}

#[test]
fn facts_survive_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut facts = healthy();
    facts.cluster.events = Answer::Unseen("forbidden".to_owned());
    crate::facts::export(&facts, folder.path()).unwrap();
    let back = crate::facts::import(folder.path()).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), serde_json::to_value(&facts).unwrap());
    std::fs::remove_file(folder.path().join("cluster-nodes.json")).unwrap();
    let back = crate::facts::import(folder.path()).unwrap();
    assert_eq!(back.cluster.nodes, Answer::Unasked);
    assert!(crate::facts::import(&folder.path().join("none")).is_err());
}
