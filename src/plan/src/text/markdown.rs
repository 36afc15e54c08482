//! A forecast as Markdown, for a comment on a pull request: the verdict, the numbers, and everything else folded.
//!
//! Names from the cluster stand between backticks or in a block of code, so that none of them is markup.

use std::fmt::Write as _;

use super::{count, headline, second, summary};
use crate::forecast::{Forecast, Verdict};
use crate::money::{hourly, known_as, monthly};

/// GitHub refuses a comment of more than 65,536 characters; this much of the text leaves room for the rest.
const TEXT: usize = 50_000;
/// Pods with their reasons that are shown without unfolding.
const SHOWN: usize = 5;

impl Forecast {
    /// The forecast as a comment; `cluster` is its name, if it has one.
    pub fn markdown(&self, cluster: &str) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut out, cluster);
        out
    }

    fn write_markdown(&self, out: &mut String, cluster: &str) -> std::fmt::Result {
        let of = if cluster.is_empty() { String::new() } else { format!(" for cluster {}", code(cluster)) };
        writeln!(out, "### Karpenter plan{of}\n\n{} **{}**\n", mark(self.verdict), headline(self))?;
        if let Some(because) = &self.because {
            writeln!(out, "This change makes {}.\n", because.effects())?;
        }
        let Self { price, .. } = self;
        writeln!(out, "| | now | after |\n|---|---|---|")?;
        for (period, write) in [("hour", hourly as fn(_) -> String), ("month", monthly)] {
            let (now, after) = (known_as(price.known_now(), write), known_as(price.known_after(), write));
            writeln!(out, "| cost per {period} | {now} | {after} |")?;
        }
        let (now, after) = (self.picture.now.len(), self.picture.after.len());
        writeln!(out, "| nodes | {now} | {after} |\n\n{}.", capital(&summary(self)))?;
        if price.unknown_nodes > 0 {
            writeln!(out, "Costs exclude {} of unknown price.", count(price.unknown_nodes, "node"))?;
        }
        for waiting in self.pending.iter().take(SHOWN) {
            write!(out, "\n- {} would stay pending", code(&waiting.pod))?;
            if let Some(why) = waiting.reasons.first() {
                let pool = why.pool.as_ref().map(|pool| format!("pool `{pool}`: ")).unwrap_or_default();
                write!(out, ": {pool}{}", escaped(why.said(false)))?;
            }
            writeln!(out)?;
            for help in waiting.help.iter().take(1) {
                writeln!(out, "  - would help: {}", escaped(help))?;
            }
        }
        if let Some(because) = self.because.as_ref().filter(|because| !because.assumed.is_empty()) {
            let assumed: Vec<String> = because.assumed.iter().map(|one| escaped(one)).collect();
            writeln!(out, "\nAssumed: {}.", assumed.join("; "))?;
        }
        let text = self.text();
        let cut = text.char_indices().nth(TEXT).map_or(text.len(), |(at, _)| at);
        let rest =
            if cut < text.len() { "\n... the rest is left out: a comment has room for no more" } else { "" };
        writeln!(out, "\n<details><summary>The whole plan, made at {}</summary>\n", second(self.at))?;
        // Longer than any row of backticks in the text, which has single ones.
        writeln!(out, "````text\n{}{rest}\n````\n\n</details>", text[..cut].trim_end())
    }
}

const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unchanged => "✅",
        Verdict::Unknown => "❔",
        Verdict::Changes => "🔶",
        Verdict::PodsWait => "❌",
    }
}

fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// Text whose backticks are markup and nothing else is.
fn escaped(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for letter in text.chars() {
        inside ^= letter == '`';
        if !inside && matches!(letter, '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#' | '\\' | '@') {
            out.push('\\');
        }
        out.push(if letter.is_control() { ' ' } else { letter });
    }
    out
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
