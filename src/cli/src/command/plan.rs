//! `karpenter plan`: what would be launched, replaced and removed now, and why; nothing is changed.

mod admit;
mod cluster;
mod gather;
mod settings;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use karpenter_model::{PoolName, Zone};
use karpenter_plan::{FailOn, PriceChange, Reading, WhatIf, refused_lines};
use karpenter_telemetry::stdout::print;

use crate::api_server;
use crate::output::{Colour, Status, json};
use gather::read_files;
pub(crate) use gather::{Gathered, OfferedBy, Sources, in_memory};
pub(crate) use settings::NO_NAME;

/// Arguments of `karpenter plan`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 nothing would change, 1 no plan could be made, 2 nodes would change, \
                        3 pods would stay pending, 4 nodes may drift, which cannot be known from here; with --fail-on: \
                        0 no condition is true, 5 one is.\n\n\
                        To see what a change would do: karpenter plan --what-if pool.yaml\n\
                        Without a cluster: karpenter plan -f manifests/\n\
                        For a pull request: karpenter plan --what-if pool.yaml --output markdown > comment.md\n\
                        As a page with a picture: karpenter plan --output html > plan.html\n\
                        As a gate: karpenter plan --what-if pool.yaml --fail-on new-pending --fail-on cost=+10%\n\
                        For a bug report: karpenter export --anonymize > export.yaml; karpenter plan -f export.yaml")]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Plan as if these manifests were applied: pods, workloads, NodePools, EC2NodeClasses; takes the same as
    /// --filename
    #[arg(long, value_name = "PATH", num_args = 1..)]
    what_if: Vec<PathBuf>,
    /// Admit the pods of --what-if by the rules of Kubernetes, or by the API server: it is asked to create one of each with
    /// dryRun=All, so that additions of its webhooks count, which needs permission to create pods
    #[arg(long, value_enum, value_name = "BY", default_value_t = AdmitBy::Rules)]
    admit: AdmitBy,
    /// Plan as if this pool were deleted, and its nodes with it: nodepool/NAME (repeatable)
    #[arg(long, value_name = "OBJECT", value_parser = pool_name)]
    delete: Vec<PoolName>,
    /// Plan as if this zone and everything in it were gone (repeatable)
    #[arg(long, value_name = "ZONE")]
    without_zone: Vec<String>,
    /// Plan with changed prices, of a capacity type or an instance type: spot=150%, on-demand=90%, m7g.large=200%
    /// (repeatable)
    #[arg(long, value_name = "OF=PERCENT")]
    price: Vec<PriceChange>,
    /// Exit with 5 when this condition is true, else with 0: new-pending, removals, drift, changes, cost=+10% (repeatable).
    /// With --what-if, --delete, --without-zone or --price only their effects count
    #[arg(long, value_name = "CONDITION")]
    fail_on: Vec<FailOn>,
    /// Print, of pods and of nodes launched for them, those of this namespace; the plan is for all pods, and so are prices and
    /// nodes that go
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Print everything that was compared for each reason, not the conflict alone
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    colour: Colour,
}

/// Judge of what admission makes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AdmitBy {
    /// The rules of Kubernetes itself
    Rules,
    /// The API server of the cluster, with its webhooks
    Server,
}

/// Reader of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text for people
    Text,
    /// JSON for tools
    Json,
    /// One self-contained page for a browser, with a picture of the nodes
    Html,
    /// Markdown for a comment on a pull request
    Markdown,
}

/// Plans, prints, and returns as exit code whether something would change.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (text, code) = runtime.block_on(planned(arguments))?;
    print(&text)?;
    Ok(ExitCode::from(code))
}

/// Returns the plan of these sources for people.
pub(super) async fn text_of(sources: &Sources) -> Result<String> {
    let Gathered { world, offerings, notes, .. } = sources.gather(WhatIf::default()).await?;
    Ok(world.forecast(&offerings, notes).text())
}

pub(super) async fn planned(arguments: &Arguments) -> Result<(String, u8)> {
    let (reading, skipped) = read_files(&arguments.what_if)?;
    storable(&reading)?;
    let mut manifests: Vec<_> = reading.manifests.into_iter().map(|manifest| manifest.object).collect();
    let asked = match arguments.admit {
        AdmitBy::Rules => Vec::new(),
        AdmitBy::Server => {
            ensure!(
                arguments.sources.filename.is_empty() && !manifests.is_empty(),
                "cannot use `--admit server` without a cluster and --what-if: other pods are admitted already, or no API server \
                 is asked; name the manifests with --what-if alone"
            );
            admit::by_server(&api_server::client().await?, &mut manifests).await?
        }
    };
    let what_if = WhatIf {
        manifests,
        deleted_pools: arguments.delete.clone(),
        lost_zones: arguments.without_zone.iter().map(|zone| Zone::from(zone.as_str())).collect(),
        prices: arguments.price.clone(),
    };
    let Gathered { world, offerings, before, mut notes, .. } = arguments.sources.gather(what_if).await?;
    notes.extend(asked.into_iter().chain(skipped));
    let planning = Status::begin("planning");
    let mut forecast = world.forecast(&offerings, notes);
    if let Some((before, offerings)) = before {
        forecast = forecast.against(&before.forecast(&offerings, Vec::new()), assumed(arguments));
    }
    if let Some(namespace) = &arguments.namespace {
        forecast = forecast.of_namespace(namespace);
    }
    drop(planning);
    let text = match arguments.output {
        Output::Text => {
            let text = if arguments.verbose { forecast.verbose_text() } else { forecast.text() };
            arguments.colour.look().dress(&text)
        }
        Output::Json => json(&forecast)?,
        Output::Html => forecast.html(arguments.sources.cluster_name()),
        Output::Markdown => forecast.markdown(arguments.sources.cluster_name()),
    };
    if arguments.fail_on.is_empty() {
        return Ok((text, forecast.verdict.exit_code()));
    }
    let failures: Vec<String> =
        arguments.fail_on.iter().filter_map(|condition| condition.failure(&forecast)).collect();
    let lines: String = failures.iter().map(|failure| format!("fails on {failure}\n")).collect();
    std::io::stderr().write_all(lines.as_bytes()).context("cannot write to standard error")?;
    Ok((text, if failures.is_empty() { 0 } else { FailOn::EXIT_CODE }))
}

/// Refuses files that cannot be read, and manifests that an API server would refuse: nothing of them would come true. Objects
/// of a cluster are stored already.
fn storable(reading: &Reading) -> Result<()> {
    let lines = refused_lines(reading);
    ensure!(
        lines.is_empty(),
        "cannot plan with manifests that an API server refuses; correct them, or leave them out:\n  {}",
        lines.join("\n  ")
    );
    Ok(())
}

/// The change that is planned for, a sentence for each flag.
fn assumed(arguments: &Arguments) -> Vec<String> {
    let files = arguments.what_if.iter().map(|path| format!("`{}` is applied", path.display()));
    let zones = arguments.without_zone.iter().map(|zone| format!("zone `{zone}` is gone"));
    let prices = arguments.price.iter().map(|change| format!("{change} of its price"));
    let pools = arguments.delete.iter().map(|pool| format!("pool `{pool}` is deleted"));
    files.chain(pools).chain(zones).chain(prices).collect()
}

/// Reads the pool of `--delete`, in the words of kubectl.
fn pool_name(written: &str) -> Result<PoolName, String> {
    let name = ["nodepool/", "nodepools/"].into_iter().find_map(|kind| written.strip_prefix(kind));
    name.filter(|name| !name.is_empty())
        .map(PoolName::from)
        .ok_or_else(|| "only the deletion of a pool is planned; write nodepool/NAME".to_owned())
}

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests;
