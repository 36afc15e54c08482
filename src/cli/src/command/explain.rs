//! `karpenter explain`: why a node stays, a pod waits or a pool takes no part, as the running controller sees it.
//!
//! The controller that leads is asked, wherever it is: [`crate::leader`] finds it.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::{SpanRound, Timestamp, Unit};
use karpenter_controllers::explain::{Answer, Question, QuestionError};
use karpenter_telemetry::stdout;

use crate::leader::Place;
use crate::output::Versioned;

/// Arguments of `karpenter explain`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 answered, 1 failed.\n\n\
                        Why a pod waits: karpenter explain pod/api-0 -n shop\n\
                        Why a node stays: karpenter explain node/ip-10-0-0-1.ec2.internal\n\
                        Everything, for scripts: karpenter explain all --output json")]
pub(crate) struct Arguments {
    /// What to explain: node/NAME, nodeclaim/NAME, pod/NAME, pod/NAMESPACE/NAME, nodepool/NAME, or all; `node NAME` is the
    /// same as node/NAME
    #[arg(default_value = "all", value_name = "OBJECT")]
    about: Vec<String>,
    /// Namespace of pods that are named without one
    #[arg(short, long, default_value = "default")]
    namespace: String,
    #[command(flatten)]
    place: Place,
    /// How to print answers
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// Asks and prints the answers.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(ask(arguments))?;
    for answer in &answers {
        let text = match arguments.output {
            Output::Text => render(answer, Timestamp::now()),
            Output::Json => serde_json::to_string(&Versioned::of(answer))? + "\n",
        };
        stdout::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(arguments: &Arguments) -> Result<Vec<Answer>> {
    let questions = questions(&arguments.about, &arguments.namespace)?;
    let controller = arguments.place.controller(None).await?;
    let mut answers = Vec::new();
    for question in &questions {
        answers.push(controller.ask(question).await?);
    }
    Ok(answers)
}

/// Reads what is asked about, in either form that kubectl takes: `node/NAME`, and the kind followed by names.
fn questions(words: &[String], namespace: &str) -> Result<Vec<Question>, QuestionError> {
    const KINDS: [&str; 4] = ["node", "nodeclaim", "nodepool", "pod"];
    let mut questions = Vec::new();
    let mut kind = None;
    for word in words {
        if KINDS.contains(&word.as_str()) {
            kind = Some(word.as_str());
            continue;
        }
        let object = match kind {
            Some(kind) if !word.contains('/') => format!("{kind}/{word}"),
            _ => word.clone(),
        };
        questions.push(match object.strip_prefix("pod/") {
            Some(name) if !name.contains('/') => format!("pod/{namespace}/{name}").parse()?,
            _ => object.parse()?,
        });
    }
    match (questions.is_empty(), kind) {
        // A kind alone: its error says what to write.
        (true, Some(kind)) => kind.parse().map(|question| vec![question]),
        _ => Ok(questions),
    }
}

/// An answer for people: what, why, and what else is worth knowing.
pub(crate) fn render(answer: &Answer, now: Timestamp) -> String {
    let mut text = format!("{} {}\n", answer.about, answer.verdict);
    for why in &answer.reasons {
        let subject = why.subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {subject}{} ({})", why.text, why.code);
    }
    let width = answer.facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or_default();
    for fact in &answer.facts {
        let _ = writeln!(text, "  {:width$}  {}", fact.name, fact.value);
    }
    if let Some(at) = answer.decided_at {
        let _ = writeln!(text, "  looked at {}", ago(at, now));
    }
    text
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    let round = SpanRound::new().smallest(Unit::Second).largest(Unit::Hour);
    match (now - at).round(round) {
        Ok(span) if now >= at => format!("{span:#} ago"),
        _ => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_controllers::explain::{Fact, Why};

    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_takes_them() {
        let asked = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let questions = questions(&words, "shop").map_err(|error| error.to_string());
            questions.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        for (line, expected) in [
            ("all", "all"),
            ("node/a pod/api", "node/a pod/shop/api"),
            ("pod/other/api", "pod/other/api"),
            ("node a b", "node/a node/b"),
            ("pod api nodepool web", "pod/shop/api nodepool/web"),
        ] {
            assert_eq!(asked(line).as_deref(), Ok(expected), "{line}");
        }
        for wrong in ["node", "foo", "service/a"] {
            assert!(asked(wrong).unwrap_err().contains("ask about `node/NAME`"), "{wrong}");
        }
    }

    #[test]
    fn people_read_the_verdict_then_why_then_the_rest() {
        let at: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let why = |subject: Option<&str>, code: &str, text: &str| Why {
            code: code.to_owned(),
            subject: subject.map(str::to_owned),
            text: text.to_owned(),
        };
        let fact = |name: &str, value: &str| Fact { name: name.to_owned(), value: value.to_owned() };
        let answer = Answer {
            about: "pod/shop/api-0".to_owned(),
            decided_at: Some(at),
            verdict: "waits, no pool can take it".to_owned(),
            reasons: vec![
                why(Some("web"), "Taint", "pod does not tolerate a taint: gpu"),
                why(None, "Limits", "full"),
            ],
            facts: vec![fact("node", "n1"), fact("nodepool", "web")],
        };
        let now = "2026-01-01T12:01:05Z".parse().unwrap();
        let expected = "\
pod/shop/api-0 waits, no pool can take it
  web: pod does not tolerate a taint: gpu (Taint)
  full (Limits)
  node      n1
  nodepool  web
  looked at 1m 5s ago
";
        assert_eq!(render(&answer, now), expected);
        assert!(
            render(&answer, at - jiff::Span::new().seconds(1)).contains("looked at 2026-01-01T12:00:00Z")
        );
    }
}
