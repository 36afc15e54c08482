//! Requests of a class to EC2, checked on the instances that result: every behaviour has classes, a pool and pods of its own,
//! and all of them happen at once.
//!
//! The resolution of the class is read from its status, the launch from EC2's own description of the instance. The stand-in for
//! the kubelet joins with nothing but the user data, so a pod that runs has been given the right one.

mod account;
mod images;

use anyhow::{Context, Result};
use futures::future::FutureExt;
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::Instance;
use karpenter_model::names::condition;
use kube::api::Api;
use serde_json::{Value, json};

use super::behaviour::{self, Behaviour, Only};
use super::facts::instance_behind;
use super::test_namespace::{TestNamespace, class_like_default, class_says, refers_to};
use crate::manifests;
use crate::world::World;

/// The names of the behaviours.
pub fn behaviours() -> Vec<&'static str> {
    behaviour::names(&[BEHAVIOURS])
}

/// Runs all behaviours in a world in which nothing of ours is installed yet. Without election, as in `scheduling`.
pub async fn run(world: &mut World, only: &Only) -> Result<()> {
    world.without_election();
    world.install().await?;
    world.install_class().await?;
    let failures = behaviour::prove(world, "classes", &[BEHAVIOURS], only).await;
    world.check_controller().await?;
    failures?;
    behaviour::clear_away(world).await
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "an image is chosen by id, and of several the newest",
        proof: |world| images::by_id(world).boxed_local(),
    },
    Behaviour {
        name: "an image is chosen by name, from its owner only",
        proof: |world| images::by_name(world).boxed_local(),
    },
    Behaviour { name: "an image is chosen by its tags", proof: |world| images::by_tags(world).boxed_local() },
    Behaviour {
        name: "an image is what a public parameter says",
        proof: |world| images::by_parameter(world).boxed_local(),
    },
    Behaviour {
        name: "a deprecated image is taken when there is no other, and called so",
        proof: |world| images::deprecated(world).boxed_local(),
    },
    Behaviour {
        name: "Bottlerocket is pinned with and without the letter of a version",
        proof: |world| images::pinned_bottlerocket(world).boxed_local(),
    },
    Behaviour {
        name: "machines of the Custom family get the user data of the class as it is",
        proof: |world| images::custom(world).boxed_local(),
    },
    Behaviour {
        name: "subnets and security groups are chosen by id",
        proof: |world| account::network(world).boxed_local(),
    },
    Behaviour {
        name: "disks are those of the class, and everything has its tags",
        proof: |world| account::disks_and_tags(world).boxed_local(),
    },
    Behaviour {
        name: "a role gets a profile, and a profile of others is used as it is",
        proof: |world| account::profiles(world).boxed_local(),
    },
];

/// A class that is ready, and a pool of it under the same name.
async fn class_with_pool(test: &TestNamespace<'_>, name: &str, change: Value) -> Result<EC2NodeClass> {
    let world = test.world;
    manifests::apply_json(&world.client, class_like_default(world, name, change).await?).await?;
    class_says(world, name, (condition::READY, "True", condition::READY)).await?;
    test.ready_pool(name, refers_to(name)).await?;
    Api::all(world.client.clone()).get(name).await.with_context(|| format!("read class `{name}`"))
}

/// The instance that a pod of this pool gets, as EC2 describes it.
async fn launched(test: &TestNamespace<'_>, pool: &str) -> Result<Instance> {
    let its_nodes = json!({"spec": {"nodeSelector": {(karpenter_model::names::label::NODE_POOL): pool}}});
    test.pods(pool, 1, its_nodes).await?;
    let node = test.running(pool, 1).await?.remove(0);
    instance_behind(test.world, &node).await
}
