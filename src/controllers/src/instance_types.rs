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
        let types = types.inspect_err(
            |error| tracing::warn!(nodepool = %name, %error, "skipped pool, instance types unknown"),
        );
        context.view.with_cluster(|cluster| cluster.set_instance_types(name, types.ok()));
    }
}
