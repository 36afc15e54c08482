//! `karpenter version` and `karpenter man`: the program about itself.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use karpenter_telemetry::stdout::print;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Output, json};

/// The program.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    version: &'static str,
    /// Commit it was built from; `null` where the build does not name one.
    commit: Option<&'static str>,
    /// Releases of Karpenter whose place it takes.
    compatible_with: [&'static str; 2],
}

const ABOUT: About = About {
    version: env!("CARGO_PKG_VERSION"),
    commit: option_env!("KARPENTER_COMMIT"),
    compatible_with: ["v1.14", "v1.15"],
};

/// Prints the version.
pub(crate) fn version(output: Output) -> Result<ExitCode> {
    let About { version, commit, compatible_with } = ABOUT;
    print(&match output {
        Output::Json => json(&ABOUT)?,
        Output::Text => format!(
            "karpenter {version}\ncommit {}\ntakes the place of Karpenter {}\n",
            commit.unwrap_or("-"),
            compatible_with.join(" and ")
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for `command` and for each of its commands into `folder`.
pub(crate) fn man(command: clap::Command, folder: &Path) -> Result<ExitCode> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.with_context(|| format!("cannot write man pages to `{}`; name a folder", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        let command = clap::Command::new("karpenter").subcommand(clap::Command::new("plan").about("looks"));
        man(command, &folder.path().join("man1")).unwrap();
        let page = std::fs::read_to_string(folder.path().join("man1/karpenter-plan.1")).unwrap();
        assert!(page.contains("looks"), "{page}");
    }
}
