//! Reasons why the instance types of a pool are not known, remembered so that each is reported once.

use karpenter_model::{Pool, PoolName};

use super::View;

impl View {
    /// Records why the types of a pool are not known, or that they are. True when that is news; of a pool
    /// that has gone nothing is.
    pub(crate) fn types_problem(&self, pool: &PoolName, problem: Option<&str>) -> bool {
        let mut inner = self.lock();
        if inner.cluster.get::<Pool>(pool).is_none() {
            return false;
        }
        let before = inner.types_problems.get(pool).map(String::as_str);
        if before == problem {
            return false;
        }
        match problem {
            Some(problem) => inner.types_problems.insert(pool.clone(), problem.to_owned()),
            None => inner.types_problems.remove(pool),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::World;

    #[tokio::test(start_paused = true)]
    async fn a_problem_is_news_when_it_begins_changes_or_ends() {
        let view = World::new().context.view;
        view.put_pool(crate::fixture::pool("default"));
        let pool = "default".into();
        for (problem, news) in [
            (None, false),
            (Some("no prices"), true),
            (Some("no prices"), false),
            (Some("no images"), true),
            (None, true),
            (None, false),
        ] {
            assert_eq!(view.types_problem(&pool, problem), news, "{problem:?}");
        }
        assert!(!view.types_problem(&"deleted".into(), Some("no prices")), "nothing is kept of it either");
    }
}
