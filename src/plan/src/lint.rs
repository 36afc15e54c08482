//! Findings in manifests that are allowed and yet cannot be meant: limits no node fits into, requirements nothing meets,
//! budgets that never open, weights without effect, keys with a letter wrong.
//!
//! Every rule is a function from objects to findings. What an API server refuses is found as well, because manifests are
//! mostly looked at before one has seen them.

mod accepted;
mod budgets;
mod consolidation;
mod fields;
mod keys;
mod kinds;
mod near;
mod offered;
mod pod_budgets;
mod pools;
mod refused;
mod reports;
mod reservations;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use karpenter_api::{NodePool, convert};
use karpenter_model::settings::FeatureGates;
use karpenter_model::{LabelRegistry, Pool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::objects::{Objects, is_foreign};
use crate::offerings::Offerings;
use crate::stream::{Manifest, Origin, Reading};
pub use near::near;
pub use refused::{ClassFaults, refused_lines};
pub use reports::{LintReport, lint_annotations, lint_sarif};

/// Something that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// Kind and name, with the namespace where there is one: `NodePool/default`.
    pub object: String,
    /// Path of the field: `spec.limits.cpu`.
    pub field: String,
    /// Stable name of the rule.
    pub rule: &'static str,
    /// Severity of the finding.
    pub severity: LintSeverity,
    /// Description of what is wrong, and what follows from it.
    pub problem: String,
    /// Advice on what to do about it.
    pub remedy: String,
    /// Place of the field, or of what is nearest around it, as `file` and `line`; `None` when it is in no file.
    #[serde(flatten)]
    pub origin: Option<Origin>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LintSeverity {
    /// It cannot work as written.
    Error,
    /// It works, but hardly as meant.
    Warning,
}

/// A pool as written and as read.
struct PoolRead {
    written: NodePool,
    pool: Pool,
}

/// Input of the rules.
struct Linted<'a> {
    objects: &'a Objects,
    pools: &'a [PoolRead],
    /// Offerings that pools can launch; `None` when nothing was asked.
    offerings: Option<&'a Offerings>,
    registry: &'a LabelRegistry,
    gates: FeatureGates,
    at: Timestamp,
}

/// Everything found, by object and field, and what there is to say about what was not looked at. Without `offerings` rules
/// about instance types are left out; `faults` says what the provider has against a node class; `gates` are those of the
/// controller; `at` decides which windows of budgets lie ahead.
pub fn lint(
    Reading { mut manifests, faults: malformed }: Reading,
    offerings: Option<&Offerings>,
    registry: &LabelRegistry,
    faults: ClassFaults<'_>,
    gates: FeatureGates,
    at: Timestamp,
) -> (Vec<LintFinding>, Vec<String>) {
    let mut found: Vec<LintFinding> = refused::malformed(malformed).collect();
    let mut notes = kinds::check(&manifests, &mut found);
    // One may have kind and name of an object that counts, and another place.
    manifests.retain(|manifest| !is_foreign(&manifest.object));
    fields::unknown(&manifests, &mut found);
    let accepted = accepted::read(&manifests);
    let refused = refused::found(&manifests, faults);
    let places: BTreeMap<String, &Manifest> =
        manifests.iter().map(|manifest| (kinds::name(&manifest.object), manifest)).collect();
    let objects: Objects = manifests.iter().map(|manifest| manifest.object.clone()).collect();
    found.extend(of_objects(&objects, offerings, registry, gates, at));
    refused::add(refused, &mut found);
    notes.extend(accepted::apply(&accepted, &mut found));
    for one in &mut found {
        let place = || places.get(&one.object).and_then(|manifest| manifest.origin_of(&one.field));
        one.origin = one.origin.take().or_else(place);
    }
    found.sort();
    found.dedup();
    (found, notes)
}

/// Applies the rules to the objects that count.
fn of_objects(
    objects: &Objects,
    offerings: Option<&Offerings>,
    registry: &LabelRegistry,
    gates: FeatureGates,
    at: Timestamp,
) -> Vec<LintFinding> {
    let mut found = Vec::new();
    let mut pools = Vec::new();
    for (key, object) in objects.of_kind("NodePool") {
        let read = serde_path_to_error::deserialize(object)
            .map_err(|error| (error.path().to_string(), error.into_inner().to_string()));
        let read = read.and_then(|written: NodePool| {
            convert::pool(&written, registry)
                .map(|pool| PoolRead { written, pool })
                .map_err(|error| ("spec".to_owned(), error.to_string()))
        });
        match read {
            Ok(read) => pools.push(read),
            Err((field, problem)) => found.push(LintFinding {
                object: format!("NodePool/{}", key.name),
                field,
                rule: "unreadable",
                severity: LintSeverity::Error,
                problem: format!("the pool cannot be read and takes no part: {problem}"),
                remedy: "correct the field".to_owned(),
                origin: None,
            }),
        }
    }
    let linted = Linted { objects, pools: &pools, offerings, registry, gates, at };
    fields::invalid(&linted, &mut found);
    keys::check(&linted, &mut found);
    offered::check(&linted, &mut found);
    budgets::check(&linted, &mut found);
    pod_budgets::check(&linted, &mut found);
    pools::check(&linted, &mut found);
    reservations::check(&linted, &mut found);
    consolidation::check(&linted, &mut found);
    found
}

/// The findings for people.
pub fn lint_text(found: &[LintFinding]) -> String {
    let mut text = String::new();
    for one in found {
        let severity = match one.severity {
            LintSeverity::Error => "error",
            LintSeverity::Warning => "warning",
        };
        let place = one.origin.as_ref().map(|origin| format!(", {origin}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{severity}: {} {} ({}){place}", one.object, one.field, one.rule);
        let _ = writeln!(text, "    {}\n    do: {}", one.problem, one.remedy);
    }
    let _ = match found.len() {
        0 => writeln!(text, "Nothing found."),
        1 => writeln!(text, "1 finding."),
        more => writeln!(text, "{more} findings."),
    };
    text
}

impl PoolRead {
    fn finding(
        &self,
        rule: &'static str,
        severity: LintSeverity,
        field: &str,
        problem: String,
        remedy: &str,
    ) -> LintFinding {
        LintFinding {
            object: format!("NodePool/{}", self.pool.name),
            field: field.to_owned(),
            rule,
            severity,
            problem,
            remedy: remedy.to_owned(),
            origin: None,
        }
    }

    fn warning(&self, rule: &'static str, field: &str, problem: String, remedy: &str) -> LintFinding {
        self.finding(rule, LintSeverity::Warning, field, problem, remedy)
    }

    fn error(&self, rule: &'static str, field: &str, problem: String, remedy: &str) -> LintFinding {
        self.finding(rule, LintSeverity::Error, field, problem, remedy)
    }
}

#[cfg(test)]
mod tests;
