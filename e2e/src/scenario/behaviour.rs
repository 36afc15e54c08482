//! Behaviours proven side by side in one world: each has a [`Corner`](super::corner::Corner) of its own, so a suite
//! takes as long as its slowest part.
//!
//! A failure names its behaviour and does not keep the others from finishing. At the end everything is scaled to
//! zero, the pools and classes are deleted, and nothing may be left.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use futures::future::{LocalBoxFuture, join_all};
use karpenter_api::{EC2NodeClass, NodePool};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};

use super::corner::{WITHIN, scale_all_down};
use super::facts::nothing_left;
use crate::wait;
use crate::world::World;

/// What a behaviour is called and what proves it.
pub(super) type Behaviour<'a> = (&'static str, LocalBoxFuture<'a, Result<()>>);

/// Which behaviours of a suite to prove: those whose name contains the text; all without one.
#[derive(Clone, Debug, Default)]
pub struct Only(pub Option<String>);

impl Only {
    fn takes(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|text| name.contains(text))
    }
}

/// Runs the chosen behaviours at once; fails with everything that went wrong, and when none was chosen.
pub(super) async fn prove(mut behaviours: Vec<Behaviour<'_>>, only: &Only) -> Result<()> {
    behaviours.retain(|(name, _)| only.takes(name));
    ensure!(
        !behaviours.is_empty(),
        "no behaviour has `{}` in its name",
        only.0.as_deref().unwrap_or_default()
    );
    let failures: Vec<String> = join_all(behaviours.into_iter().map(timed)).await.concat();
    ensure!(failures.is_empty(), "{} behaviours failed:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

/// Scales everything down and deletes pools and classes; nothing may be left of any of it.
pub(super) async fn clear_away(world: &World) -> Result<()> {
    scale_all_down(world).await?;
    nothing_left(world, WITHIN).await?;
    nothing_of_ours_left(world).await
}

/// Runs one behaviour to its end; its failure as text, if it failed.
async fn timed((name, behaviour): Behaviour<'_>) -> Vec<String> {
    let start = Instant::now();
    let outcome = behaviour.await;
    let seconds = start.elapsed().as_secs_f32();
    match outcome {
        Ok(()) => {
            tracing::info!("ok after {seconds:.1}s: {name}");
            Vec::new()
        }
        Err(error) => {
            tracing::error!("failed after {seconds:.1}s: {name}");
            vec![format!("{name}: {error:#}")]
        }
    }
}

/// Deletes pools and classes, which takes their finalizers, and looks for what nobody else would miss.
async fn nothing_of_ours_left(world: &World) -> Result<()> {
    let (pools, classes) =
        (Api::<NodePool>::all(world.client.clone()), Api::<EC2NodeClass>::all(world.client.clone()));
    pools
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("delete the pools")?;
    classes
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("delete the classes")?;
    wait::until("no pool and no class", WITHIN, || async {
        let mut left: Vec<String> =
            pools.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        left.extend(classes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any));
        Ok(if left.is_empty() { Ok(()) } else { Err(left.join(", ")) })
    })
    .await?;
    let profiles = world.aws.iam.list_instance_profiles("/karpenter/").await?;
    if let Some(profile) = profiles.first() {
        bail!("instance profile `{}` outlived its class", profile.name);
    }
    Ok(())
}
