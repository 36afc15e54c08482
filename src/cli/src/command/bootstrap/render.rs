//! `karpenter bootstrap render`: the prerequisites in the words of other tools. Asks no account unless it must.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use karpenter_bootstrap::render::{cloudformation, eksctl, iam_json, terraform};

use super::{account, print};
use crate::flags::bootstrap::BootstrapFlags;

/// Arguments of `karpenter bootstrap render`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// The CloudFormation template, the same for every cluster
    Cloudformation,
    /// The template's parameters for one cluster, as `aws cloudformation deploy --parameter-overrides` takes them
    CloudformationParameters {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
    /// The documents that the Terraform module reads
    TerraformPolicies {
        /// Write them into this folder instead of printing them
        #[arg(long, value_name = "FOLDER")]
        directory: Option<PathBuf>,
    },
    /// Every document of one cluster, filled in; needs no credentials with --account and --region
    IamJson {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
    /// The part of an eksctl configuration that concerns Karpenter; needs no credentials with --account and --region
    Eksctl {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
}

/// Prints what was asked for.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.tool {
        Tool::Cloudformation => print(&cloudformation::template())?,
        Tool::CloudformationParameters { flags } => {
            let settings = account::settings(&flags).await?;
            for (name, value) in cloudformation::parameters(&settings) {
                print(&format!("{name}={value}\n"))?;
            }
        }
        Tool::TerraformPolicies { directory: Some(folder) } => {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create `{}`", folder.display()))?;
            for (name, content) in terraform::files() {
                let path = folder.join(name);
                std::fs::write(&path, content)
                    .with_context(|| format!("cannot write `{}`", path.display()))?;
            }
        }
        Tool::TerraformPolicies { directory: None } => {
            for (name, content) in terraform::files() {
                print(&format!("# {name}\n{content}\n"))?;
            }
        }
        Tool::IamJson { flags } => {
            print(&format!("{:#}\n", iam_json::document(&account::settings(&flags).await?)))?;
        }
        Tool::Eksctl { flags } => print(&eksctl::config(&account::settings(&flags).await?))?,
    }
    Ok(ExitCode::SUCCESS)
}
