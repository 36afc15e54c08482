//! Creates NodeClaims for the launches of a plan (spec disruption 1.1).
//!
//! Room under the pool's limits is taken before the object is created and counted by the object afterwards, so two
//! plans carried out at once cannot overshoot together. The claim enters the view with the pods it is for before
//! anything else happens, so the next plan already counts on it.

use karpenter_api::NodeClaim;
use karpenter_kube_harness::write;
use karpenter_model::names::{annotation, label};
use karpenter_model::{ClaimName, InstanceTypeName, Launch, PoolName, Resources};
use kube::ResourceExt;

use crate::claim::object::object;
use crate::explain::Step;
use crate::publish::step::label_of;
use crate::view::KnownPool;
use crate::{Context, Error};

/// Names that are tried for a claim.
const NAMES: u32 = 5;

/// Reason why a launch of a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("pool `{0}` is gone or being deleted; the next pass plans without it")]
    NoPool(PoolName),
    #[error("pool `{pool}` is at its limits, {detail}; raise `spec.limits` for more nodes")]
    Limits { pool: PoolName, detail: String },
    #[error(transparent)]
    Write(#[from] Error),
}

/// Creates the claim of `launch`; `reason` is the metric label saying what it is for.
pub async fn create(context: &Context, launch: &Launch, reason: &str) -> Result<NodeClaim, CreateError> {
    let pool = context.view.pool(&launch.pool).filter(|pool| !pool.model.deleting);
    let Some(pool) = pool else { return Err(CreateError::NoPool(launch.pool.clone())) };
    let room = Room::take(context, &pool)?;
    let created = named(context, object(launch, &pool.model), &launch.pool).await;
    if let Ok(created) = &created {
        context.view.created(created, &launch.pods);
    }
    // Given back only now that the view counts the claim itself.
    drop(room);
    let created = created?;
    let name = ClaimName::from(created.name_any().as_str());
    context.explanations.reached(&name, Step::Created, context.now());
    let relaxed = created.annotations().get(annotation::MIN_VALUES_RELAXED).map_or("false", String::as_str);
    context.metrics.nodeclaims.created_total.inc([reason, label_of(&created, label::NODE_POOL), relaxed]);
    // As many as the reference logs (spec disruption 1.1).
    let types: Vec<&str> = launch.instance_types.iter().take(5).map(InstanceTypeName::as_str).collect();
    tracing::info!(
        nodeclaim = created.name_any(),
        nodepool = %launch.pool,
        requests = %launch.requests,
        "instance-types" = types.join(", "),
        "created nodeclaim"
    );
    Ok(created)
}

/// Creates `claim` under a name nothing has. The view has no claims of other node classes, so a name may turn
/// out to be taken.
async fn named(context: &Context, mut claim: NodeClaim, pool: &PoolName) -> Result<NodeClaim, Error> {
    let claims = context.all::<NodeClaim>();
    let mut tries = 1;
    loop {
        claim.metadata.name = Some(context.view.new_claim_name(pool, context.now()));
        match write::create(&claims, &claim).await {
            // Another process, before or beside this one, has used the name.
            Err(error) if error.is_conflict() && tries < NAMES => tries += 1,
            answer => return answer.map_err(Into::into),
        }
    }
}

/// One node's worth of room under the limits of a pool, given back when dropped.
struct Room<'a> {
    context: &'a Context,
    pool: PoolName,
}

impl<'a> Room<'a> {
    fn take(context: &'a Context, pool: &KnownPool) -> Result<Self, CreateError> {
        let name = &pool.model.name;
        let refused = |detail| CreateError::Limits { pool: name.clone(), detail };
        let granted = context.view.reserve_node(&pool.model);
        granted.map_err(|exceeded| refused(describe(&exceeded)))?;
        Ok(Self { context, pool: name.clone() })
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.context.view.release_node(&self.pool);
    }
}

fn describe(exceeded: &Resources) -> String {
    exceeded.iter().map(|(name, used)| format!("{name} {used} used")).collect::<Vec<_>>().join(", ")
}
