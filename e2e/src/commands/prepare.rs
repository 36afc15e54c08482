//! `karpenter-e2e prepare`: builds or finds everything, and prints where it is.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::engine::localstack_image::localstack_image;
use karpenter_e2e::engine::node_image::node_image;
use karpenter_e2e::engine::{Choice, Engine};
use karpenter_e2e::prepare::{self, Release};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Leave out the Python environment of the emulated AWS account.
    #[arg(long)]
    no_account: bool,
    /// Also everything that a kind cluster needs; on an engine of our own that includes the image of its nodes.
    #[arg(long)]
    containers: bool,
    /// Also the control plane of another release of Kubernetes, e.g. 1.33.2, whose folder is printed: local clusters are made of
    /// it where `KUBEBUILDER_ASSETS` names that folder.
    #[arg(long, value_name = "RELEASE")]
    kubernetes: Option<Release>,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let found = tokio::task::block_in_place(|| programs(arguments))?;
    let images = if arguments.containers { images().await? } else { Vec::new() };
    let mut out = std::io::stdout().lock();
    let found = found.into_iter().map(|(name, path)| (name, path.display().to_string()));
    for (name, what) in found.chain(images) {
        writeln!(out, "{name:<24} {what}").context("write to standard output")?;
    }
    Ok(())
}

fn programs(arguments: &Arguments) -> Result<Vec<(&'static str, PathBuf)>> {
    // Python's packages come one after the other, which leaves cores to the compiler of Go.
    std::thread::scope(|scope| {
        let python = (!arguments.no_account).then(|| scope.spawn(prepare::python));
        let mut found = compiled(arguments)?;
        if let Some(python) = python {
            let python = python.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found.push(("python", python?));
        }
        Ok(found)
    })
}

fn compiled(arguments: &Arguments) -> Result<Vec<(&'static str, PathBuf)>> {
    let binaries = prepare::binaries()?;
    let mut found = vec![
        ("etcd", binaries.etcd),
        ("kube-apiserver", binaries.kube_apiserver),
        ("kube-scheduler", binaries.kube_scheduler),
        ("kube-controller-manager", binaries.kube_controller_manager),
        ("helm", prepare::helm()?),
        ("aws-provider", prepare::aws_provider()?.mirror),
    ];
    if let Some(release) = arguments.kubernetes {
        found.push(("KUBEBUILDER_ASSETS", prepare::control_plane_of(release)?));
    }
    if arguments.containers {
        found.push(("kind", prepare::kind()?));
    }
    Ok(found)
}

async fn images() -> Result<Vec<(&'static str, String)>> {
    let engine = Engine::start(Choice::from_environment()?).await?;
    let (node, localstack) = (node_image(&engine).await, localstack_image(&engine).await);
    engine.stop().await?;
    let node = node?.unwrap_or_else(|| "kind's own, pulled when it is needed".to_owned());
    Ok(vec![("image of a kind node", node), ("image of LocalStack", localstack?)])
}
