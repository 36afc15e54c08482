//! Objects that cannot be decoded in the view, and how long it keeps them.

use serde_json::{Value, json};

use super::*;
use crate::fixture::{World, list};

/// A claim of pool `web` in this version, changed by `spec`.
fn claim(version: u64, spec: &Value) -> Readable<NodeClaim> {
    let class = json!({"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"});
    let mut object = json!({
        "metadata": {
            "name": "web-1", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"karpenter.sh/nodepool": "web"},
        },
        "spec": {"nodeClassRef": class, "requirements": []},
        "status": {"providerID": "memory:///1", "nodeName": "node-1"},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn unknown_operator() -> Value {
    json!({"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
}

/// Returns whether the claim is known as a whole, and whether as one that cannot be decoded.
fn known(view: &View) -> (bool, bool) {
    let id = "memory:///1".into();
    assert_eq!(view.is_undecoded_machine(&id), view.undecoded_claims_of(&"web".into()) == 1);
    assert_eq!(view.is_claimed_machine(&id), !view.claims_or_undecoded().is_empty());
    (view.claim(&"web-1".into()).is_some(), view.is_undecoded_machine(&id))
}

#[tokio::test]
async fn a_claim_that_cannot_be_decoded_is_no_claim_to_work_on_but_has_its_machine() {
    let view = World::new().context.view;
    view.take_readable(Seen::Applied(claim(5, &json!({}))));
    assert_eq!(known(&view), (true, false));
    view.take_readable(Seen::Applied(claim(6, &unknown_operator())));
    assert_eq!(known(&view), (false, true));
    let kept = view.claims_or_undecoded().remove(0);
    assert_eq!(kept.node_name, Some("node-1".into()));
    assert_eq!((kept.uid.as_str(), kept.node_class.name.as_str()), ("u", "default"));

    // The late answer to a write of ours is older.
    view.take_readable(Seen::Applied(claim(5, &json!({}))));
    assert_eq!(known(&view), (false, true));
    view.take_readable(Seen::Applied(claim(7, &json!({}))));
    assert_eq!(known(&view), (true, false));
    // And so is an event that comes after the answer.
    view.take_readable(Seen::Applied(claim(6, &unknown_operator())));
    assert_eq!(known(&view), (true, false));
}

#[tokio::test]
async fn a_claim_that_cannot_be_decoded_is_forgotten_when_it_is_gone() {
    let view = World::new().context.view;
    view.take_readable(Seen::Applied(claim(5, &unknown_operator())));
    let Readable::Undecoded(mut earlier) = claim(4, &unknown_operator()) else { panic!("unknown operator") };
    earlier.metadata.uid = Some("another".to_owned());
    view.take_readable::<NodeClaim>(Seen::Deleted(Readable::Undecoded(earlier)));
    assert_eq!(known(&view), (false, true), "that was about another claim of the name");
    view.take_readable(Seen::Deleted(claim(6, &unknown_operator())));
    assert_eq!(known(&view), (false, false));

    view.take_readable(Seen::Applied(claim(7, &unknown_operator())));
    list::<NodeClaim>(&view, []);
    assert_eq!(known(&view), (false, false));
}

#[tokio::test]
async fn a_claim_that_says_it_is_of_another_provider_is_not_known() {
    let cases = [
        (json!({"kind": "MemoryNodeClass", "name": "default"}), true),
        (json!({"apiVersion": "karpenter.memory/v1beta1", "name": "default"}), true),
        (json!("default"), true),
        (json!({"group": "example.com", "kind": "MemoryNodeClass"}), false),
        (json!({"kind": "OtherClass", "name": "default"}), false),
    ];
    for (reference, ours) in cases {
        let view = World::new().context.view;
        view.take_readable(Seen::Applied(claim(5, &json!({"nodeClassRef": reference}))));
        assert_eq!(known(&view), (false, ours), "{reference}");
    }
}

#[tokio::test]
async fn a_pool_that_cannot_be_decoded_takes_no_part_until_it_can() {
    let view = World::new().context.view;
    let pool = |version: u64, policy: &str| {
        let mut pool = serde_json::to_value(crate::fixture::pool("web")).unwrap();
        pool["metadata"]["resourceVersion"] = json!(version.to_string());
        pool["spec"]["disruption"]["consolidationPolicy"] = json!(policy);
        Seen::Applied(serde_json::from_value::<Readable<NodePool>>(pool).unwrap())
    };
    for (version, policy, takes_part) in
        [(1, "WhenEmpty", true), (2, "Sometimes", false), (3, "WhenEmpty", true)]
    {
        view.take_readable(pool(version, policy));
        assert_eq!(view.pool(&"web".into()).is_some(), takes_part, "{policy}");
    }
}
