//! Required anti-affinity of pods that already run: the domains they keep others out of
//! (inverse groups of spec scheduling 18.4).
//!
//! Bound pods do not move during a pass, so what they forbid is a plain `NotIn` requirement of the pods they
//! forbid it to.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{
    AffinityTerm, Expression, LabelKey, LabelSelector, LabelValue, Namespace, Operator, Pod, Snapshot,
};

use crate::node_labels::value_of;
use crate::place::scope::Scope;

/// One rule: pods in these namespaces that match stay out of these domains.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule<'a> {
    topology_key: LabelKey,
    selector: &'a LabelSelector,
    scope: Scope,
}

/// Domains that bound pods forbid to others.
#[derive(Debug, Default)]
pub(crate) struct BoundAntiAffinity<'a> {
    forbidden: BTreeMap<Rule<'a>, BTreeSet<LabelValue>>,
}

impl<'a> BoundAntiAffinity<'a> {
    /// Collects the rules of every bound pod that stays where it is.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut forbidden: BTreeMap<Rule<'a>, BTreeSet<LabelValue>> = BTreeMap::new();
        for node in &snapshot.nodes {
            // A pod that moves is placed with the others in this pass, and forbids them its new domain
            // instead.
            let stays = |pod: &&'a Pod| !(node.is_leaving() && snapshot.currently_reschedulable(pod));
            for pod in node.pods.iter().map(AsRef::as_ref).filter(|pod| !pod.is_terminal()).filter(stays) {
                for term in &pod.pod_anti_affinity.required {
                    let rule = rule(term, &pod.key.namespace, snapshot);
                    let domain = |rule: &Rule<'_>| value_of(node, &rule.topology_key, &snapshot.registry);
                    // On a node without the label a pod is in no domain, so it keeps others out of none.
                    if let Some((domain, rule)) = rule.and_then(|rule| Some((domain(&rule)?, rule))) {
                        forbidden.entry(rule).or_default().insert(domain);
                    }
                }
            }
        }
        Self { forbidden }
    }

    /// Returns whether nothing is forbidden.
    pub(crate) fn is_empty(&self) -> bool {
        self.forbidden.is_empty()
    }

    /// Returns the expressions that keep `pod` out of the domains forbidden to it.
    pub(crate) fn exclusions(&self, pod: &Pod) -> Vec<Expression> {
        let applies =
            |rule: &Rule<'_>| rule.scope.contains(&pod.key.namespace) && rule.selector.matches(&pod.labels);
        let exclusion = |(rule, domains): (&Rule<'_>, &BTreeSet<LabelValue>)| Expression {
            key: rule.topology_key.clone(),
            operator: Operator::NotIn,
            values: domains.iter().cloned().collect(),
            min_values: None,
        };
        self.forbidden.iter().filter(|(rule, _)| applies(rule)).map(exclusion).collect()
    }
}

/// The rule of one term; a term without selector selects no pod.
fn rule<'a>(term: &'a AffinityTerm, own: &Namespace, snapshot: &Snapshot) -> Option<Rule<'a>> {
    let scope = Scope::of(term, own, snapshot);
    // An old name of a key, as `failure-domain.beta.kubernetes.io/zone`, means the same domains as the new
    // one.
    let topology_key = snapshot.registry.normalize_key(&term.topology_key);
    Some(Rule { topology_key, selector: term.selector.as_ref()?, scope })
}
