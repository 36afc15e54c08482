//! Terminating: repeatable, and "gone" means gone.

use karpenter_model::ProviderId;

use super::{Verdict, World, ensure, fails, succeeds};
use crate::memory::Operation;
use crate::{Instance, InstanceState, Kind, Read, Termination};

pub(super) async fn twice_is_already_gone(world: &dyn World) -> Verdict {
    let launched = launch(world).await?;
    let first = succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    ensure(first == Termination::Started, || format!("first answer is {first:?}"))?;
    world.settle().await;
    let second = succeeds("terminate again", world.provider().terminate(&launched.provider_id).await)?;
    ensure(second == Termination::AlreadyGone, || format!("second answer is {second:?}"))
}

pub(super) async fn unknown_machine_is_already_gone(world: &dyn World) -> Verdict {
    let launched = launch(world).await?;
    let id = never_launched(&launched.provider_id);
    let answer = succeeds("terminate", world.provider().terminate(&id).await)?;
    ensure(answer == Termination::AlreadyGone, || format!("answer is {answer:?}"))?;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let untouched = succeeds("read", read)?;
    ensure(untouched.state.exists(), || "another machine was terminated".to_owned())
}

pub(super) async fn terminated_is_not_found(world: &dyn World) -> Verdict {
    let launched = launch(world).await?;
    succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    for read in [Read::Consistent, Read::Cached] {
        let kind = fails("read", world.provider().instance(&launched.provider_id, read).await)?;
        ensure(kind == Kind::NotFound, || format!("{read:?} read of a terminated machine is {kind}"))?;
    }
    Ok(())
}

pub(super) async fn survives_a_lost_answer(world: &dyn World) -> Verdict {
    let launched = launch(world).await?;
    world.lose_answer(Operation::Terminate).await;
    fails("terminate with a lost answer", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    let answer = succeeds("retry", world.provider().terminate(&launched.provider_id).await)?;
    ensure(answer == Termination::AlreadyGone, || format!("answer after a lost one is {answer:?}"))
}

pub(super) async fn fails_when_refused(world: &dyn World) -> Verdict {
    let launched = launch(world).await?;
    world.refuse(Operation::Terminate).await;
    fails("refused terminate", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let kept = succeeds("read", read)?;
    ensure(kept.state == InstanceState::Running, || format!("state after a refused call is {:?}", kept.state))
}

async fn launch(world: &dyn World) -> Result<Instance, String> {
    succeeds("launch", world.provider().launch(&world.request("web-1")).await)
}

/// An id of the same shape that no launch has returned: the last digit differs.
fn never_launched(id: &ProviderId) -> ProviderId {
    let text = id.as_str();
    let (head, last) = text.split_at(text.len() - 1);
    ProviderId::from(format!("{head}{}", if last == "f" { "e" } else { "f" }).as_str())
}
