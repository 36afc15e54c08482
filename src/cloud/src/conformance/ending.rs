//! Terminating: repeatable, and "gone" means gone. Rebooting ends nothing.

use karpenter_model::ProviderId;

use super::{CheckResult, World, ensure, fails, succeeds};
use crate::memory::Operation;
use crate::{Instance, InstanceState, Kind, Read, Termination};

pub(super) async fn twice_is_already_gone(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    let first = succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    ensure(first == Termination::Started, || format!("first answer is {first:?}"))?;
    world.settle().await;
    let second = succeeds("terminate again", world.provider().terminate(&launched.provider_id).await)?;
    ensure(second == Termination::AlreadyGone, || format!("second answer is {second:?}"))
}

pub(super) async fn unknown_machine_is_already_gone(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    let id = never_launched(&launched.provider_id);
    let answer = succeeds("terminate", world.provider().terminate(&id).await)?;
    ensure(answer == Termination::AlreadyGone, || format!("answer is {answer:?}"))?;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let untouched = succeeds("read", read)?;
    ensure(untouched.state.exists(), || "another machine was terminated".to_owned())
}

pub(super) async fn terminated_is_not_found(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    for read in [Read::Consistent, Read::Cached] {
        let kind = fails("read", world.provider().instance(&launched.provider_id, read).await)?;
        ensure(kind == Kind::NotFound, || format!("{read:?} read of a terminated machine is {kind}"))?;
    }
    Ok(())
}

pub(super) async fn survives_a_lost_answer(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    world.lose_answer(Operation::Terminate).await;
    fails("terminate with a lost answer", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    let answer = succeeds("retry", world.provider().terminate(&launched.provider_id).await)?;
    ensure(answer == Termination::AlreadyGone, || format!("answer after a lost one is {answer:?}"))
}

pub(super) async fn fails_when_refused(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    world.refuse(Operation::Terminate).await;
    fails("refused terminate", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let kept = succeeds("read", read)?;
    ensure(kept.state == InstanceState::Running, || format!("state after a refused call is {:?}", kept.state))
}

pub(super) async fn rebooted_stays(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    world.settle().await;
    for _ in 0..2 {
        succeeds("reboot", world.provider().reboot(&launched.provider_id).await)?;
    }
    world.settle().await;
    let read = world.provider().instance(&launched.provider_id, Read::Consistent).await;
    let kept = succeeds("read", read)?;
    ensure(kept.state == InstanceState::Running, || format!("state after a reboot is {:?}", kept.state))?;
    ensure(kept.instance_id == launched.instance_id, || format!("it is {} now", kept.instance_id))
}

pub(super) async fn rebooted_when_gone_is_not_found(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    let unknown = never_launched(&launched.provider_id);
    let kind = fails("reboot of an unknown machine", world.provider().reboot(&unknown).await)?;
    ensure(kind == Kind::NotFound, || format!("reboot of an unknown machine is {kind}"))?;
    succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    world.settle().await;
    let kind = fails("reboot", world.provider().reboot(&launched.provider_id).await)?;
    ensure(kind == Kind::NotFound, || format!("reboot of a terminated machine is {kind}"))
}

pub(super) async fn reboot_fails_when_refused(world: &dyn World) -> CheckResult {
    let launched = launch(world).await?;
    world.settle().await;
    world.refuse(Operation::Reboot).await;
    let kind = fails("refused reboot", world.provider().reboot(&launched.provider_id).await)?;
    ensure(kind != Kind::NotFound, || "a refused reboot reads as not found".to_owned())?;
    succeeds("reboot after it", world.provider().reboot(&launched.provider_id).await)
}

pub(super) async fn machine_of_claim_is_found(world: &dyn World) -> CheckResult {
    let claim = world.request("web-1").claim;
    let before = succeeds("find before the launch", world.provider().machine_of(&claim).await)?;
    ensure(before.is_none(), || format!("found {before:?} before anything was launched"))?;
    let launched = launch(world).await?;
    succeeds("launch of another", world.provider().launch(&world.request("web-2")).await)?;
    for provider in [world.provider(), world.restarted()] {
        let found = succeeds("find", provider.machine_of(&claim).await)?;
        ensure(found.as_ref() == Some(&launched.provider_id), || format!("found {found:?}"))?;
    }
    succeeds("terminate", world.provider().terminate(&launched.provider_id).await)?;
    let ending = succeeds("find while it ends", world.provider().machine_of(&claim).await)?;
    ensure(ending.as_ref() == Some(&launched.provider_id), || format!("found {ending:?} while it ends"))?;
    world.settle().await;
    let after = succeeds("find when it is gone", world.provider().machine_of(&claim).await)?;
    ensure(after.is_none(), || format!("found {after:?} when it was gone"))
}

pub(super) async fn machine_of_claim_is_an_error_when_refused(world: &dyn World) -> CheckResult {
    launch(world).await?;
    world.refuse(Operation::MachineOf).await;
    let claim = world.request("web-1").claim;
    let kind = fails("refused search", world.provider().machine_of(&claim).await)?;
    ensure(kind != Kind::NotFound, || "a refused search reads as not found".to_owned())
}

async fn launch(world: &dyn World) -> Result<Instance, String> {
    succeeds("launch", world.provider().launch(&world.request("web-1")).await)
}

/// An id of the same form that no launch has returned: the last digit differs.
fn never_launched(id: &ProviderId) -> ProviderId {
    let text = id.as_str();
    let (head, last) = text.split_at(text.len() - 1);
    ProviderId::from(format!("{head}{}", if last == "f" { "e" } else { "f" }).as_str())
}
