//! What commands that report have in common: for whom they print, and what goes to standard error.

use std::io::Write;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// For whom a report is.
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
