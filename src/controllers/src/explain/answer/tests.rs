//! Answers about decisions.

use karpenter_model::report::ReasonCode;
use karpenter_model::{DisruptionReason, Method, PodKey};

use super::*;
use crate::explain::launches::Launches;
use crate::explain::{Provisioning, Refused};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn kept(code: ReasonCode, detail: &str) -> NodeOutcome {
    NodeOutcome::Kept(Reason::new(code, detail))
}

fn known() -> Known {
    let machine = |name: &str, outcome| Machine {
        node: Some(name.into()),
        claim: Some(format!("{name}-claim").as_str().into()),
        pool: Some("web".into()),
        outcome,
        command: None,
    };
    let protected = "`web` protects default/web-1";
    let going = Machine {
        command: Some("replace: [old] -> [1 replacement]".to_owned()),
        ..machine("old", NodeOutcome::Removed(Method::SingleNode))
    };
    let machines = [
        ("1", machine("busy", kept(ReasonCode::PodDisruptionBudget, protected))),
        ("2", going),
        ("3", machine("young", kept(ReasonCode::ConsolidateAfter, "5s of 30s"))),
        ("4", machine("younger", kept(ReasonCode::ConsolidateAfter, "1s of 30s"))),
    ];
    let machines: BTreeMap<NodeId, Machine> = machines.map(|(id, machine)| (id.into(), machine)).into();
    let nodes = machines.iter().map(|(id, machine)| (machine.node.clone().unwrap(), id.clone())).collect();
    let claims = machines.iter().map(|(id, machine)| (machine.claim.clone().unwrap(), id.clone())).collect();
    let budget = |allowed| BudgetState { allowed, consuming: 1, total: 4 };
    Known {
        disruption: Some(Disruption {
            at: at(100),
            machines,
            nodes,
            claims,
            budgets: [
                (("web".into(), DisruptionReason::Empty), budget(2)),
                (("web".into(), DisruptionReason::Drifted), budget(BudgetState::NO_LIMIT)),
                (("api".into(), DisruptionReason::Empty), budget(7)),
            ]
            .into(),
            commands: vec!["replace: [old] -> [1 replacement]".to_owned()],
        }),
        provisioning: Some(Provisioning {
            at: at(90),
            pods: [
                (pod_key("fits"), PodOutcome::Existing("busy".into())),
                (
                    pod_key("waits"),
                    PodOutcome::Unschedulable(vec![
                        refusal("api", ReasonCode::Requirements, "team in [a] and [b]"),
                        refusal("web", ReasonCode::Taint, "gpu=true:NoSchedule"),
                        refusal("zoo", ReasonCode::Requirements, "team in [a] and [c]"),
                    ]),
                ),
            ]
            .into(),
            pools: [
                ("web".into(), PoolOutcome::Used { launches: 3 }),
                ("api".into(), PoolOutcome::Skipped(Reason::bare(ReasonCode::PoolNotReady))),
            ]
            .into(),
        }),
        launches: Launches::default(),
        refused: Refused::default(),
    }
}

fn refusal(pool: &str, code: ReasonCode, detail: &str) -> PoolRefusal {
    PoolRefusal { pool: Some(pool.into()), reason: Reason::new(code, detail) }
}

fn pod_key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

fn ask(question: &str) -> Answer {
    answer(&known(), &question.parse().unwrap())
}

fn facts(answer: &Answer) -> Vec<String> {
    answer.facts.iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect()
}

#[test]
fn a_node_that_stays_says_who_stands_in_the_way() {
    let answer = ask("node/busy");
    assert_eq!((answer.verdict.as_str(), answer.decided_at), ("stays", Some(at(100))));
    let [why] = &answer.reasons[..] else { panic!("{answer:?}") };
    assert_eq!(why.code, "PodDisruptionBudget");
    assert_eq!(why.text, "a pod disruption budget prevents evictions: `web` protects default/web-1");
    assert_eq!(facts(&answer), ["node: busy", "nodeclaim: busy-claim", "nodepool: web"]);
}

#[test]
fn a_node_that_goes_says_by_what_and_is_found_by_its_claim_too() {
    let answer = ask("nodeclaim/old-claim");
    assert_eq!(answer.verdict, "is to go, by SingleNode");
    assert!(facts(&answer).contains(&"command: replace: [old] -> [1 replacement]".to_owned()));
    assert_eq!(ask("node/nobody").verdict, "is not known");
}

#[test]
fn a_pod_that_waits_hears_each_pool_the_one_that_comes_closest_first() {
    let answer = ask("pod/waits");
    assert_eq!(answer.verdict, "waits, no pool can take it");
    let pools: Vec<&str> = answer.reasons.iter().filter_map(|why| why.subject.as_deref()).collect();
    assert_eq!(pools, ["web", "api", "zoo"]);
    assert_eq!(answer.reasons[0].text, "pod does not tolerate a taint: gpu=true:NoSchedule");
    assert_eq!(ask("pod/default/fits").verdict, "fits on node/busy");
    assert_eq!(ask("pod/other/fits").verdict, "did not wait for capacity at the last pass");
}

#[test]
fn a_pool_says_what_its_budgets_allow_and_why_its_nodes_stay() {
    let answer = ask("nodepool/web");
    assert_eq!(answer.verdict, "takes part, 3 new nodes at the last pass");
    assert_eq!(
        facts(&answer),
        [
            "disruptions (Empty): 2 at once, 1 under way",
            "disruptions (Drifted): no limit, 1 under way",
            "nodes that are to go: 1",
            "nodes that stay (ConsolidateAfter): 2, node has not been quiet long enough",
            "nodes that stay (PodDisruptionBudget): 1, a pod disruption budget prevents evictions",
        ]
    );
    let refused = ask("nodepool/api");
    assert_eq!(refused.verdict, "does not take part");
    assert_eq!(refused.reasons[0].text, "pool is not ready");
}

#[test]
fn the_whole_in_short_names_the_commands() {
    let answer = ask("all");
    assert_eq!(answer.verdict, "1 command proposed");
    assert_eq!(facts(&answer)[0], "command 1: replace: [old] -> [1 replacement]");
    assert_eq!(facts(&answer).last().unwrap(), "pods without a place: 1");
}

#[test]
fn a_plan_that_is_refused_is_part_of_the_whole() {
    let mut known = known();
    known.refused.note("`web` is over its limit", at(95));
    let answer = answer(&known, &"all".parse().unwrap());
    assert_eq!(facts(&answer).last().unwrap(), "refused plan: `web` is over its limit");
}

#[test]
fn before_anything_was_decided_that_is_said() {
    for question in ["all", "node/a", "nodeclaim/a", "pod/a", "nodepool/a"] {
        let answer = answer(&Known::default(), &question.parse().unwrap());
        assert!(answer.verdict.starts_with("nothing has been decided yet"), "{question}");
        assert_eq!(answer.decided_at, None);
    }
}

#[test]
fn an_answer_is_read_back_as_it_was_written() {
    let answer = ask("node/busy");
    let text = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
}
