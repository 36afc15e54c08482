//! Behaviours proven side by side in one world: each has a [`TestNamespace`](super::test_namespace::TestNamespace) of its own, so a suite
//! takes as long as its slowest part.
//!
//! A failure names its behaviour and does not keep the others from finishing. At the end everything is scaled to
//! zero, the pools and classes are deleted, and nothing may be left.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::future::{LocalBoxFuture, join_all};
use karpenter_api::{EC2NodeClass, NodePool};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};

use super::facts::nothing_left;
use super::test_namespace::scale_all_down;
use crate::report::Case;
use crate::wait;
use crate::world::World;

/// One thing that users count on.
pub(super) struct Behaviour {
    /// Name of the behaviour, as a sentence.
    pub(super) name: &'static str,
    /// Proof of the behaviour.
    pub(super) proof: Proof,
}

/// Proves a behaviour in a world that others use at the same time.
pub(super) type Proof = for<'a> fn(&'a World) -> LocalBoxFuture<'a, Result<()>>;

/// Behaviours of a suite to prove: those whose name contains the text; all without one.
#[derive(Clone, Debug, Default)]
pub struct Only(pub Option<String>);

impl Only {
    /// Fails, naming what there is, when none of `names` would be taken.
    pub fn check(&self, names: &[&str]) -> Result<()> {
        let Some(text) = &self.0 else { return Ok(()) };
        ensure!(!names.is_empty(), "this suite is proven as a whole; leave out `--only`");
        let list = names.join("\n  ");
        ensure!(
            names.iter().any(|name| self.takes(name)),
            "no behaviour has `{text}` in its name; there are:\n  {list}"
        );
        Ok(())
    }

    fn takes(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|text| name.contains(text))
    }
}

/// The names of behaviours, in the order of their tables.
pub(super) fn names(tables: &[&[Behaviour]]) -> Vec<&'static str> {
    tables.iter().copied().flatten().map(|behaviour| behaviour.name).collect()
}

/// Runs the chosen behaviours, those of a table at once and one table after the other; fails with everything that went
/// wrong, and when none was chosen.
pub(super) async fn prove(
    world: &World,
    suite: &'static str,
    tables: &[&[Behaviour]],
    only: &Only,
) -> Result<()> {
    only.check(&names(tables))?;
    let mut failures: Vec<String> = Vec::new();
    for table in tables {
        let chosen = table.iter().filter(|behaviour| only.takes(behaviour.name));
        failures.extend(join_all(chosen.map(|behaviour| timed(world, suite, behaviour))).await.concat());
    }
    ensure!(failures.is_empty(), "{} behaviours failed:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

/// Scales everything down and deletes pools and classes; nothing may be left of any of it.
pub(super) async fn clear_away(world: &World) -> Result<()> {
    scale_all_down(world).await?;
    nothing_left(world).await?;
    nothing_of_ours_left(world).await
}

/// Runs one behaviour to its end; its failure as text, if it failed.
async fn timed(world: &World, suite: &'static str, Behaviour { name, proof }: &Behaviour) -> Vec<String> {
    let start = Instant::now();
    let outcome = proof(world).await;
    let took = start.elapsed();
    let seconds = took.as_secs_f32();
    let failure = outcome.as_ref().err().map(|error| format!("{error:#}"));
    world.record(Case { suite, name: (*name).to_owned(), took, failure });
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

/// Deletes pools and classes, which takes their finalizers, and looks for what no other check would find.
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
    wait::until("no pool and no class", || async {
        let mut left: Vec<String> =
            pools.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        left.extend(classes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any));
        Ok(if left.is_empty() { Ok(()) } else { Err(left.join(", ")) })
    })
    .await?;
    wait::until("no instance profile of a class", || async {
        let profiles = world.aws.iam.list_instance_profiles("/karpenter/").await?;
        Ok(profiles.first().map_or(Ok(()), |profile| Err(format!("`{}` outlived its class", profile.name))))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_no_behaviour_has_in_its_name_is_refused_with_the_names_there_are() {
        let names = ["pods spread", "nodes expire"];
        for text in ["pods", "expire", ""] {
            Only(Some(text.to_owned())).check(&names).unwrap();
        }
        Only(None).check(&[]).unwrap();
        let refused = Only(Some("volcano".to_owned())).check(&names).unwrap_err().to_string();
        assert_eq!(
            refused,
            "no behaviour has `volcano` in its name; there are:\n  pods spread\n  nodes expire"
        );
        let refused = Only(Some("pods".to_owned())).check(&[]).unwrap_err().to_string();
        assert!(refused.contains("as a whole"), "{refused}");
    }
}
