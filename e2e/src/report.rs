//! Results of runs: as a table for people, as `JUnit`'s XML for programs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

/// One behaviour, or one story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The suite it belongs to.
    pub suite: &'static str,
    /// Name of the case, as a sentence.
    pub name: String,
    /// Time from its start to its end.
    pub took: Duration,
    /// Failure of the case.
    pub failure: Option<String>,
}

/// One line for each case, and a last one that counts them.
pub fn table(cases: &[Case]) -> String {
    let mut text = String::new();
    for Case { suite, name, took, failure } in cases {
        let outcome = if failure.is_some() { "FAILED" } else { "ok" };
        let _infallible = writeln!(text, "{outcome:<7}{:>7.1} s  {suite}: {name}", took.as_secs_f64());
    }
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let _infallible = writeln!(text, "{} passed, {failed} failed", cases.len() - failed);
    text
}

/// Writes the cases as `JUnit`'s XML, which CI systems read.
pub fn junit(cases: &[Case]) -> Result<String> {
    let mut report = quick_junit::Report::new("karpenter-e2e");
    let mut suites: Vec<&str> = cases.iter().map(|case| case.suite).collect();
    suites.dedup();
    for name in suites {
        let mut suite = TestSuite::new(name);
        for case in cases.iter().filter(|case| case.suite == name) {
            let status = match &case.failure {
                None => TestCaseStatus::success(),
                Some(failure) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(failure.lines().next().unwrap_or_default()).set_description(failure);
                    status
                }
            };
            let mut entry = TestCase::new(&case.name, status);
            entry.set_classname(name).set_time(case.took);
            suite.add_test_case(entry);
        }
        report.add_test_suite(suite);
    }
    report.to_string().context("write the report as XML")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Case> {
        let case = |suite, name: &str, failure: Option<&str>| Case {
            suite,
            name: name.to_owned(),
            took: Duration::from_millis(1_500),
            failure: failure.map(str::to_owned),
        };
        vec![
            case("launch", "the whole", None),
            case("scheduling", "pods spread", Some("3 of 4 pods run\nwanted <4>")),
        ]
    }

    #[test]
    fn people_read_a_line_for_each_case_and_the_count() {
        assert_eq!(
            table(&cases()),
            "ok         1.5 s  launch: the whole\n\
             FAILED     1.5 s  scheduling: pods spread\n\
             1 passed, 1 failed\n"
        );
    }

    #[test]
    fn programs_read_suites_times_and_failures() {
        let xml = junit(&cases()).unwrap();
        let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
        assert_eq!((report.tests, report.failures), (2, 1), "{xml}");
        let case = &report.test_suites[1].test_cases[0];
        assert_eq!(case.time, Some(Duration::from_millis(1_500)));
        let TestCaseStatus::NonSuccess { message, description, .. } = &case.status else { panic!("{xml}") };
        assert_eq!(message.as_ref().map(quick_junit::XmlString::as_str), Some("3 of 4 pods run"));
        assert!(description.as_ref().is_some_and(|text| text.as_str().contains("wanted <4>")), "{xml}");
    }
}
