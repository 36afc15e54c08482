//! `karpenter version` and `karpenter man`: the program about itself.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use karpenter_telemetry::stdout::print;
use serde_json::{Value, json};

use crate::output::Output;

/// Releases of the reference whose place this one takes.
const COMPATIBLE: [&str; 2] = ["v1.14", "v1.15"];

/// Prints the version.
pub(crate) fn version(output: Output) -> Result<ExitCode> {
    let about = about();
    let text = |field: &str| about[field].as_str().unwrap_or("-").to_owned();
    print(&match output {
        Output::Json => format!("{about:#}\n"),
        Output::Text => format!(
            "karpenter {}\ncommit {}\ntakes the place of Karpenter {}\n",
            text("version"),
            text("commit"),
            COMPATIBLE.join(" and ")
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The version, the commit it was built from, `null` where the build does not name one, and the releases it is compatible with.
fn about() -> Value {
    json!({
        "formatVersion": karpenter_plan::FORMAT_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("KARPENTER_COMMIT"),
        "compatibleWith": COMPATIBLE,
    })
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
    fn the_version_is_an_object_for_scripts() {
        let about = about();
        assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(about["compatibleWith"], json!(["v1.14", "v1.15"]));
    }

    #[test]
    fn every_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        let command = clap::Command::new("karpenter").subcommand(clap::Command::new("plan").about("looks"));
        man(command, &folder.path().join("man1")).unwrap();
        let page = std::fs::read_to_string(folder.path().join("man1/karpenter-plan.1")).unwrap();
        assert!(page.contains("looks"), "{page}");
    }
}
