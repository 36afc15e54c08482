//! Instance types that each pool could launch, asked of the provider before every plan; the provider remembers its answers.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use karpenter_cloud::overlay::List;

use crate::Context;
use crate::cloud;
use crate::view::KnownPool;

/// Asks for the types of every pool at once. A pool whose types cannot be had takes no new nodes and loses none.
pub(crate) async fn refresh(context: &Context, controller: &'static str) {
    let ask = |pool: KnownPool| async move {
        let asked = context.provider.instance_types(&pool.model);
        let types = cloud::call(context, controller, "GetInstanceTypes", asked).await;
        (pool, types)
    };
    let mut asked: FuturesUnordered<_> = context.view.pools().into_iter().map(ask).collect();
    while let Some((pool, types)) = asked.next().await {
        let name = &pool.model.name;
        let problem = types.as_ref().err().map(ToString::to_string);
        let types = types.ok().and_then(|types| overlaid(context, &pool, types));
        context.view.with_cluster(|cluster| cluster.set_instance_types(name, types));
        // Plans are made every few seconds; a problem is reported once, and again when it is another one.
        if !context.view.types_problem(name, problem.as_deref()) {
            continue;
        }
        match problem {
            None => tracing::info!(nodepool = %name, "instance types are known again"),
            // The condition of a pool that is not ready has the reason.
            Some(error) if !pool.model.ready => {
                tracing::debug!(nodepool = %name, error, "skipped pool, instance types unknown");
            }
            Some(error) => tracing::warn!(nodepool = %name, error, "skipped pool, instance types unknown"),
        }
    }
}

/// The types as seen through the overlays of the pool. As long as those are not known the pool is left alone.
fn overlaid(context: &Context, pool: &KnownPool, types: List) -> Option<List> {
    let overlaid = context.view.overlaid(&pool.model, types);
    if let Err(error) = &overlaid {
        tracing::debug!(nodepool = %pool.model.name, %error, "skipped pool");
        // Its types may not have been there when overlays were evaluated; now they are.
        context.view.subscribers().notify_specs();
    }
    overlaid.ok()
}
