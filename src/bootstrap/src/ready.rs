//! All of it at once, with nothing asked: for accounts that are played.

use karpenter_aws_api::Clients;

use crate::apply::apply;
use crate::observe::{self, look};
use crate::plan::{Plan, plan};
use crate::{Error, Settings};

/// Makes the account ready for `cluster` with the usual settings, as `karpenter bootstrap apply` does; the plan that was
/// carried out.
pub async fn make_ready(clients: &Clients, cluster: &str) -> Result<Plan, Error> {
    let identity =
        clients.sts.get_caller_identity().await.map_err(Error::observing("the identity of the caller"))?;
    let settings = Settings::new(cluster, &clients.region, &identity.account, clients.partition);
    let look = look(clients, &settings, observe::describe(clients, cluster).await?).await?;
    let plan = plan(&look.settings, &look.desired, &look.observed);
    apply(clients, cluster, &plan, &mut |_| {}).await?;
    Ok(plan)
}
