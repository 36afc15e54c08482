//! `karpenter convert`: manifests and chart values of older versions, as those of v1.
//!
//! Manifests go to standard output and the report to standard error, so that the output can be piped into `kubectl apply`.

mod live;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_convert::{Conversion, Input, Options, convert, convert_values, read};
use karpenter_telemetry::stdout::print;

use crate::api_server;
use crate::output::{Output, json, note};

/// Arguments of `karpenter convert`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 everything has an equivalent, 1 an input could not be read and nothing was printed, \
                  2 something was dropped or refused, 3 something is left for you to decide.\n\n\
                  For files: karpenter convert -f old/ > new.yaml\n\
                  For objects of a cluster: karpenter convert --live, which needs permission to list them"
)]
pub(crate) struct Arguments {
    /// Manifests to convert: a file, a folder with everything in it, or - for standard input (repeatable); objects of
    /// other kinds are printed unchanged
    #[arg(
        short,
        long,
        value_name = "PATH",
        required_unless_present_any = ["helm_values", "live"],
        conflicts_with = "helm_values"
    )]
    filename: Vec<PathBuf>,
    /// Convert the pools and node classes of the cluster in the kubeconfig that are of an old version; reads only
    #[arg(long, conflicts_with_all = ["filename", "helm_values", "fix"])]
    live: bool,
    /// With --live, also convert workloads that select nodes by old label names
    #[arg(long, requires = "live")]
    workloads: bool,
    /// Convert this file of Helm chart values instead of manifests; - is standard input
    #[arg(long, value_name = "PATH")]
    helm_values: Option<PathBuf>,
    /// Correct tabs, quotes and indentation of manifests copied from a web page, where that is unambiguous
    #[arg(long)]
    fix: bool,
    /// Name of the EKS cluster; its discovery tag selects subnets and security groups where an old object selects none
    #[arg(long)]
    cluster_name: Option<String>,
    /// Node role for node classes that name neither a role nor an instance profile
    #[arg(long, conflicts_with = "instance_profile")]
    role: Option<String>,
    /// Instance profile for node classes that name neither; the old setting `aws.defaultInstanceProfile`
    #[arg(long)]
    instance_profile: Option<String>,
    /// How to print the report, which goes to standard error
    // It was called `--report` once.
    #[arg(short, long, alias = "report", value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Converts, prints manifests and report, and returns the result as exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Conversion { manifests, report } = match &arguments.helm_values {
        Some(path) => {
            let inputs = read(std::slice::from_ref(path))?;
            let input: &Input =
                inputs.texts.first().context("cannot convert values: the folder has no file; name one")?;
            convert_values(input)
        }
        None if arguments.live => {
            let options = arguments.options();
            convert(&of_cluster(arguments.workloads, &options)?, &options)
        }
        None => {
            let inputs = read(&arguments.filename)?;
            note(inputs.note().as_slice())?;
            convert(&inputs.texts, &arguments.options())
        }
    };
    print(&manifests)?;
    let said = match arguments.output {
        Output::Text => report.text(),
        Output::Json => json(&report.counted())?,
    };
    std::io::stderr().write_all(said.as_bytes()).context("cannot write to standard error")?;
    Ok(ExitCode::from(report.exit_code()))
}

fn of_cluster(workloads: bool, options: &Options) -> Result<Vec<Input>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = api_server::client().await?;
        live::read(&client, workloads, options).await
    })
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            fix: self.fix,
            cluster_name: self.cluster_name.clone(),
            role: self.role.clone(),
            instance_profile: self.instance_profile.clone(),
        }
    }
}
