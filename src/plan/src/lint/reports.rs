//! Findings for programs: JSON, annotations of a workflow on GitHub, and SARIF for code scanning.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{LintFinding, LintSeverity};

/// Findings for tools, the most important first.
#[derive(Serialize, JsonSchema)]
pub struct LintReport<'a> {
    pub findings: &'a [LintFinding],
}

/// The findings as commands of a workflow on GitHub, which shows each at its line of the pull request.
pub fn lint_annotations(found: &[LintFinding]) -> String {
    let line = |one: &LintFinding| {
        let severity = severity(one.severity);
        let place = one
            .origin
            .as_ref()
            .map(|origin| format!("file={},line={},", property(&origin.file), origin.line));
        let title = property(&format!("{} {}", one.object, one.field));
        let text = data(&format!("{} ({}); {}", one.problem, one.rule, one.remedy));
        format!("::{severity} {}title={title}::{text}\n", place.unwrap_or_default())
    };
    found.iter().map(line).collect()
}

/// The findings as a log of SARIF 2.1.0.
pub fn lint_sarif(found: &[LintFinding]) -> Value {
    let rules: BTreeSet<&str> = found.iter().map(|one| one.rule).collect();
    let rules: Vec<Value> = rules.into_iter().map(|rule| json!({"id": rule})).collect();
    let result = |one: &LintFinding| {
        let place = |origin: &crate::Origin| {
            json!({"physicalLocation": {
                "artifactLocation": {"uri": origin.file}, "region": {"startLine": origin.line},
            }})
        };
        let text = format!("{} {}: {}; {}", one.object, one.field, one.problem, one.remedy);
        json!({
            "ruleId": one.rule, "level": severity(one.severity), "message": {"text": text},
            "locations": one.origin.iter().map(place).collect::<Vec<_>>(),
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "karpenter lint", "rules": rules}},
            "results": found.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn severity(severity: LintSeverity) -> &'static str {
    match severity {
        LintSeverity::Error => "error",
        LintSeverity::Warning => "warning",
    }
}

/// Text of a command of a workflow, which ends with its line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Value of a property of such a command, which ends with a comma or a colon besides.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Origin;

    #[test]
    fn programs_get_every_finding_with_its_place() {
        let one = LintFinding {
            object: "deploy/a,b.yaml".to_owned(),
            field: "kind".to_owned(),
            rule: "malformed",
            severity: LintSeverity::Error,
            problem: "100 % wrong\nhere".to_owned(),
            remedy: "correct it".to_owned(),
            origin: Some(Origin { file: "deploy/a,b.yaml".to_owned(), line: 4 }),
        };
        let other = LintFinding {
            object: "b".to_owned(),
            field: String::new(),
            origin: None,
            severity: LintSeverity::Warning,
            ..one.clone()
        };
        let found = [one, other];
        let text = lint_annotations(&found);
        let first = "::error file=deploy/a%2Cb.yaml,line=4,title=deploy/a%2Cb.yaml kind::100 %25 wrong%0Ahere (malformed); ";
        assert!(text.starts_with(first) && text.contains("\n::warning title=b ::"), "{text}");
        let json = json!(LintReport { findings: &found });
        assert_eq!(json["findings"][0]["line"], 4);
        let run = lint_sarif(&found)["runs"][0].clone();
        assert_eq!(run["tool"]["driver"]["rules"], json!([{"id": "malformed"}]));
        assert_eq!(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"], 4);
        assert_eq!(run["results"][1]["locations"], json!([]));
    }
}
