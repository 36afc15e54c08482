//! Does what a timeline says, past every port: what people, other clients and EC2 do to the world.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use karpenter_aws_api::ec2::Instance;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::apiserver::object;
use karpenter_kube_sim::kubelet::Behaviour;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::follow::Met;
use super::format::{Machines, Object, Scale};
use super::machines::{means, meant};
use super::observe::Observer;
use super::read::{Action, Manifest};
use crate::machines::Rule;
use crate::timed_fault::TimedFault;
use crate::world::World;

/// Does one thing.
pub(crate) async fn act(world: &Arc<World>, observer: &mut Observer, action: &Action) -> Result<Met> {
    let account = &world.account;
    match action {
        Action::Scale(scale) => scale_to(world, scale).await?,
        Action::Apply(manifests) => apply(world, manifests).await?,
        Action::Delete(object) => delete(world, object).await?,
        Action::RemoveFinalizers(object) => remove_finalizers(world, object).await?,
        Action::Interrupt(which) => {
            return each(&which.on_spot(), account, |instance| {
                observer.taken([instance.id.to_string()]);
                world.truth.struck(&instance.id);
                Ok(account.interrupt_spot(&instance.id)?)
            });
        }
        Action::Rebalance(which) => {
            return each(
                &which.on_spot(),
                account,
                |instance| Ok(account.recommend_rebalance(&instance.id)?),
            );
        }
        Action::Terminate(which) => {
            return each(which, account, |instance| {
                observer.taken([instance.id.to_string()]);
                world.truth.struck(&instance.id);
                Ok(account.terminate_behind_our_back(&instance.id)?)
            });
        }
        Action::Stop(which) => {
            return each(which, account, |instance| {
                observer.taken([instance.id.to_string()]);
                world.truth.struck(&instance.id);
                Ok(account.stop(&instance.id)?)
            });
        }
        Action::Silence(which) => {
            return strike(world, which, |id| world.agent.behave(id, Behaviour::Silent));
        }
        Action::Sicken(sick) => {
            return strike(world, &sick.machines, |id| world.agent.ail(id, &sick.condition, &sick.reason));
        }
        Action::Differ(differ) => {
            let (which, difference) = (differ.machines(), differ.difference());
            let left = which.count.unwrap_or(usize::MAX);
            let means = Box::new(move |instance: &Instance| means(&which, instance));
            world.differ(Rule { means, left, difference });
        }
        Action::LoseCapacity(loss) => {
            world.begin(TimedFault::CapacityLoss(loss.offerings()), loss.r#for.map(|lasts| lasts.0));
        }
        Action::ChangePrice(change) => {
            account.scale_prices(&change.offerings(), change.percent);
        }
        Action::ReleaseImages(release) => {
            account.release_images(&release.version);
            world.truth.images_released();
        }
        Action::DoomBoots(count) => account.doom_next_boots(*count),
        Action::NeverJoin(lasts) => world.begin(TimedFault::NeverJoin, Some(lasts.r#for.0)),
        Action::Restart => {
            let _none_at_the_moment = world.lives().get(&0).map(crate::life::Life::die);
        }
        Action::Disconnect(lasts) => world.cut_off(0, lasts.r#for.0),
    }
    Ok(Met::Something)
}

/// Does something to the node of each of the live machines that are meant, which may go for it.
fn strike(world: &World, which: &Machines, strike: impl Fn(&str)) -> Result<Met> {
    each(which, &world.account, |instance| {
        world.truth.struck(&instance.id);
        strike(instance.id.as_str());
        Ok(())
    })
}

/// Does something to each of the live machines that are meant.
fn each(which: &Machines, account: &Account, strike: impl FnMut(&Instance) -> Result<()>) -> Result<Met> {
    let meant = meant(which, account.live_instances());
    meant.iter().try_for_each(strike)?;
    Ok(Met::machines(meant.len()))
}

/// Applies objects as `kubectl apply --server-side` does.
pub(crate) async fn apply(world: &World, manifests: &[Manifest]) -> Result<()> {
    for Manifest { line, what } in manifests {
        let (kind, name) = (object::text(what, "/kind"), object::name(what));
        let applied = async {
            let api = api_of(world, object::text(what, "/apiVersion"), kind, object::namespace(what))?;
            let by = PatchParams::apply("karpenter-test").force();
            api.patch(name, &by, &Patch::Apply(what)).await.map_err(refusal)
        };
        let applied = applied.await;
        applied
            .with_context(|| format!("cannot apply {kind} `{name}` of line {line}; correct the manifest"))?;
    }
    Ok(())
}

async fn scale_to(world: &World, scale: &Scale) -> Result<()> {
    let Scale { deployment, namespace, replicas } = scale;
    let api = api_of(world, "apps/v1", "Deployment", namespace)?;
    let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let scaled = api.patch(deployment, &PatchParams::default(), &change).await.map_err(refusal);
    let hint = "name one of the manifests";
    scaled.with_context(|| format!("cannot scale Deployment `{namespace}/{deployment}`; {hint}")).map(drop)
}

/// Deletes an object.
pub(crate) async fn delete(world: &World, object: &Object) -> Result<()> {
    let Object { kind, name, namespace } = object;
    let api = api_of(world, "", kind, namespace)?;
    let deleted = api.delete(name, &DeleteParams::background()).await.map_err(refusal);
    deleted.with_context(|| format!("cannot delete {kind} `{name}`; name an object that exists")).map(drop)
}

async fn remove_finalizers(world: &World, object: &Object) -> Result<()> {
    let Object { kind, name, namespace } = object;
    let api = api_of(world, "", kind, namespace)?;
    let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let removed = api.patch(name, &PatchParams::default(), &change).await.map_err(refusal);
    let hint = "name an object that exists";
    removed.with_context(|| format!("cannot take the finalizers off {kind} `{name}`; {hint}")).map(drop)
}

/// Returns the message of the API server, without the parts that only programs read.
fn refusal(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// The objects of a kind, of `version` if one is given.
fn api_of(world: &World, version: &str, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
    let (group, number) = version.rsplit_once('/').unwrap_or(("", version));
    let found = world.server.read(|store| {
        let mut all = store.registry().iter();
        let named = |group_of: &str, version_of: &str| {
            version.is_empty() || (group_of == group && version_of == number)
        };
        all.find(|resource| resource.kind == kind && named(&resource.group, &resource.version)).cloned()
    });
    let Some(resource) = found else {
        bail!(
            "the API server has no kind `{kind}` in `{version}`; the kinds of autoscaling and apps are there"
        );
    };
    let about = ApiResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
    };
    let client = world.server.client();
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    Ok(if resource.namespaced {
        Api::namespaced_with(client, namespace, &about)
    } else {
        Api::all_with(client, &about)
    })
}

#[cfg(test)]
mod tests;
