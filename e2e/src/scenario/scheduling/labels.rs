//! A pool that allows everything, and pods that select by the provider's labels: each gets a machine of which EC2 says
//! the same, in the catalogue's words or in those of the instance.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::{Instance, Tenancy};
use karpenter_aws_api::id::ZoneId;
use karpenter_model::names::label::{self, aws};
use kube::api::Api;
use serde_json::json;

use crate::scenario::facts;
use crate::scenario::test_namespace::{TestNamespace, needs, requiring};
use crate::world::World;

/// A label, the value a pod selects, and whether an instance is what that means.
struct Selection {
    app: &'static str,
    key: &'static str,
    value: &'static str,
    holds: fn(&Instance) -> bool,
}

const SELECTIONS: &[Selection] = &[
    Selection {
        app: "type",
        key: label::INSTANCE_TYPE,
        value: "m5.large",
        holds: |of| of.instance_type.as_str() == "m5.large",
    },
    Selection {
        app: "family",
        key: aws::INSTANCE_FAMILY,
        value: "c6i",
        holds: |of| of.instance_type.as_str().starts_with("c6i."),
    },
    Selection {
        app: "size",
        key: aws::INSTANCE_SIZE,
        value: "2xlarge",
        holds: |of| of.instance_type.as_str().ends_with(".2xlarge"),
    },
    Selection {
        app: "category",
        key: aws::INSTANCE_CATEGORY,
        value: "r",
        holds: |of| of.instance_type.as_str().starts_with('r'),
    },
    Selection {
        app: "generation",
        key: aws::INSTANCE_GENERATION,
        value: "7",
        holds: |of| of.instance_type.as_str().contains('7'),
    },
    // Graviton is in types whose family has a `g` after its generation, as in m6gd.
    Selection {
        app: "manufacturer",
        key: aws::INSTANCE_CPU_MANUFACTURER,
        value: "aws",
        holds: |of| {
            let family = of.instance_type.as_str().split('.').next().unwrap_or_default();
            let tail = family.trim_start_matches(|c: char| c.is_ascii_lowercase());
            tail.contains('g') || family == "a1"
        },
    },
    // Local disks are a `d` there.
    Selection {
        app: "local-disk",
        key: aws::INSTANCE_LOCAL_NVME,
        value: "75",
        holds: |of| of.instance_type.as_str().contains("d."),
    },
    Selection {
        app: "gpu",
        key: aws::INSTANCE_GPU_NAME,
        value: "t4",
        holds: |of| of.instance_type.as_str().starts_with("g4dn."),
    },
    Selection {
        app: "accelerator",
        key: aws::INSTANCE_ACCELERATOR_NAME,
        value: "inferentia2",
        holds: |of| of.instance_type.as_str().starts_with("inf2."),
    },
    Selection {
        app: "flex",
        key: aws::INSTANCE_CAPABILITY_FLEX,
        value: "true",
        holds: |of| of.instance_type.as_str().contains("-flex."),
    },
    Selection {
        app: "tenancy",
        key: aws::INSTANCE_TENANCY,
        value: "dedicated",
        holds: |of| of.tenancy == Tenancy::Dedicated,
    },
];

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "labels").await?;
    let everything = requiring(json!([
        needs(label::ARCH, &["amd64", "arm64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
    ]));
    test.ready_pool("labels", everything).await?;
    try_join_all(SELECTIONS.iter().map(|selection| {
        let selector = json!({"spec": {"nodeSelector": {selection.key: selection.value}}});
        test.pods(selection.app, 1, selector)
    }))
    .await?;
    let zones = zone_ids(world).await?;
    try_join_all(zones.iter().map(|id| {
        let (test, selector) = (&test, json!({"spec": {"nodeSelector": {(aws::ZONE_ID): id}}}));
        async move { test.pods(&format!("zone-{id}"), 1, selector).await }
    }))
    .await?;

    for selection in SELECTIONS {
        let Selection { app, key, value, holds } = selection;
        let (instance, said) = launched(&test, app, key).await?;
        ensure!(said == *value, "a pod that selects {key}={value} runs on a node of {key}={said}");
        ensure!(holds(&instance), "{key}={value} launched {instance:?}");
    }
    for id in &zones {
        let (instance, _) = launched(&test, &format!("zone-{id}"), aws::ZONE_ID).await?;
        let found = instance.zone_id.as_ref().map(ZoneId::as_str);
        ensure!(found == Some(id), "a pod that selects zone {id} has an instance in {found:?}");
    }
    Ok(())
}

/// The instance a pod runs on, and its node's value of a label.
async fn launched(test: &TestNamespace<'_>, app: &str, key: &str) -> Result<(Instance, String)> {
    let node = test.running(app, 1).await?.remove(0);
    let instance = facts::instance_behind(test.world, &node).await?;
    Ok((instance, facts::label(&node, key).to_owned()))
}

/// The ids of the zones that the class of all pools has subnets in.
async fn zone_ids(world: &World) -> Result<BTreeSet<String>> {
    let class: EC2NodeClass =
        Api::all(world.client.clone()).get("default").await.context("read the class")?;
    let subnets = class.status.unwrap_or_default().subnets;
    let zones: BTreeSet<String> = subnets.into_iter().filter_map(|subnet| subnet.zone_id).collect();
    ensure!(zones.len() == 3, "the class has subnets in the zones {zones:?}");
    Ok(zones)
}
