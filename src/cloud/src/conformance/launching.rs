//! Launching: one machine per claim, whatever goes wrong; capacity errors that exclude no more than they must.

use std::pin::pin;
use std::task::Poll;

use super::{CheckResult, World, ensure, fails, succeeds};
use crate::memory::Operation;
use crate::{Instance, InstanceState, Kind, LaunchRequest, OfferingKey, Read};

/// More launches than any request has offerings.
const OFFERINGS_MAX: usize = 10_000;

pub(super) async fn describes_the_machine(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let launched = succeeds("launch", world.provider().launch(&request).await)?;
    ensure(launched.claim.as_ref() == Some(&request.claim), || format!("claim is {:?}", launched.claim))?;
    ensure(launched.pool == request.pool, || format!("pool is {:?}", launched.pool))?;
    ensure(
        request.instance_types.is_empty() || request.instance_types.contains(&launched.instance_type),
        || format!("type `{}` was not asked for", launched.instance_type),
    )?;
    ensure(launched.state.exists(), || format!("state is {:?}", launched.state))?;
    world.settle().await;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let running = succeeds("read after boot", read)?;
    ensure(running.state == InstanceState::Running, || format!("state after boot is {:?}", running.state))?;
    ensure(offering(&running) == offering(&launched), || "the machine changed its offering".to_owned())
}

pub(super) async fn twice_is_one_machine(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let first = succeeds("first launch", world.provider().launch(&request).await)?;
    let second = succeeds("second launch", world.provider().launch(&request).await)?;
    one_machine(world, &first, &second).await
}

pub(super) async fn concurrent_launches_are_one_machine(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let (left, right) = (world.provider(), world.restarted());
    let (first, second) = both(left.launch(&request), right.launch(&request)).await;
    let first = succeeds("one launch", first)?;
    let second = succeeds("the other launch", second)?;
    one_machine(world, &first, &second).await
}

pub(super) async fn survives_a_lost_answer(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    world.lose_answer(Operation::Launch).await;
    let kind = fails("launch with a lost answer", world.provider().launch(&request).await)?;
    ensure(kind == Kind::Transient, || format!("a lost answer is {kind}"))?;
    let first = succeeds("retry", world.provider().launch(&request).await)?;
    one_machine(world, &first, &first).await
}

pub(super) async fn after_a_restart_adopts(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let first = succeeds("launch", world.provider().launch(&request).await)?;
    let second = succeeds("launch after restart", world.restarted().launch(&request).await)?;
    one_machine(world, &first, &second).await
}

pub(super) async fn a_later_attempt_adopts(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let first = succeeds("launch", world.provider().launch(&request).await)?;
    let retry = LaunchRequest { attempt: request.attempt + 1, ..request };
    let second = succeeds("second attempt", world.restarted().launch(&retry).await)?;
    one_machine(world, &first, &second).await
}

pub(super) async fn ending_machine_is_not_adopted(world: &dyn World) -> CheckResult {
    let request = world.request("web-1");
    let first = succeeds("launch", world.provider().launch(&request).await)?;
    succeeds("terminate", world.provider().terminate(&first.provider_id).await)?;
    let retry = LaunchRequest { attempt: request.attempt + 1, ..request };
    let second = succeeds("second attempt", world.provider().launch(&retry).await)?;
    ensure(first.provider_id != second.provider_id, || format!("adopted ending `{}`", first.provider_id))
}

pub(super) async fn another_claim_gets_another_machine(world: &dyn World) -> CheckResult {
    let first = succeeds("launch", world.provider().launch(&world.request("web-1")).await)?;
    let second = succeeds("launch", world.provider().launch(&world.request("web-2")).await)?;
    ensure(first.provider_id != second.provider_id, || format!("both claims got `{}`", first.provider_id))
}

pub(super) async fn exhausted_offering_alone_is_excluded(world: &dyn World) -> CheckResult {
    let first = succeeds("launch", world.provider().launch(&world.request("web-1")).await)?;
    let exhausted = offering(&first);
    let before = available(world).await?;
    world.exhaust(&exhausted).await;
    let second = succeeds("launch", world.provider().launch(&world.request("web-2")).await)?;
    ensure(offering(&second) != exhausted, || format!("launched from the exhausted {exhausted:?}"))?;
    let after = available(world).await?;
    let lost: Vec<_> = before.iter().filter(|key| !after.contains(key)).collect();
    ensure(lost == [&exhausted], || format!("excluded {lost:?}, expected only {exhausted:?}"))
}

pub(super) async fn no_offering_left_is_no_capacity(world: &dyn World) -> CheckResult {
    for turn in 0..OFFERINGS_MAX {
        match world.provider().launch(&world.request(&format!("web-{turn}"))).await {
            Ok(instance) => world.exhaust(&offering(&instance)).await,
            Err(error) => {
                return ensure(error.kind == Kind::NoCapacity, || {
                    format!("expected NoCapacity, got {error}")
                });
            }
        }
    }
    Err(format!("still launching after {OFFERINGS_MAX} exhausted offerings"))
}

async fn one_machine(world: &dyn World, first: &Instance, second: &Instance) -> CheckResult {
    ensure(first.provider_id == second.provider_id, || {
        format!("launched `{}` and `{}`", first.provider_id, second.provider_id)
    })?;
    world.settle().await;
    let listed = succeeds("list", world.provider().instances().await)?;
    ensure(listed.len() == 1, || format!("{} machines exist", listed.len()))
}

/// Drives two futures at the same time; the port has no executor to lean on.
async fn both<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> (A, B) {
    let (mut left, mut right) = (pin!(left), pin!(right));
    let (mut left_done, mut right_done) = (None, None);
    std::future::poll_fn(move |context| {
        if left_done.is_none()
            && let Poll::Ready(value) = left.as_mut().poll(context)
        {
            left_done = Some(value);
        }
        if right_done.is_none()
            && let Poll::Ready(value) = right.as_mut().poll(context)
        {
            right_done = Some(value);
        }
        match (left_done.take(), right_done.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (left, right) => {
                (left_done, right_done) = (left, right);
                Poll::Pending
            }
        }
    })
    .await
}

async fn available(world: &dyn World) -> Result<Vec<OfferingKey>, String> {
    let types = succeeds("instance types", world.provider().instance_types(&world.pool()).await)?;
    let mut keys = Vec::new();
    for instance_type in types.iter() {
        for one in instance_type.offerings.iter().filter(|one| one.is_launchable()) {
            keys.push(OfferingKey {
                instance_type: instance_type.name.clone(),
                zone: one.zone.clone(),
                capacity_type: one.capacity_type,
            });
        }
    }
    Ok(keys)
}

fn offering(instance: &Instance) -> OfferingKey {
    OfferingKey {
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: instance.capacity_type,
    }
}
