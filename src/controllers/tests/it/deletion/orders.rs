//! Every order in which Node, NodeClaim, NodePool, node class and machine can be deleted: all 120, those that start
//! with the same one side by side in one cluster. Nothing is left, and no machine is ended under its pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_model::ProviderId;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, World};

/// Object that can be deleted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Node,
    Claim,
    Pool,
    Class,
    Instance,
}

use Part::{Claim, Class, Instance, Node as TheNode, Pool};

const PARTS: [Part; 5] = [TheNode, Claim, Pool, Class, Instance];

/// Between two deletions of one order: enough for a drain to begin, not for it to end.
const PAUSE: Duration = Duration::from_secs(3);

/// One machine with everything it hangs on, all of which have the name of the order they go in.
struct Subject {
    name: String,
    order: Vec<Part>,
    claim: String,
    node: String,
    machine: ProviderId,
}

/// Every order that starts with `first`.
fn orders(first: Part) -> Vec<Vec<Part>> {
    let mut orders = vec![vec![first]];
    for _ in 1..PARTS.len() {
        orders = orders
            .iter()
            .flat_map(|order| {
                let left = PARTS.into_iter().filter(|part| !order.contains(part));
                left.map(|part| [order.as_slice(), &[part]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    orders
}

impl Subject {
    /// True when the machine is still there when a drain begins.
    fn drains(&self) -> bool {
        let position = |part| self.order.iter().position(|one| *one == part);
        position(TheNode).min(position(Claim)) < position(Instance)
    }

    async fn delete_in_order(&self, world: &World) {
        for part in &self.order {
            self.delete(world, *part).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn delete(&self, world: &World, part: Part) {
        // It may have gone with another part.
        match part {
            TheNode => world.delete_if_there::<Node>(&self.node).await,
            Claim => world.delete_if_there::<NodeClaim>(&self.claim).await,
            Pool => world.delete_if_there::<NodePool>(&self.name).await,
            Class => world.delete_class(&self.name).await,
            Instance => world.account.vanish(&self.machine),
        }
    }
}

/// A running machine with a pod of its own for each of `orders`.
async fn subjects(world: &World, orders: &[Vec<Part>]) -> Vec<Subject> {
    let named = |order: &Vec<Part>| {
        let words: Vec<String> = order.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
        (words.join("-"), order.clone())
    };
    let planned: Vec<(String, Vec<Part>)> = orders.iter().map(named).collect();
    for (name, _) in &planned {
        world.class(name);
        world.pool(
            name,
            &json!({
                "template": {"spec": {"nodeClassRef": {"name": name}}},
                "disruption": {"consolidateAfter": "Never"},
            }),
        );
        world.pod_with(name, "1", &json!({"nodeSelector": {"karpenter.sh/nodepool": name}}));
    }
    world
        .until("all nodes are initialized and all pods run", 10 * MINUTE, || {
            world.has_nodes(planned.len()) && world.runs(planned.len())
        })
        .await;
    let claims = world.claims();
    let subject = |(name, order): (String, Vec<Part>)| {
        let claim = claims.iter().find(|claim| claim.labels()["karpenter.sh/nodepool"] == name).unwrap();
        let status = claim.status.as_ref().unwrap();
        Subject {
            name,
            order,
            claim: claim.name_any(),
            node: status.node_name.clone().unwrap(),
            machine: status.provider_id.as_deref().unwrap().into(),
        }
    };
    planned.into_iter().map(subject).collect()
}

async fn nothing_is_left_of_any_order_that_starts_with(first: Part) {
    let world = World::new().await;
    let process = world.start();
    let subjects = subjects(&world, &orders(first)).await;
    assert_eq!(subjects.len(), 24);
    futures::future::join_all(subjects.iter().map(|subject| subject.delete_in_order(&world))).await;
    world.all_gone().await;
    let pools: Vec<NodePool> = world.list();
    assert!(pools.is_empty(), "left: {:?}", pools.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    assert_eq!(world.class_names().await, ["default"]);
    let evicted: Vec<String> = process
        .events
        .events()
        .into_iter()
        .filter(|event| event.reason.name() == "Evicted")
        .map(|event| event.object.name)
        .collect();
    for subject in subjects.iter().filter(|subject| subject.drains()) {
        assert!(evicted.contains(&subject.name), "the machine was ended under its pod: {}", subject.name);
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_first_leaves_nothing() {
    nothing_is_left_of_any_order_that_starts_with(TheNode).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_first_leaves_nothing() {
    nothing_is_left_of_any_order_that_starts_with(Claim).await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_deleted_first_leaves_nothing() {
    nothing_is_left_of_any_order_that_starts_with(Pool).await;
}

#[tokio::test(start_paused = true)]
async fn a_class_deleted_first_leaves_nothing() {
    nothing_is_left_of_any_order_that_starts_with(Class).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_vanishes_first_leaves_nothing() {
    nothing_is_left_of_any_order_that_starts_with(Instance).await;
}

#[test]
fn all_orders_are_tried() {
    let all: std::collections::BTreeSet<String> =
        PARTS.into_iter().flat_map(orders).map(|order| format!("{order:?}")).collect();
    assert_eq!(all.len(), 120);
}
