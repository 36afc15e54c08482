//! What commands that report have in common: for whom they print, and where.

use std::fmt;
use std::io::{ErrorKind, Write};

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

/// Standard output is closed: what read it, `head` for one, has what it wanted. No failure to tell of.
#[derive(Debug)]
pub(crate) struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for Closed {}

/// Writes all of `text` to standard output. [`Closed`] if it is closed.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes notes to standard error, one line each.
pub(crate) fn note(notes: &[String]) -> Result<()> {
    let lines: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    std::io::stderr().write_all(lines.as_bytes()).context("cannot write to standard error")
}
