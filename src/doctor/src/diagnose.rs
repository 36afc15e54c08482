//! Facts in, report out: pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{Check, Evidence, Look, Outcome, Phrase, Scope, Severity};
use crate::facts::{Answer, Cluster, Facts, Unseen, Words};

/// Results of all checks, each list in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// Checks that could not look, and why: never the same as "ok".
    pub unseen: Vec<NotLooked>,
    /// Checks that looked and found nothing.
    pub passed: Vec<&'static str>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub id: &'static str,
    pub severity: Severity,
    pub scope: Scope,
    pub symptom: &'static str,
    pub cause: &'static str,
    pub fix: &'static str,
    pub evidence: Vec<Evidence>,
}

/// A check that did not look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotLooked {
    pub id: &'static str,
    pub why: String,
}

/// Result of a run of `karpenter doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Everything that can be looked at was, and nothing needs doing. Advice may be there.
    Healthy,
    /// At least one error or warning.
    Unhealthy,
    /// Nothing found, but not everything could be looked at.
    Unknown,
}

impl Report {
    /// Returns the health that findings and checks that could not look add up to.
    pub fn health(&self) -> Health {
        if self.findings.iter().any(|finding| finding.severity > Severity::Advice) {
            Health::Unhealthy
        } else if self.unseen.is_empty() {
            Health::Healthy
        } else {
            Health::Unknown
        }
    }

    /// Reasons for not looking, each with the checks it kept from looking.
    pub fn unseen_by_reason(&self) -> BTreeMap<&str, Vec<&'static str>> {
        let mut reasons: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
        for NotLooked { id, why } in &self.unseen {
            reasons.entry(why).or_default().push(id);
        }
        reasons
    }
}

/// Runs every check of the registry, or those named in `only` if there are any.
pub fn diagnose(facts: &Facts, only: &[String]) -> Report {
    let mut report = Report::default();
    let said = facts.cluster.words();
    let rest = facts.without_undecoded().map(|rest| (rest.cluster.words(), rest));
    let named = |check: &Check| only.is_empty() || only.iter().any(|wanted| check.is_called(wanted));
    for check in crate::checks().into_iter().filter(named) {
        let mut outcome = look(&check, facts, &said);
        // A check finds something although objects of a kind were not decoded, but it cannot pass: they may have the fault.
        if let (Ok([]), Some((said, rest))) = (outcome.as_deref(), &rest) {
            outcome = look(&check, rest, said);
        }
        match outcome {
            Ok(evidence) if evidence.is_empty() => report.passed.push(check.id),
            Ok(evidence) => report.findings.push(finding(&check, evidence)),
            Err(Unseen(why)) => report.unseen.push(NotLooked { id: check.id, why }),
        }
    }
    report
}

fn look(check: &Check, facts: &Facts, said: &(Vec<Words>, Option<Unseen>)) -> Outcome {
    match check.look {
        Look::At(look) => look(facts),
        Look::Said(phrases) => heard(said, phrases),
        Look::SaidUnless(is_gone, phrases) => {
            if is_gone(facts) {
                Ok(Vec::new())
            } else {
                heard(said, phrases)
            }
        }
        Look::Either(look, phrases) => either(look(facts), || heard(said, phrases), &facts.cluster),
    }
}

/// Joins the findings from the configuration and from reports. Before there is a cluster nothing can have been reported.
fn either(configured: Outcome, heard: impl FnOnce() -> Outcome, cluster: &Cluster) -> Outcome {
    let heard = match cluster.events {
        Answer::Unasked => Ok(Vec::new()),
        _ => heard(),
    };
    match (configured, heard) {
        (Ok(configured), Ok(heard)) => Ok([configured, heard].concat()),
        (Ok(some), Err(_)) | (Err(_), Ok(some)) if !some.is_empty() => Ok(some),
        (Err(unseen), _) | (_, Err(unseen)) => Err(unseen),
    }
}

fn finding(check: &Check, evidence: Vec<Evidence>) -> Finding {
    let Check { id, severity, scope, symptom, cause, fix, .. } = *check;
    let worst = evidence.iter().map(|found| found.severity.unwrap_or(severity)).max();
    Finding { id, severity: worst.unwrap_or(severity), scope, symptom, cause, fix, evidence }
}

/// Returns the texts in which one of the phrases is found; each object once, with its first such text.
///
/// Reported causes are findings even if another source kept silent; silence is only "nothing wrong" if every source could be
/// asked.
fn heard((words, unseen): &(Vec<Words>, Option<Unseen>), phrases: &[Phrase]) -> Outcome {
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for Words { object, text } in words {
        let lower = text.to_lowercase();
        if phrases.iter().any(|phrase| phrase.is_in(&lower)) {
            found.entry(object).or_insert(text);
        }
    }
    match unseen {
        Some(unseen) if found.is_empty() => Err(unseen.clone()),
        _ => Ok(found.into_iter().map(|(object, text)| Evidence::new(object, shortened(text))).collect()),
    }
}

/// Enough of a text to recognise it.
fn shortened(text: &str) -> String {
    const CHARACTERS: usize = 300;
    if text.chars().count() <= CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{aws, ours};

    fn words(object: &str, text: &str) -> Words {
        Words { object: object.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn all_words_of_one_phrase_in_any_case_are_a_finding_unless_another_is_there() {
        let said = ["Has One and Two", "one", "three", "three but four"];
        let said = said.iter().zip(["a", "b", "c", "d"]).map(|(text, object)| words(object, text)).collect();
        let phrases = [aws(&["one", "two"]), ours(&["three"]).without(&["four"])];
        let found = heard(&(said, None), &phrases).unwrap();
        assert_eq!(found.iter().map(|found| found.object.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn silence_is_only_trusted_when_every_source_was_asked() {
        let refused = Some(Unseen("forbidden".to_owned()));
        let bad = [aws(&["bad"])];
        assert!(heard(&(vec![words("a", "fine")], refused.clone()), &bad).is_err());
        assert_eq!(heard(&(vec![words("a", "bad")], refused), &bad).unwrap().len(), 1);
        assert_eq!(heard(&(vec![words("a", "fine")], None), &bad), Ok(vec![]));
    }

    #[test]
    fn either_source_is_enough_for_a_finding_and_both_are_needed_for_none() {
        let (some, none) = (|| Ok(vec![Evidence::new("a", "b")]), || Ok(vec![]));
        let refused = || Err(Unseen("forbidden".to_owned()));
        let asked = Cluster { events: Answer::Seen(vec![]), ..Cluster::default() };
        assert_eq!(either(some(), some, &asked).unwrap().len(), 2);
        assert_eq!(either(some(), refused, &asked).unwrap().len(), 1);
        assert_eq!(either(refused(), some, &asked).unwrap().len(), 1);
        assert_eq!(either(none(), none, &asked), Ok(vec![]));
        assert!(either(none(), refused, &asked).is_err());
        assert!(either(refused(), none, &asked).is_err());
        assert_eq!(either(none(), refused, &Cluster::default()), Ok(vec![]), "there is no cluster yet");
    }

    #[test]
    fn advice_is_healthy_and_not_looking_is_not() {
        let mut report = Report::default();
        assert_eq!(report.health(), Health::Healthy);
        report.unseen.push(NotLooked { id: "D-1", why: "forbidden".to_owned() });
        assert_eq!(report.health(), Health::Unknown);
        let check = crate::checks().into_iter().find(|check| check.id == "P-16").unwrap();
        report.findings.push(finding(&check, vec![]));
        assert_eq!(report.health(), Health::Unhealthy);
        report.findings[0].severity = Severity::Advice;
        assert_eq!(report.health(), Health::Unknown);
    }

    #[test]
    fn a_finding_is_as_grave_as_its_worst_evidence() {
        let check = crate::checks().into_iter().find(|check| check.id == "P-16").unwrap();
        let mild = || Evidence::new("a", "b").advice_only();
        assert_eq!(finding(&check, vec![mild()]).severity, Severity::Advice);
        assert_eq!(finding(&check, vec![mild(), Evidence::new("c", "d")]).severity, check.severity);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("ä"), "ä");
        assert_eq!(shortened(&"ä".repeat(400)).chars().count(), 303);
    }
}
