//! A report for people.

use crate::check::Severity;
use crate::diagnose::{Health, Report};

/// Findings with their evidence, what could not be looked at, and the sum.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        let mark = match finding.severity {
            Severity::Error => "ERROR  ",
            Severity::Warning => "warning",
            Severity::Advice => "advice ",
        };
        out.push_str(&format!("{mark} {:<5} {}\n", finding.id, finding.symptom));
        for evidence in &finding.evidence {
            let repairable = if evidence.repair.is_some() { " [--fix]" } else { "" };
            let is_less = evidence.severity.is_some_and(|severity| severity < finding.severity);
            let less = if is_less { " (advice only)" } else { "" };
            out.push_str(&format!(
                "              {}: {}{less}{repairable}\n",
                evidence.object, evidence.seen
            ));
        }
        out.push_str(&format!("        cause {}\n        fix   {}\n\n", finding.cause, finding.fix));
    }
    for (why, ids) in report.unseen_by_reason() {
        out.push_str(&format!("could not look: {why}\n                ({})\n", ids.join(", ")));
    }
    if !report.unseen.is_empty() {
        out.push('\n');
    }
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    out.push_str(&format!(
        "{}: {} errors, {} warnings, {} advice; {} checks passed, {} could not look\n",
        match report.health() {
            Health::Healthy => "healthy",
            Health::Unhealthy => "not healthy",
            Health::Unknown => "unknown",
        },
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Advice),
        report.passed.len(),
        report.unseen.len(),
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Evidence, Scope};
    use crate::diagnose::{Finding, NotLooked};
    use crate::repair::Repair;

    fn report() -> Report {
        let repair = Repair::DropFinalizer { node: "n".to_owned() };
        Report {
            findings: vec![Finding {
                id: "D-10",
                severity: Severity::Error,
                scope: Scope::Cluster,
                symptom: "deleting a Node hangs",
                cause: "no controller removes the finalizer",
                fix: "remove it",
                evidence: vec![Evidence::new("Node n", "waits").with(repair)],
            }],
            unseen: ["D-1", "D-2"].map(|id| NotLooked { id, why: "forbidden".to_owned() }).to_vec(),
            passed: vec!["P-1"],
        }
    }

    #[test]
    fn people_read_finding_evidence_cause_fix_and_the_sum() {
        let want = "ERROR   D-10  deleting a Node hangs\n              Node n: waits [--fix]\n        cause no controller removes the finalizer\n        fix   remove it\n\ncould not look: forbidden\n                (D-1, D-2)\n\nnot healthy: 1 errors, 0 warnings, 0 advice; 1 checks passed, 2 could not look\n";
        assert_eq!(text(&report()), want);
    }

    #[test]
    fn programs_read_every_field() {
        let value: serde_json::Value = serde_json::to_value(report()).unwrap();
        assert_eq!(value["findings"][0]["evidence"][0]["repair"]["action"], "drop-finalizer");
        assert_eq!(value["unseen"][1]["why"], "forbidden");
        assert_eq!(value["passed"][0], "P-1");
    }
}
