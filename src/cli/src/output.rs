//! What commands that report have in common: for whom they print, and where.

use std::io::Write;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// For whom a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// JSON for tools
    Json,
}

/// Writes all of `text` to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Writes notes to standard error, one line each.
pub(crate) fn note(notes: &[String]) -> Result<()> {
    let lines: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    std::io::stderr().write_all(lines.as_bytes()).context("cannot write to standard error")
}
