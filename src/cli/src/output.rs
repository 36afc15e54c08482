//! Output of commands that report: for whom they print, and what they print to standard error.

use std::io::Write;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// Reader of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    Text,
    /// JSON for tools
    Json,
}

/// Writes notes to standard error, one line each.
pub(crate) fn note(notes: &[String]) -> Result<()> {
    let lines: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    std::io::stderr().write_all(lines.as_bytes()).context("cannot write to standard error")
}
