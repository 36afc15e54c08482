//! Pod disruption budgets by namespace. Passes ask about every pod that might move, and a cluster may have thousands of
//! budgets; those of other namespaces are never looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PodDisruptionBudget;
use crate::id::Namespace;
use crate::pod::Pod;

/// Pod disruption budgets, by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodBudgets {
    by_namespace: BTreeMap<Namespace, Vec<Arc<PodDisruptionBudget>>>,
}

impl PodBudgets {
    /// Adds `budget`.
    pub fn push(&mut self, budget: Arc<PodDisruptionBudget>) {
        let budgets = self.by_namespace.entry(budget.namespace.clone()).or_default();
        let place = budgets.partition_point(|known| known.name <= budget.name);
        budgets.insert(place, budget);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.by_namespace.values().flatten()
    }

    /// Budgets of `namespace`, by name.
    pub fn of(&self, namespace: &Namespace) -> &[Arc<PodDisruptionBudget>] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Budgets that cover `pod`.
    pub fn covering<'b>(&'b self, pod: &'b Pod) -> impl Iterator<Item = &'b PodDisruptionBudget> {
        self.of(&pod.key.namespace).iter().map(AsRef::as_ref).filter(|budget| budget.covers(pod))
    }
}

impl FromIterator<Arc<PodDisruptionBudget>> for PodBudgets {
    fn from_iter<I: IntoIterator<Item = Arc<PodDisruptionBudget>>>(budgets: I) -> Self {
        let mut all = Self::default();
        budgets.into_iter().for_each(|budget| all.push(budget));
        all
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::id::PodKey;
    use crate::label::selector::LabelSelector;

    fn budget(namespace: &str, name: &str) -> Arc<PodDisruptionBudget> {
        Arc::new(PodDisruptionBudget {
            namespace: namespace.into(),
            name: name.into(),
            selector: Some(LabelSelector::default()),
            max_unavailable: None,
            min_available: None,
            disruptions_allowed: 1,
            current_healthy: 0,
            desired_healthy: 0,
            always_allow_unhealthy: false,
        })
    }

    #[test]
    fn only_budgets_of_the_namespace_are_looked_at_and_they_come_by_name() {
        let others = (0..1_000).map(|number| budget(&format!("other-{number}"), "all"));
        let own = ["b", "c", "a"].map(|name| budget("own", name));
        let budgets: PodBudgets = others.chain(own).collect();
        let names = |budgets: &[Arc<PodDisruptionBudget>]| {
            budgets.iter().map(|budget| budget.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(budgets.of(&"own".into())), ["a", "b", "c"]);
        assert_eq!(budgets.of(&"nowhere".into()), []);
        assert_eq!(budgets.iter().count(), 1_003);
        let pod = Pod::pending(PodKey::new("other-7", "p"), "uid", Timestamp::UNIX_EPOCH);
        let covering: Vec<_> = budgets.covering(&pod).collect();
        assert_eq!(covering, [&*budget("other-7", "all")]);
    }
}
