//! Connections that end before the answer, on an API server in memory.

use karpenter_api::NodeClaim;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use kube::ResourceExt;
use serde_json::json;

use crate::fixture::World;
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

/// A world whose next creations of claims fare like this.
fn world(faults: &[Fault]) -> World {
    let world = World::with_definitions();
    for fault in faults {
        world.server.faults().inject(Rule::on("create").resource("nodeclaims").times(1), fault.clone());
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_nothing_whether_the_claim_was_made_or_not() {
    for faults in [
        vec![Fault::HangUp],
        vec![Fault::LostAnswer],
        vec![Fault::HangUp, Fault::LostAnswer],
        vec![Fault::LostAnswer, Fault::LostAnswer],
    ] {
        let world = world(&faults);
        let began = tokio::time::Instant::now();
        let created = write::create(&world.context.all(), &claim("web-1", "uid")).await.unwrap();
        assert_eq!(began.elapsed(), std::time::Duration::ZERO, "at once");
        let present: Vec<NodeClaim> = world.list().await;
        assert_eq!(present.len(), 1, "{faults:?}");
        assert_eq!(created.uid(), present[0].uid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_worked_on_meanwhile_is_still_the_one() {
    let world = world(&[Fault::LostAnswer]);
    let claims = world.context.all::<NodeClaim>();
    // Between the lost answer and the second try the claim gets what the life of a claim gives it.
    world.server.faults().inject(
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
            let world = world(&[]);
            let claims = world.context.all::<NodeClaim>();
            write::create(&claims, &foreign).await.unwrap();
            for fault in &faults {
                let rule = Rule::on("create").resource("nodeclaims").times(1);
                world.server.faults().inject(rule, fault.clone());
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
    let world = world(&[]);
    let claims = world.context.all::<NodeClaim>();
    write::create(&claims, &claim("web-1", "uid")).await.unwrap();
    let error = write::create(&claims, &claim("web-1", "uid")).await.unwrap_err();
    assert!(error.is_conflict(), "no answer was lost: {error}");
}

#[tokio::test(start_paused = true)]
async fn patches_and_deletions_are_repeated_too_and_a_server_that_stays_away_is_an_error() {
    let world = world(&[]);
    let (claims, faults) = (world.context.all::<NodeClaim>(), world.server.faults());
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
