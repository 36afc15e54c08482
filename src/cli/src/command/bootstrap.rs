//! `karpenter bootstrap`: the account's prerequisites, planned, applied or removed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use karpenter_aws_client::{Clients, Partition, sdk};
use karpenter_bootstrap::apply::apply;
use karpenter_bootstrap::desired::{Desired, desired};
use karpenter_bootstrap::destroy::destroy;
use karpenter_bootstrap::observe::observe;
use karpenter_bootstrap::plan::{Plan, plan};
use karpenter_bootstrap::{Settings, show};

use crate::flags::bootstrap::BootstrapFlags;

/// Exit code of `plan` when the account is not yet as it should be; 1 is kept for failures.
const DIFFERENCES: u8 = 2;

/// Arguments of `karpenter bootstrap`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what the account lacks and change nothing; exit code 0: nothing, 2: something
    Plan {
        #[command(flatten)]
        flags: BootstrapFlags,
        /// How to print the plan
        #[arg(long, default_value = "text")]
        output: Output,
    },
    /// Create and repair what the account lacks; run again at any time
    Apply {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
    /// Remove what bootstrap made for the cluster, and nothing else
    Destroy {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line per step.
    Text,
    /// An object for tools.
    Json,
}

/// Runs the chosen action.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.action {
            Action::Plan { flags, output } => show_plan(&flags, output).await,
            Action::Apply { flags } => carry_out(&flags, plan).await,
            Action::Destroy { flags } => carry_out(&flags, destroy).await,
        }
    })
}

async fn show_plan(flags: &BootstrapFlags, output: Output) -> Result<ExitCode> {
    let account = Account::open(flags).await?;
    let plan = account.plan(plan).await?;
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::text(&plan)))?,
        Output::Json => print(&format!("{}\n", show::json(&plan)))?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Makes a plan with `planner`, shows it, and carries it out with a line per finished step.
async fn carry_out(
    flags: &BootstrapFlags,
    planner: fn(&Settings, &Desired, &karpenter_bootstrap::observe::Observed) -> Plan,
) -> Result<ExitCode> {
    let account = Account::open(flags).await?;
    let plan = account.plan(planner).await?;
    print(&format!("{}{}", account.heading(), show::text(&plan)))?;
    let mut done = 0;
    let total = plan.steps.len();
    let mut progress = |step: &karpenter_bootstrap::step::Step| {
        done += 1;
        // The work goes on even when nobody reads about it any more.
        let _ = print(&format!("[{done}/{total}] {}\n", show::sentence(step)));
    };
    apply(&account.clients, &account.settings.cluster, &plan, &mut progress).await?;
    Ok(ExitCode::SUCCESS)
}

/// An account that was reached, with the settings that fit it.
struct Account {
    clients: Clients,
    settings: Settings,
}

impl Account {
    async fn open(flags: &BootstrapFlags) -> Result<Self> {
        let config = sdk::Config {
            region: flags.region.clone(),
            endpoint_url: flags.endpoint_url.clone(),
            ..sdk::Config::default()
        };
        let clients = sdk::connect(config).await.context("cannot set up the AWS clients")?;
        let identity =
            clients.sts.get_caller_identity().await.context("cannot tell which AWS account this is")?;
        let cluster = clients.eks.describe_cluster(&flags.cluster_name).await?;
        let partition = Partition::of_region(&clients.region);
        let settings = flags.settings(&identity.account, &clients.region, partition, &cluster)?;
        Ok(Self { clients, settings })
    }

    async fn plan(
        &self,
        planner: fn(&Settings, &Desired, &karpenter_bootstrap::observe::Observed) -> Plan,
    ) -> Result<Plan> {
        let desired = desired(&self.settings);
        let observed = observe(&self.clients, &self.settings, &desired).await?;
        Ok(planner(&self.settings, &desired, &observed))
    }

    fn heading(&self) -> String {
        format!(
            "cluster {} in {}, account {}\n",
            self.settings.cluster, self.settings.region, self.settings.account
        )
    }
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}
