//! Number of nodes a static pool may have beside those it has.

use karpenter_model::{Pool, resources};

use super::Pass;

/// Nodes a pool may still have.
pub(crate) struct Room {
    /// Number of further nodes; `None` without a limit.
    pub(crate) left: Option<usize>,
    /// The limit, where it is so low that a replacement never has room beside the nodes that the pool wants
    /// (<https://github.com/aws/karpenter-provider-aws/issues/8873>).
    pub(crate) always_full: Option<usize>,
    /// True if the pool has more nodes than it wants already.
    pub(crate) has_surplus: bool,
}

impl Pass<'_> {
    /// The room of `pool`. What earlier commands launch is there already, as far as the limit goes; so are nodes being
    /// removed.
    pub(crate) fn room(&self, pool: &Pool) -> Room {
        let own = || {
            let claims = self.snapshot.nodes.iter().filter(|node| node.is_managed());
            claims
                .filter(|node| node.claim.as_ref().and_then(|claim| claim.pool.as_ref()) == Some(&pool.name))
        };
        let staying = own().filter(|node| !node.is_leaving()).count();
        let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
        let limit = pool.limits.as_ref().and_then(|limits| limits.get(resources::NODES));
        let limit = limit.map(|limit| usize::try_from(limit.as_units_ceil()).unwrap_or(0));
        let there = own().count() + self.coming(&pool.name);
        Room {
            left: limit.map(|limit| limit.saturating_sub(there)),
            always_full: limit.filter(|limit| *limit <= wanted),
            has_surplus: staying > wanted,
        }
    }
}
