//! What each pool could launch, asked of the provider before every plan; the provider remembers its answers.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::view::KnownPool;
use crate::{Context, cloud};

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
        context.view.with_cluster(|cluster| cluster.set_instance_types(name, types.ok()));
        // Plans are made every few seconds; people are told once, and again when it is something else.
        if !context.view.types_problem(name, problem.as_deref()) {
            continue;
        }
        match problem {
            None => tracing::info!(nodepool = %name, "instance types are known again"),
            // The condition of a pool that is not ready says why.
            Some(error) if !pool.model.ready => {
                tracing::debug!(nodepool = %name, error, "skipped pool, instance types unknown");
            }
            Some(error) => tracing::warn!(nodepool = %name, error, "skipped pool, instance types unknown"),
        }
    }
}
