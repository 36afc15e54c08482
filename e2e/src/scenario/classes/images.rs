//! Image that an instance boots: every kind of selector, the images in the status, and families that are not the default one.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::{Image, ImageQuery};
use karpenter_aws_api::id::ImageId;
use karpenter_aws_api::{Filter, Tags};
use serde_json::json;

use super::{class_with_pool, launched};
use crate::manifests;
use crate::scenario::test_namespace::{TestNamespace, class_like_default, class_says};
use crate::world::World;

/// Two releases the emulated account has had from its start, oldest first.
const RELEASES: [&str; 2] = [
    "amazon-eks-node-al2023-x86_64-standard-1.35-v20260120",
    "amazon-eks-node-al2023-x86_64-standard-1.35-v20260210",
];
const BOTTLEROCKET: &str = "bottlerocket-aws-k8s-1.35-x86_64-v1.52.0";
/// The account that publishes images for EKS.
const EKS: &str = "602401143452";

pub(super) async fn by_id(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-ids").await?;
    let [old, new] = releases(world).await?;
    for (name, ids, expected) in [("image-id", vec![&old], &old), ("image-id-list", vec![&old, &new], &new)] {
        let terms: Vec<_> = ids.iter().map(|id| json!({"id": id.as_str()})).collect();
        let class =
            class_with_pool(&test, name, json!({"amiFamily": "AL2023", "amiSelectorTerms": terms})).await?;
        ensure!(listed(&class) == BTreeSet::from([expected.to_string()]), "{name}: {:?}", class.status);
        boots(&test, name, expected).await?;
    }
    Ok(())
}

/// Names may have wildcards. Without an owner those of the account itself and of Amazon count.
pub(super) async fn by_name(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-names").await?;
    let [old, new] = releases(world).await?;
    let family = |term| json!({"amiFamily": "AL2023", "amiSelectorTerms": [term]});
    let named = |name: &str, owner: &str| family(json!({"name": name, "owner": owner}));
    for (class, selection) in
        [("image-name", named(RELEASES[0], EKS)), ("image-of-any", family(json!({"name": RELEASES[0]})))]
    {
        class_with_pool(&test, class, selection).await?;
        boots(&test, class, &old).await?;
    }

    let wildcard = "amazon-eks-node-al2023-x86_64-standard-1.35-*";
    let class = class_with_pool(&test, "image-wildcard", named(wildcard, EKS)).await?;
    ensure!(listed(&class) == BTreeSet::from([new.to_string()]), "{:?}", class.status);
    boots(&test, "image-wildcard", &new).await?;

    let class = class_like_default(world, "image-stranger", named(RELEASES[0], "123456789012")).await?;
    manifests::apply_json(&world.client, class).await?;
    class_says(world, "image-stranger", ("AMIsReady", "False", "AMINotFound")).await?;
    class_says(world, "image-stranger", ("Ready", "False", "UnhealthyDependents")).await
}

pub(super) async fn by_tags(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-tags").await?;
    let [old, _] = releases(world).await?;
    let tags = Tags::from([("example.com/approved".to_owned(), "yes".to_owned())]);
    world.aws.ec2.create_tags(&[old.to_string()], &tags).await.context("tag an image")?;
    let tagged =
        json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"example.com/approved": "yes"}}]});
    let class = class_with_pool(&test, "image-tags", tagged).await?;
    ensure!(listed(&class) == BTreeSet::from([old.to_string()]), "{:?}", class.status);
    boots(&test, "image-tags", &old).await
}

pub(super) async fn by_parameter(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-parameter").await?;
    let [old, _] = releases(world).await?;
    let path = format!(
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/{}/image_id",
        RELEASES[0]
    );
    let parameter = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": path}]});
    let class = class_with_pool(&test, "image-parameter", parameter).await?;
    ensure!(listed(&class) == BTreeSet::from([old.to_string()]), "{:?}", class.status);
    boots(&test, "image-parameter", &old).await
}

/// Deprecates an image of Bottlerocket, which no other behaviour here lists by name.
pub(super) async fn deprecated(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-deprecated").await?;
    let image = image(world, "bottlerocket-aws-k8s-1.34-x86_64-v1.52.0").await?.id;
    world.control()?.deprecate_image(&world.environment.region, image.as_str()).await?;
    let only = json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": image.as_str()}]});
    let class = class_with_pool(&test, "image-deprecated", only).await?;
    let status = class.status.clone().unwrap_or_default();
    ensure!(
        status.amis.iter().map(|ami| (ami.id.as_str(), ami.deprecated)).eq([(image.as_str(), true)]),
        "{status:?}"
    );
    boots(&test, "image-deprecated", &image).await
}

pub(super) async fn pinned_bottlerocket(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "bottlerocket").await?;
    let expected = image(world, BOTTLEROCKET).await?.id;
    for (name, alias) in [("with-letter", "bottlerocket@v1.52.0"), ("without-letter", "bottlerocket@1.52.0")]
    {
        class_with_pool(&test, name, json!({"amiSelectorTerms": [{"alias": alias}]})).await?;
        boots(&test, name, &expected).await?;
    }
    Ok(())
}

/// The user data has to do everything then, the taint of unregistered nodes and the labels of the pool included.
pub(super) async fn custom(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "custom").await?;
    let [old, _] = releases(world).await?;
    let cluster = &world.environment.cluster;
    let user_data = format!(
        "\
---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: {cluster}
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  kubelet:
    flags:
      - --node-labels=example.com/built-by=hand
    config:
      registerWithTaints:
        - {{key: karpenter.sh/unregistered, effect: NoExecute}}
"
    );
    let class = json!({
        "amiFamily": "Custom",
        "amiSelectorTerms": [{"id": old.as_str()}],
        "userData": user_data,
    });
    class_with_pool(&test, "custom", class).await?;
    let instance = launched(&test, "custom").await?;
    let given = world.aws.ec2.describe_user_data(&instance.id).await?.context("there is no user data")?;
    ensure!(given.expose() == user_data, "the user data was changed");
    let node = test.nodes().await?.pop().context("there is no node")?;
    let label = crate::scenario::facts::label(&node, "example.com/built-by").to_owned();
    ensure!(label == "hand", "the node joined with example.com/built-by={label}");
    Ok(())
}

/// A pod of the class with this name gets an instance of this image.
async fn boots(test: &TestNamespace<'_>, class: &str, expected: &ImageId) -> Result<()> {
    let image = launched(test, class).await?.image;
    ensure!(image == *expected, "`{class}` launched {image}, expected {expected}");
    Ok(())
}

/// Returns the images in the status of a class: of images for the same machines the newest (spec aws-provider 6.2).
fn listed(class: &EC2NodeClass) -> BTreeSet<String> {
    class.status.iter().flat_map(|status| &status.amis).map(|ami| ami.id.clone()).collect()
}

async fn releases(world: &World) -> Result<[ImageId; 2]> {
    let [old, new] = RELEASES;
    Ok([image(world, old).await?.id, image(world, new).await?.id])
}

async fn image(world: &World, name: &str) -> Result<Image> {
    let query = ImageQuery { filters: vec![Filter::new("name", [name])], ..ImageQuery::default() };
    let mut found = world.aws.ec2.describe_images(&query).await?.items;
    found.pop().with_context(|| format!("the account has no image `{name}`"))
}
