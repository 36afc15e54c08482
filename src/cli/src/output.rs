//! Output of commands that report: for whom they print, how it looks, and what they print to standard error.

mod status;

use std::io::{IsTerminal as _, Write};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use karpenter_plan::Look;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use status::Status;

/// Version of the JSON of all reports.
const FORMAT_VERSION: &str = "1.0";

/// Reader of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    Text,
    /// JSON for tools
    Json,
}

/// A report as JSON.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Versioned<T> {
    /// Version of the form: fields are added under the same major version, and changed or removed under another.
    format_version: &'static str,
    #[serde(flatten)]
    report: T,
}

impl<T> Versioned<T> {
    /// The report with the version of its form.
    pub(crate) const fn of(report: T) -> Self {
        Self { format_version: FORMAT_VERSION, report }
    }
}

/// Returns the report as JSON with the version of its form.
pub(crate) fn json(report: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(&Versioned::of(report))? + "\n")
}

/// Writes notes to standard error, one line each.
pub(crate) fn note(notes: &[String]) -> Result<()> {
    let lines: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    std::io::stderr().write_all(lines.as_bytes()).context("cannot write to standard error")
}

/// Choice of colours for text.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Colour {
    /// Colour text; auto is for a terminal without the environment variable `NO_COLOR`
    #[arg(long = "color", value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Colour {
    /// Look of text on standard output: colours as they were asked for, lines as wide as the terminal, if it is one.
    pub(crate) fn look(self) -> Look {
        let is_terminal = std::io::stdout().is_terminal();
        let variable = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = self.colours(is_terminal && !is_dumb && !variable("NO_COLOR"));
        let width = is_terminal.then(karpenter_view::terminal_width).flatten();
        Look { colour, width: width.map(usize::from) }
    }

    /// Returns whether text is coloured where a terminal alone would be a reason to, or not.
    fn colours(self, suits: bool) -> bool {
        match self.when {
            When::Auto => suits,
            When::Always => true,
            When::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_asked_for() {
        let colours = |when, suits| Colour { when }.colours(suits);
        assert!(colours(When::Auto, true) && !colours(When::Auto, false));
        assert!(colours(When::Always, false) && !colours(When::Never, true));
    }
}
