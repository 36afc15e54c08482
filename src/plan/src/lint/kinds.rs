//! Objects that no rule looks at although one was meant to: of a kind or API version that is not known, without a name, or
//! there twice.
//!
//! Kinds of Kubernetes that no rule is about are passed over in silence. Kinds of other groups may be right: an API server
//! knows its definitions, which lint does not. They are named in a note.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::crd_values;
use karpenter_model::names::label;
use serde_json::Value;

use super::near::near;
use super::{LintFinding, LintSeverity};
use crate::objects::kinds::{KUBERNETES, Kind, is_ours};
use crate::objects::{ObjectKey, text, type_of};
use crate::offerings::API_VERSION;
use crate::stream::{Manifest, Origin};

/// Kinds of versions before v1, which `karpenter convert` reads.
const OLD: [&str; 3] = ["AWSNodeTemplate", "Machine", "Provisioner"];

/// Groups of Kubernetes whose other versions are gone.
const V1_ALONE: [&str; 6] = ["", "apps", "batch", "node.k8s.io", "policy", "scheduling.k8s.io"];

/// The group that Kubernetes began with, whose kinds are all in others.
const GONE: &str = "extensions";

/// Checks objects as such, and returns notes on those of kinds that are not known here.
pub(super) fn check(manifests: &[Manifest], found: &mut Vec<LintFinding>) -> Vec<String> {
    let defined = Defined::read();
    let mut foreign: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut seen: BTreeMap<(&str, ObjectKey), Option<&Origin>> = BTreeMap::new();
    for manifest in manifests {
        let (group, version, kind) = type_of(&manifest.object);
        if text(&manifest.object, "/apiVersion") == API_VERSION {
            continue;
        }
        match defined.judge(group, version, kind) {
            Judged::Known => {}
            Judged::Foreign => {
                let at = manifest.origin.as_ref().map_or_else(|| name(&manifest.object), ToString::to_string);
                foreign.entry((kind.to_owned(), group.to_owned())).or_default().push(at);
            }
            Judged::Wrong { field, rule, severity, problem, remedy } => {
                found.push(finding(manifest, field, rule, severity, problem, remedy));
            }
        }
        let key = ObjectKey::of(&manifest.object);
        if key.name.is_empty() {
            // Objects that other programs apply, as a Kustomization, need no name.
            let is_object = defined.is_ours(group) || kinds_of(group).is_some();
            found.extend(is_object.then(|| unnamed(manifest)));
            continue;
        }
        if let Some(first) = seen.insert((group, key), manifest.origin.as_ref()) {
            found.push(duplicate(manifest, first));
        }
    }
    foreign.into_iter().map(note).collect()
}

fn note(((kind, group), places): ((String, String), Vec<String>)) -> String {
    format!("no rule looks at kind `{kind}` of group `{group}`: {}", crate::text::named(&places))
}

/// Judgement about the name of a type.
enum Judged {
    Known,
    /// Group that neither Kubernetes nor Karpenter has.
    Foreign,
    Wrong {
        field: &'static str,
        rule: &'static str,
        severity: LintSeverity,
        problem: String,
        remedy: String,
    },
}

/// Our kinds: group and versions of each.
struct Defined(BTreeMap<String, (String, Vec<String>)>);

impl Defined {
    fn read() -> Self {
        let text = |definition: &Value, pointer: &str| text(definition, pointer).to_owned();
        let one = |definition: &Value| {
            let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
            let versions = versions.into_iter().flatten().map(|one| text(one, "/name")).collect();
            (text(definition, "/spec/names/kind"), (text(definition, "/spec/group"), versions))
        };
        Self(crd_values().iter().map(one).collect())
    }

    fn is_ours(&self, group: &str) -> bool {
        [label::DOMAIN, label::aws::DOMAIN].contains(&group) || self.0.values().any(|(own, _)| own == group)
    }

    fn judge(&self, group: &str, version: &str, kind: &str) -> Judged {
        if let Some((own, versions)) = self.0.get(kind) {
            return judge_version(own, versions, group, version, kind);
        }
        let is_ours = self.is_ours(group);
        if is_ours && OLD.contains(&kind) {
            return Judged::Wrong {
                field: "kind",
                rule: "old-kind",
                severity: LintSeverity::Error,
                problem: format!("`{kind}` is of a version before v1, so it has no effect"),
                remedy: "convert it: `karpenter convert`".to_owned(),
            };
        }
        if kinds_of(group).is_some_and(|kinds| has(kinds, kind)) {
            if !V1_ALONE.contains(&group) || ["", "v1"].contains(&version) {
                return Judged::Known;
            }
            let gone = format!("{} has no version `{version}` any more", of(group));
            return Judged::Wrong {
                field: "apiVersion",
                rule: "wrong-api-version",
                severity: LintSeverity::Error,
                problem: format!("{gone}, so an API server refuses the object"),
                remedy: format!("write `{}`", example(group)),
            };
        }
        if kinds_of(group).is_none() && !is_ours && !self.is_meant(group) {
            return Judged::Foreign;
        }
        self.unknown(group, kind)
    }

    /// Returns whether a group that is neither ours nor one of Kubernetes was probably meant to be.
    fn is_meant(&self, group: &str) -> bool {
        group == GONE
            || group.contains("karpenter")
            || near(group, self.0.values().map(|(own, _)| own.as_str())).is_some()
    }

    fn unknown(&self, group: &str, kind: &str) -> Judged {
        let elsewhere = KUBERNETES.iter().find(|(_, kinds)| has(kinds, kind)).map(|(group, _)| *group);
        let is_of_kubernetes = group.is_empty() || group == GONE || kinds_of(group).is_some();
        if let Some(right) = elsewhere.filter(|_| is_of_kubernetes) {
            return Judged::Wrong {
                field: "apiVersion",
                rule: "wrong-api-version",
                severity: LintSeverity::Error,
                problem: format!("{} has no kind `{kind}`, so an API server refuses the object", of(group)),
                remedy: format!("write the version of {}, as in `{}`", of(right), example(right)),
            };
        }
        let ours = self.0.keys().map(String::as_str);
        let kubernetes = KUBERNETES.iter().flat_map(|(_, kinds)| kinds.iter().map(|kind| kind.name));
        let all: BTreeSet<&str> = ours.chain(kubernetes).chain(OLD).collect();
        let meant = near(kind, all);
        // A release of Kubernetes that is newer than this table may have kinds that it lacks.
        let certain = meant.is_some() || kinds_of(group).is_none();
        Judged::Wrong {
            field: "kind",
            rule: "unknown-kind",
            severity: if certain { LintSeverity::Error } else { LintSeverity::Warning },
            problem: format!("{} has no kind `{kind}`, so the object is passed over", of(group)),
            remedy: match meant {
                Some(meant) => format!("write `{meant}`"),
                None => "correct `kind` and `apiVersion`, or leave the object out".to_owned(),
            },
        }
    }
}

/// Judges whether one of our kinds has the right group, and a version that is served.
fn judge_version(own: &str, versions: &[String], group: &str, version: &str, kind: &str) -> Judged {
    if own == group && versions.iter().any(|one| one == version) {
        return Judged::Known;
    }
    let written = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let right = versions.iter().map(|version| format!("`{own}/{version}`")).collect::<Vec<_>>().join(" or ");
    let (problem, remedy) = match (written.as_str(), own == group) {
        ("", _) => {
            ("it has no `apiVersion`, so an API server refuses it".to_owned(), format!("write {right}"))
        }
        (written, true) => (
            format!("`{written}` is not served, so an API server refuses it"),
            format!("write {right}; `karpenter convert` does that with versions before v1"),
        ),
        (written, false) => {
            (format!("`{written}` has no kind `{kind}`, so it has no effect"), format!("write {right}"))
        }
    };
    let rule = "wrong-api-version";
    Judged::Wrong { field: "apiVersion", rule, severity: LintSeverity::Error, problem, remedy }
}

/// The kinds of a group of Kubernetes.
fn kinds_of(group: &str) -> Option<&'static [Kind]> {
    KUBERNETES.iter().find(|(known, _)| *known == group).map(|(_, kinds)| *kinds)
}

fn has(kinds: &[Kind], kind: &str) -> bool {
    kinds.iter().any(|one| one.name == kind)
}

fn of(group: &str) -> String {
    if group.is_empty() { "the core group".to_owned() } else { format!("group `{group}`") }
}

fn example(group: &str) -> String {
    if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") }
}

fn unnamed(manifest: &Manifest) -> LintFinding {
    let generated = !text(&manifest.object, "/metadata/generateName").is_empty();
    let (severity, problem) = if generated {
        (LintSeverity::Warning, "it gets its name from `generateName`, so no rule and no plan looks at it")
    } else {
        (LintSeverity::Error, "it has no name, so an API server refuses it and no rule looks at it")
    };
    let remedy = "give it a name".to_owned();
    finding(manifest, "metadata.name", "no-name", severity, problem.to_owned(), remedy)
}

fn duplicate(manifest: &Manifest, first: Option<&Origin>) -> LintFinding {
    let first = first.map_or_else(|| "another object".to_owned(), |origin| format!("the object of {origin}"));
    let problem =
        format!("{first} has the same kind, namespace and name, so of the two only this one counts");
    let remedy = "leave one of them out, or give it another name".to_owned();
    finding(manifest, "metadata.name", "duplicate", LintSeverity::Warning, problem, remedy)
}

fn finding(
    manifest: &Manifest,
    field: &str,
    rule: &'static str,
    severity: LintSeverity,
    problem: String,
    remedy: String,
) -> LintFinding {
    let (object, field) = (name(&manifest.object), field.to_owned());
    let origin = manifest.origin_of(&field);
    LintFinding { object, field, rule, severity, problem, remedy, origin }
}

/// Returns whether an API server has stored an object.
pub(super) fn is_stored(object: &Value) -> bool {
    !text(object, "/metadata/uid").is_empty()
}

/// Returns whether an object of a built-in kind is to be judged as `kubectl apply` would have it judged. One that an API server
/// has stored was accepted, perhaps by a newer one; those of an export have only what plans read.
pub(super) fn is_judged(manifest: &Manifest, all: &[Manifest]) -> bool {
    let is_ours = is_ours(kind(&manifest.object));
    is_ours
        || !is_stored(&manifest.object)
            && all.iter().all(|one| text(&one.object, "/apiVersion") != API_VERSION)
}

/// The kind of an object.
pub(super) fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// An object as findings name it.
pub(super) fn name(object: &Value) -> String {
    ObjectKey::of(object).to_string()
}
