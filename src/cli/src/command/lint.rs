//! `karpenter lint`: what manifests or a cluster say that cannot be meant.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_aws::registry::label_registry;
use karpenter_plan::{WhatIf, lint, lint_text};

use super::plan::{Gathered, Sources};
use crate::output::{Output, print};

/// Arguments of `karpenter lint`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 nothing found, 1 it could not be looked at, 2 something was found.\n\n\
                        In CI: karpenter lint -f manifests/"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// How to print findings
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Looks, prints, and says by the exit code whether something was found.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (text, code) = runtime.block_on(linted(arguments))?;
    print(&text)?;
    Ok(ExitCode::from(code))
}

async fn linted(arguments: &Arguments) -> Result<(String, u8)> {
    let Gathered { objects, world, offerings, .. } = arguments.sources.gather(WhatIf::default()).await?;
    let found = lint(objects, Some(&offerings), &label_registry(), world.at());
    let text = match arguments.output {
        Output::Text => lint_text(&found),
        Output::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    Ok((text, if found.is_empty() { 0 } else { 2 }))
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

    #[tokio::test]
    async fn the_exit_code_says_whether_something_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pool.yaml");
        let good = include_str!("../../../../docs/examples/nodepool.yaml");
        let wrong = good.replace("consolidateAfter:", "consolidateafter:");
        for (text, code, finds) in [(good.to_owned(), 0, "Nothing found."), (wrong, 2, "unknown-field")] {
            std::fs::write(&file, text).unwrap();
            let line = Line::parse_from(["lint".as_ref(), "-f".as_ref(), file.as_os_str()]);
            let (text, found) = linted(&line.arguments).await.unwrap();
            assert_eq!(found, code, "{text}");
            assert!(text.contains(finds), "{text}");
        }
    }
}
