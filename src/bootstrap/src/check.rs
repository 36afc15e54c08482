//! Readiness of the account for the controller, by whatever means it was made ready.
//!
//! `plan` compares things with what `apply` would make. This checks whether they are good enough: what is made by
//! CloudFormation, Terraform, the reference's template or somebody's own hands counts just as well. Pure: findings
//! follow from what was read. The controller's policies are asked for every call it makes, with denials and conditions; what
//! is not known here is a warning, neither ready nor missing.

mod cluster;
mod identity;
mod interruption;
mod rights;

use karpenter_aws_api::events;
use schemars::JsonSchema;
use serde::Serialize;

use crate::aws_auth::AwsAuth;
use crate::desired::Desired;
use crate::observe::Observed;
use crate::settings::Settings;

/// State of a prerequisite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there as it must be.
    Ready,
    /// The controller runs, but something will not work.
    Warning,
    /// The controller does not run, or its nodes do not join.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Name of the check, in kebab case, the same in every version.
    pub check: &'static str,
    /// State of the prerequisite.
    pub state: State,
    /// Evidence of the state.
    pub evidence: String,
    /// Fix for the operator; empty when nothing needs doing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

/// Everything that was looked at, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// True if nothing is missing.
    pub ready: bool,
    /// One for each check.
    pub findings: Vec<Finding>,
}

/// Looks at everything the controller of this cluster needs.
///
/// `senders` are the rules that send to the interruption queue, `aws_auth` is what lets nodes join besides access entries.
pub fn check(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    senders: &[events::Rule],
    aws_auth: &AwsAuth,
) -> Report {
    let mut findings = Findings::default();
    cluster::check(settings, observed, &mut findings);
    identity::nodes(settings, desired, observed, aws_auth, &mut findings);
    identity::controller(settings, desired, observed, &mut findings);
    interruption::check(settings, desired, observed, senders, &mut findings);
    cluster::discovery(settings, observed, &mut findings);
    let findings = findings.0;
    Report { ready: findings.iter().all(|finding| finding.state != State::Missing), findings }
}

/// Findings as they are made.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, check: &'static str, state: State, evidence: String, fix: String) {
        self.0.push(Finding { check, state, evidence, fix });
    }

    fn ready(&mut self, check: &'static str, evidence: String) {
        self.add(check, State::Ready, evidence, String::new());
    }

    fn warn(&mut self, check: &'static str, evidence: String, fix: String) {
        self.add(check, State::Warning, evidence, fix);
    }

    fn missing(&mut self, check: &'static str, evidence: String, fix: String) {
        self.add(check, State::Missing, evidence, fix);
    }
}

impl Report {
    /// A line for each finding, what to do below it, and the sum.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let mark = match finding.state {
                State::Ready => "ok     ",
                State::Warning => "warning",
                State::Missing => "MISSING",
            };
            out.push_str(&format!("  {mark} {:<20} {}\n", finding.check, finding.evidence));
            if !finding.fix.is_empty() {
                out.push_str(&format!("{:31}-> {}\n", "", finding.fix));
            }
        }
        let count = |state| self.findings.iter().filter(|finding| finding.state == state).count();
        let (missing, warnings) = (count(State::Missing), count(State::Warning));
        out.push_str(&match (missing, warnings) {
            (0, 0) => "the account is ready\n".to_owned(),
            (0, warnings) => format!("the account is ready, with {warnings} warning(s)\n"),
            (missing, warnings) => {
                format!("the account is not ready: {missing} missing, {warnings} warning(s)\n")
            }
        });
        out
    }
}
