//! `cargo xtask`: the rules of this repository, checked by machine, and its generated files.
//!
//! Everything a reviewer would otherwise have to remember is here: who may depend on whom, that no source
//! file is forgotten, that files stay readable.

#[cfg(test)]
mod events;
mod generate;
#[cfg(test)]
mod image;
mod instance_types;
#[cfg(test)]
mod observability;
#[cfg(test)]
mod rights;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer tasks of the karpenter repository.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks the repository's rules; prints every violation and fails if there is one.
    Tidy,
    /// Writes the files that come from the code; with `--check` only says which are stale.
    Generate {
        /// Write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Writes the table of instance types from an answer of `DescribeInstanceTypes`, as JSON.
    InstanceTypes {
        /// File with the answer of the largest region, all pages.
        answer: PathBuf,
        /// Where and when it was recorded, a sentence for the head of the table.
        #[arg(long)]
        source: String,
    },
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Tidy => tidy::run(&repository_root()),
        Task::Generate { check: true } => generate::check(&repository_root()),
        Task::Generate { check: false } => generate::write(&repository_root()),
        Task::InstanceTypes { answer, source } => {
            instance_types::record(&repository_root(), &answer, &source).map(|()| Vec::new())
        }
    };
    match outcome {
        Ok(violations) if violations.is_empty() => ExitCode::SUCCESS,
        Ok(violations) => {
            report(&violations);
            ExitCode::FAILURE
        }
        Err(error) => {
            report(&[format!("{error:#}")]);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a developer's tool speaks on the terminal")]
fn report(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// The workspace root: two levels above this crate's manifest.
fn repository_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
