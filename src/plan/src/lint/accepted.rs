//! Warnings that an object says are meant: its annotation `karpenter.sh/lint-accepted` lists their rules, separated by commas.

use std::collections::BTreeMap;

use karpenter_model::names::annotation::LINT_ACCEPTED;

use super::{LintFinding, LintSeverity, kinds};
use crate::stream::Manifest;

/// Rules by object.
pub(super) type Accepted = BTreeMap<String, Vec<String>>;

pub(super) fn read(manifests: &[Manifest]) -> Accepted {
    let of_object = |manifest: &Manifest| {
        let written = manifest.object["metadata"]["annotations"][LINT_ACCEPTED].as_str()?;
        let rules = written.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        Some((kinds::name(&manifest.object), rules.map(str::to_owned).collect()))
    };
    manifests.iter().filter_map(of_object).collect()
}

/// Takes out what is accepted, and finds what accepts nothing. Errors stay: what cannot work as written is not meant.
pub(super) fn apply(accepted: &Accepted, found: &mut Vec<LintFinding>) -> Option<String> {
    let mut used: Vec<(&str, &str)> = Vec::new();
    found.retain(|one| {
        let rules = accepted.get_key_value(&one.object).filter(|_| one.severity == LintSeverity::Warning);
        let rule =
            rules.and_then(|(object, rules)| Some((object, rules.iter().find(|rule| **rule == one.rule)?)));
        used.extend(rule.map(|(object, rule)| (object.as_str(), rule.as_str())));
        rule.is_none()
    });
    let all = accepted
        .iter()
        .flat_map(|(object, rules)| rules.iter().map(move |rule| (object.as_str(), rule.as_str())));
    found.extend(all.filter(|one| !used.contains(one)).map(|(object, rule)| LintFinding {
        object: object.to_owned(),
        field: format!("metadata.annotations.{LINT_ACCEPTED}"),
        rule: "accepts-nothing",
        severity: LintSeverity::Warning,
        problem: format!("rule `{rule}` has no warning about this object"),
        remedy: "remove the rule from the annotation".to_owned(),
        origin: None,
    }));
    let count = used.len();
    (count > 0).then(|| format!("findings accepted by annotation {LINT_ACCEPTED}: {count}"))
}
