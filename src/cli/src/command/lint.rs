//! `karpenter lint`: statements in manifests or a cluster that cannot be meant.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use karpenter_aws::class::faults;
use karpenter_aws::registry::label_registry;
use karpenter_plan::{LintReport, lint, lint_annotations, lint_sarif, lint_text};
use karpenter_telemetry::stdout::print;

use super::plan::{Gathered, Sources};
use crate::output::{Colour, json, note};

/// Arguments of `karpenter lint`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 nothing found, 1 nothing could be checked, 2 something was found.\n\n\
                        In CI: karpenter lint -f manifests/\n\
                        On GitHub, at the lines of the pull request: karpenter lint -f manifests/ --output github\n\
                        For code scanning: karpenter lint -f manifests/ --output sarif > lint.sarif")]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// How to print findings; notes on what could not be checked go to standard error
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    colour: Colour,
}

/// Reader of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text for people
    Text,
    /// JSON for tools
    Json,
    /// Annotations of a workflow on GitHub
    Github,
    /// SARIF 2.1.0 for code scanning
    Sarif,
}

/// Lints, prints, and returns as exit code whether something was found.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let Linted { text, notes, code } = runtime.block_on(linted(arguments))?;
    print(&text)?;
    note(&notes)?;
    Ok(ExitCode::from(code))
}

/// Output of the command, and the exit code.
pub(super) struct Linted {
    pub(super) text: String,
    notes: Vec<String>,
    pub(super) code: u8,
}

pub(super) async fn linted(arguments: &Arguments) -> Result<Linted> {
    let (reading, gathered) = arguments.sources.gather_to_lint().await?;
    let Gathered { world, offerings, mut notes, .. } = gathered;
    let cluster = Some(arguments.sources.cluster_name()).filter(|name| !name.is_empty());
    let faults = |class: &serde_json::Value| faults(class, cluster);
    let (found, unknown) =
        lint(reading, Some(&offerings), &label_registry(), &faults, world.gates(), world.at());
    notes.extend(unknown);
    let text = match arguments.output {
        Output::Text => arguments.colour.look().dress(&lint_text(&found)),
        Output::Json => json(&LintReport { findings: &found })?,
        Output::Github => lint_annotations(&found),
        Output::Sarif => serde_json::to_string_pretty(&lint_sarif(&found))? + "\n",
    };
    Ok(Linted { text, notes, code: if found.is_empty() { 0 } else { 2 } })
}

/// Returns the exit code for a file with this text.
#[cfg(test)]
#[cfg(feature = "demo")]
pub(crate) async fn code_of(text: &str) -> u8 {
    tests::of_file(text).await.code
}

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    pub(super) async fn of_file(text: &str) -> Linted {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pool.yaml");
        std::fs::write(&file, text).unwrap();
        let line = Line::parse_from(["lint".as_ref(), "-f".as_ref(), file.as_os_str()]);
        linted(&line.arguments).await.unwrap()
    }

    #[tokio::test]
    async fn the_exit_code_says_whether_something_was_found() {
        let good = include_str!("../../../../docs/examples/nodepool.yaml");
        let wrong = good.replace("consolidateAfter:", "consolidateafter:");
        for (text, code, finds) in [(good.to_owned(), 0, "Nothing found."), (wrong, 2, "unknown-field")] {
            let linted = of_file(&text).await;
            assert_eq!(linted.code, code, "{}", linted.text);
            assert!(linted.text.contains(finds), "{}", linted.text);
        }
    }

    #[tokio::test]
    async fn a_finding_is_at_its_field_and_a_bad_file_is_one_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let good = include_str!("../../../../docs/examples/nodepool.yaml");
        let wrong = good.replace("consolidateAfter:", "consolidateafter:");
        let line = 1 + wrong.lines().position(|line| line.contains("consolidateafter:")).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.yaml", b"kind: Pod\nmetadata:\n  name: a\n  name: b\n");
        write("b.yaml", &[0xff, 0xfe, 0x00]);
        write("c.yaml", wrong.as_bytes());
        let of = |output: &str| {
            let words = ["lint", "-f", &folder.path().display().to_string(), "-o", output].map(str::to_owned);
            Line::parse_from(words).arguments
        };
        let text = linted(&of("text")).await.unwrap();
        assert_eq!(text.code, 2);
        let places = [("a.yaml", 4), ("b.yaml", 1), ("c.yaml", line)];
        for (file, line) in places {
            assert!(text.text.contains(&format!("{file}:{line}\n")), "{file}:{line} {}", text.text);
        }
        assert_eq!(text.text.matches("(malformed)").count(), 2, "{}", text.text);
        let github = linted(&of("github")).await.unwrap().text;
        assert!(github.contains(&format!("c.yaml,line={line},title=NodePool/general")), "{github}");
        let json: serde_json::Value = serde_json::from_str(&linted(&of("json")).await.unwrap().text).unwrap();
        assert_eq!(json["formatVersion"], "1.0");
        let sarif = linted(&of("sarif")).await.unwrap().text;
        assert!(sarif.contains("\"startLine\""), "{sarif}");
    }

    #[tokio::test]
    async fn notes_that_reading_produced_are_passed_on() {
        let pool = include_str!("../../../../docs/examples/nodepool.yaml");
        let linted =
            of_file(&format!("{pool}---\n{{apiVersion: a.b/v1, kind: Other, metadata: {{name: a}}}}\n"))
                .await;
        assert_eq!(linted.code, 0, "{}", linted.text);
        for part in ["no account was asked", "node class `default`", "kind `Other` of group `a.b`: "] {
            assert!(linted.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", linted.notes);
        }
    }
}
