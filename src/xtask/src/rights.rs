//! The chart's roles against what the code says it needs: nothing missing, and nothing written by hand can drift
//! away unnoticed.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use karpenter_cloud::NodeClassKind;
use serde_json::Value;

const CHART: &str = "charts/karpenter/rbac/karpenter.yaml";
const CLASS: NodeClassKind = NodeClassKind { group: "karpenter.k8s.aws", kind: "EC2NodeClass" };
const LEASE: &str = "karpenter-leader-election";

/// One line for every right that the code needs and the chart does not grant.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(CHART)).with_context(|| format!("cannot read `{CHART}`"))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("`{CHART}` is not YAML"))?;
    let everywhere = rules(&documents, "ClusterRole")?;
    let in_namespace = rules(&documents, "Role")?;
    let mut needed = karpenter_controllers::rbac(&[CLASS]);
    needed.extend(karpenter_aws_controllers::rbac());
    let mut local = karpenter_controllers::lease_rbac(LEASE);
    local.extend(karpenter_aws_controllers::dns_rbac());
    let mut missing = missing(&needed, &everywhere);
    missing.extend(self::missing(&local, &in_namespace));
    Ok(missing)
}

fn rules(documents: &[Value], kind: &str) -> Result<Vec<PolicyRule>> {
    let mut all = Vec::new();
    for document in documents.iter().filter(|document| document["kind"] == kind) {
        let rules: Vec<PolicyRule> = serde_json::from_value(document["rules"].clone())
            .with_context(|| format!("rules of {kind} `{}`", document["metadata"]["name"]))?;
        all.extend(rules);
    }
    Ok(all)
}

fn missing(needed: &[PolicyRule], granted: &[PolicyRule]) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in needed {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    let wanted = Right { group, resource, verb, names: rule.resource_names.as_deref() };
                    if !granted.iter().any(|rule| wanted.is_in(rule)) {
                        lines.push(format!(
                            "{CHART}: does not allow `{verb}` on `{resource}` of group `{group}`"
                        ));
                    }
                }
            }
        }
    }
    lines
}

struct Right<'a> {
    group: &'a str,
    resource: &'a str,
    verb: &'a str,
    names: Option<&'a [String]>,
}

impl Right<'_> {
    fn is_in(&self, rule: &PolicyRule) -> bool {
        let has = |list: &Option<Vec<String>>, text: &str| list.iter().flatten().any(|entry| entry == text);
        let names_match = match (&rule.resource_names, self.names) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(granted), Some(wanted)) => wanted.iter().all(|name| granted.contains(name)),
        };
        has(&rule.api_groups, self.group)
            && has(&rule.resources, self.resource)
            && rule.verbs.iter().any(|verb| verb == self.verb)
            && names_match
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_grants_what_the_code_needs() {
        let missing = check(&crate::repository_root()).unwrap();
        assert!(missing.is_empty(), "\n{}", missing.join("\n"));
    }

    #[test]
    fn a_right_for_one_name_is_not_a_right_for_all() {
        let named = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["services".to_owned()]),
            resource_names: Some(vec!["kube-dns".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        let all = PolicyRule { resource_names: None, ..named.clone() };
        assert_eq!(missing(std::slice::from_ref(&all), std::slice::from_ref(&named)).len(), 1);
        assert!(missing(&[named.clone()], &[all]).is_empty());
        assert!(missing(&[named.clone()], &[named]).is_empty());
    }
}
