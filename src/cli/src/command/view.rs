//! `karpenter view`: what happens in a cluster, as a timeline, for as long as one likes to watch.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_aws::market::prices::Prices;
use karpenter_aws_sdk as sdk;
use karpenter_compose::WallClock;

use crate::timeline::{self, PriceBook, Printer};

/// Arguments of `karpenter view`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Show what instances cost; asks the AWS price list once
    #[arg(long)]
    prices: bool,
}

/// Follows the cluster of the current kubeconfig until Ctrl-C.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client =
            kube::Client::try_default().await.context("cannot find out how to reach the API server")?;
        let prices =
            if arguments.prices { price_book().await? } else { Arc::new(|_: &str, _: &str, _: &str| None) };
        tokio::select! {
            outcome = timeline::follow(client, prices, Printer::start()) => outcome,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn price_book() -> Result<PriceBook> {
    let clients = sdk::connect(sdk::Config::default()).await.context("cannot set up the AWS clients")?;
    let prices = Prices::new(clients, Arc::new(WallClock), false);
    prices.refresh_on_demand().await.context("cannot read the AWS price list")?;
    prices.refresh_spot().await.context("cannot read the history of spot prices")?;
    Ok(Arc::new(move |instance_type, zone, capacity| match capacity {
        "on-demand" => prices.book().on_demand(instance_type).map(|known| known.price),
        "spot" => prices.book().spot(instance_type, zone).map(|known| known.price),
        _ => None,
    }))
}
