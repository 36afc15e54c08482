//! Connections that end before the answer, on an API server in memory.

use karpenter_api::NodeClaim;
use karpenter_kube_sim::apiserver::{ApiServer, Fault, Rule};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::fixture;
use crate::write;

fn claim(name: &str, owner: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "ownerReferences": [
                {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": owner},
            ],
        },
        "spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
            "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
        },
    }))
    .unwrap()
}

/// An API server with the definitions of our kinds, on which the next creations of claims fare like this.
fn server(faults: &[Fault]) -> ApiServer {
    let server = fixture::server();
    for definition in karpenter_api::crd::crd_values() {
        server.load(&definition).unwrap();
    }
    for fault in faults {
        server.faults().inject(Rule::on("create").resource("nodeclaims").times(1), fault.clone());
    }
    server
}

fn claims(server: &ApiServer) -> Api<NodeClaim> {
    Api::all(server.client())
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_nothing_whether_the_claim_was_made_or_not() {
    for faults in [
        vec![Fault::HangUp],
        vec![Fault::LostAnswer],
        vec![Fault::HangUp, Fault::LostAnswer],
        vec![Fault::LostAnswer, Fault::LostAnswer],
    ] {
        let server = server(&faults);
        let began = tokio::time::Instant::now();
        let created = write::create(&claims(&server), &claim("web-1", "uid")).await.unwrap();
        assert_eq!(began.elapsed(), std::time::Duration::ZERO, "at once");
        let present = claims(&server).list(&ListParams::default()).await.unwrap().items;
        assert_eq!(present.len(), 1, "{faults:?}");
        assert_eq!(created.uid(), present[0].uid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_worked_on_meanwhile_is_still_the_one() {
    let server = server(&[Fault::LostAnswer]);
    let claims = claims(&server);
    // Between the lost answer and the second try the claim gets what the life of a claim gives it.
    server.faults().inject(
        Rule::on("create").resource("nodeclaims").times(1),
        Fault::Delay(std::time::Duration::from_secs(5)),
    );
    let sent = claim("web-1", "uid");
    let change =
        json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "spot"}, "finalizers": ["ours"]}});
    let later = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        write::merge(&claims, "web-1", &change).await.unwrap()
    };
    let (created, changed) = tokio::join!(write::create(&claims, &sent), later);
    let created = created.unwrap();
    assert_eq!(created.finalizers(), ["ours"]);
    assert_eq!(created.uid(), changed.unwrap().uid());
}

#[tokio::test(start_paused = true)]
async fn an_object_somebody_else_made_under_the_name_is_not_ours() {
    for faults in [vec![], vec![Fault::HangUp]] {
        for foreign in [claim("web-1", "another pool"), with_other_spec()] {
            let server = server(&[]);
            let claims = claims(&server);
            write::create(&claims, &foreign).await.unwrap();
            for fault in &faults {
                let rule = Rule::on("create").resource("nodeclaims").times(1);
                server.faults().inject(rule, fault.clone());
            }
            let error = write::create(&claims, &claim("web-1", "uid")).await.unwrap_err();
            assert!(error.is_conflict(), "{error}");
        }
    }
}

fn with_other_spec() -> NodeClaim {
    let mut foreign = claim("web-1", "uid");
    foreign.spec.requirements[0].values = Some(vec!["on-demand".to_owned()]);
    foreign
}

#[tokio::test(start_paused = true)]
async fn an_equal_object_that_was_there_before_is_not_taken_for_the_new_one() {
    let server = server(&[]);
    let claims = claims(&server);
    write::create(&claims, &claim("web-1", "uid")).await.unwrap();
    let error = write::create(&claims, &claim("web-1", "uid")).await.unwrap_err();
    assert!(error.is_conflict(), "no answer was lost: {error}");
}

#[tokio::test(start_paused = true)]
async fn patches_and_deletions_are_repeated_too_and_a_server_that_stays_away_is_an_error() {
    let server = server(&[]);
    let (claims, faults) = (claims(&server), server.faults());
    let created = write::create(&claims, &claim("web-1", "uid")).await.unwrap();
    faults.inject(Rule::on("patch").resource("nodeclaims").times(2), Fault::LostAnswer);
    let change = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["ours"]}});
    let patched = write::merge(&claims, "web-1", &change).await.unwrap().unwrap();
    assert_eq!(patched.labels()["a"], "b");
    faults.inject(Rule::on("delete").resource("nodeclaims").times(1), Fault::LostAnswer);
    assert!(write::delete(&claims, "web-1", created.uid()).await.unwrap());
    faults.inject(Rule::any().resource("nodeclaims").times(3), Fault::HangUp);
    let error = write::merge(&claims, "web-1", &change).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot patch NodeClaim `web-1`");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_refused_for_a_conflict_is_not_taken_for_done_while_the_object_is_there() {
    let server = server(&[]);
    let (claims, faults) = (claims(&server), server.faults());
    let created = write::create(&claims, &claim("web-1", "uid")).await.unwrap();
    faults.inject(Rule::on("delete").resource("nodeclaims").times(1), Fault::Conflict);
    let error = write::delete(&claims, "web-1", created.uid()).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(!write::delete(&claims, "web-1", Some("of-another".to_owned())).await.unwrap());
    assert!(write::delete(&claims, "web-1", created.uid()).await.unwrap());
}
