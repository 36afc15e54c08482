//! Reading: lists that are whole or an error, tags that can be found again, types that never disappear.

use std::collections::BTreeSet;

use karpenter_model::NodeName;

use super::{CheckResult, World, ensure, fails, succeeds};
use crate::memory::Operation;
use crate::{Kind, OfferingKey, Read};

/// Enough machines to exceed one small page.
const MACHINES: usize = 7;

pub(super) async fn is_complete(world: &dyn World) -> CheckResult {
    let mut launched = BTreeSet::new();
    for number in 0..MACHINES {
        let request = world.request(&format!("web-{number}"));
        launched.insert(succeeds("launch", world.provider().launch(&request).await)?.provider_id);
    }
    for provider in [world.provider(), world.restarted()] {
        let listed = succeeds("list", provider.instances().await)?;
        let listed: BTreeSet<_> = listed.into_iter().map(|instance| instance.provider_id).collect();
        ensure(listed == launched, || format!("launched {launched:?}, listed {listed:?}"))?;
    }
    Ok(())
}

pub(super) async fn is_an_error_when_refused(world: &dyn World) -> CheckResult {
    succeeds("launch", world.provider().launch(&world.request("web-1")).await)?;
    world.refuse(Operation::Instances).await;
    let kind = fails("refused list", world.provider().instances().await)?;
    ensure(kind != Kind::NotFound, || "a refused list reads as not found".to_owned())
}

pub(super) async fn leaves_out_terminated(world: &dyn World) -> CheckResult {
    let gone = succeeds("launch", world.provider().launch(&world.request("web-1")).await)?;
    let kept = succeeds("launch", world.provider().launch(&world.request("web-2")).await)?;
    succeeds("terminate", world.provider().terminate(&gone.provider_id).await)?;
    world.settle().await;
    let listed = succeeds("list", world.provider().instances().await)?;
    let listed: Vec<_> = listed.into_iter().map(|instance| instance.provider_id).collect();
    ensure(listed == [kept.provider_id], || format!("listed {listed:?}"))
}

pub(super) async fn tags_name_claim_and_node(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let launched = succeeds("launch", world.provider().launch(&request).await)?;
    let node = NodeName::from("node-a");
    succeeds("tag", world.provider().tag(&launched.provider_id, &request.claim, &node).await)?;
    let listed = succeeds("list", world.restarted().instances().await)?;
    let named = listed.iter().find(|instance| instance.provider_id == launched.provider_id);
    ensure(named.is_some_and(|instance| instance.claim.as_ref() == Some(&request.claim)), || {
        format!("claim after tagging is {:?}", named.map(|instance| &instance.claim))
    })?;
    ensure(named.is_some_and(|instance| instance.tags.values().any(|value| value == "node-a")), || {
        "no tag names the node".to_owned()
    })
}

pub(super) async fn exhausted_types_are_still_listed(world: &dyn World) -> CheckResult {
    let before = names(world).await?;
    let launched = succeeds("launch", world.provider().launch(&world.request("web-1")).await)?;
    world
        .exhaust(&OfferingKey {
            instance_type: launched.instance_type.clone(),
            zone: launched.zone.clone(),
            capacity_type: launched.capacity_type,
        })
        .await;
    // The provider has met the exhausted offering, whether or not a machine can still be had.
    let _ = world.provider().launch(&world.request("web-2")).await;
    let after = names(world).await?;
    ensure(before == after, || format!("types were {before:?} and became {after:?}"))?;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    succeeds("read of the machine launched before", read).map(drop)
}

async fn names(world: &dyn World) -> Result<BTreeSet<String>, String> {
    let types = succeeds("instance types", world.provider().instance_types(&world.pool()).await)?;
    Ok(types.iter().map(|one| one.name.to_string()).collect())
}
