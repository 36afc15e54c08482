//! The flags that choose a cluster and an account, and how to reach a world that stands.

use std::fmt;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::machines::Pace;
use karpenter_e2e::world::{self, Options, Site, World};
use karpenter_e2e::{account, cluster, controller};

/// Of what a world consists.
#[derive(Args, Clone)]
pub(crate) struct Choices {
    /// `local`: etcd, API server, scheduler and controller manager as processes. `kind`: a kind cluster, made and
    /// deleted again. `kubeconfig=FILE`: a cluster without Karpenter that is there, and is left as it was.
    #[arg(long, default_value = "local", value_name = "CLUSTER")]
    cluster: ClusterChoice,
    /// `moto`: the launcher of `localstack/`, a process. `localstack`: the container with the same inside.
    /// `endpoint=URL`: an emulator that runs already, with a fresh account.
    #[arg(long, default_value = "moto", value_name = "ACCOUNT")]
    aws: AccountChoice,
    /// How the controller runs. `process`: on this machine. `chart`: in the cluster, installed with Helm; for `kind` with
    /// `moto` or `localstack`.
    #[arg(long, default_value = "process", value_name = "HOW", hide_possible_values = true)]
    controller: controller::Choice,
}

#[derive(Clone)]
enum ClusterChoice {
    Local,
    Kind,
    Kubeconfig(PathBuf),
}

impl FromStr for ClusterChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match (text, text.split_once('=')) {
            ("local", _) => Ok(Self::Local),
            ("kind", _) => Ok(Self::Kind),
            (_, Some(("kubeconfig", file))) if !file.is_empty() => Ok(Self::Kubeconfig(file.into())),
            _ => Err("it may be `local`, `kind` or `kubeconfig=FILE`".to_owned()),
        }
    }
}

#[derive(Clone)]
enum AccountChoice {
    Moto,
    Localstack,
    Endpoint(String),
}

impl FromStr for AccountChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match (text, text.split_once('=')) {
            ("moto", _) => Ok(Self::Moto),
            ("localstack", _) => Ok(Self::Localstack),
            (_, Some(("endpoint", url))) if !url.is_empty() => Ok(Self::Endpoint(url.to_owned())),
            _ => Err("it may be `moto`, `localstack` or `endpoint=URL`".to_owned()),
        }
    }
}

impl fmt::Display for Choices {
    /// The parts by name, without what tells one of a kind from another: `local, moto, process`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = match &self.cluster {
            ClusterChoice::Local => "local",
            ClusterChoice::Kind => "kind",
            ClusterChoice::Kubeconfig(_) => "kubeconfig",
        };
        let account = match &self.aws {
            AccountChoice::Moto => "moto",
            AccountChoice::Localstack => "localstack",
            AccountChoice::Endpoint(_) => "endpoint",
        };
        let controller = match self.controller {
            controller::Choice::Process => "process",
            controller::Choice::Chart => "chart",
        };
        write!(f, "{cluster}, {account}, {controller}")
    }
}

impl Choices {
    /// A world of the chosen parts, its logs in `folder`, whose last part names it.
    pub(crate) fn options(&self, folder: &Path) -> Result<Options> {
        std::fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("resolve `{}`", folder.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Options {
            cluster: match &self.cluster {
                ClusterChoice::Local => cluster::Choice::Local(cluster::local::Options {
                    folder: Some(folder.join("control-plane")),
                    binaries: None,
                }),
                ClusterChoice::Kind => cluster::Choice::Kind(format!("karpenter-e2e-{name}")),
                ClusterChoice::Kubeconfig(file) => cluster::Choice::Kubeconfig(file.clone()),
            },
            account: match &self.aws {
                AccountChoice::Moto => world::moto(folder.join("account")),
                AccountChoice::Localstack => account::Choice::LocalStack(account::localstack::Options {
                    host: Ipv4Addr::LOCALHOST,
                    folder: folder.join("account"),
                }),
                AccountChoice::Endpoint(url) => account::Choice::Endpoint(url.clone()),
            },
            controller: self.controller,
            folder,
            pace: Pace::HURRIED,
            site: Site::default(),
        })
    }
}

/// Prints what a shell has to export to reach a world.
pub(crate) fn tell(world: &World) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut export = |name: &str, value: &str| writeln!(out, "export {name}='{value}'");
    export("KUBECONFIG", &world.kubeconfig().display().to_string())
        .and_then(|()| {
            let mut variables = world.environment.variables().into_iter();
            variables.try_for_each(|(name, value)| export(name, &value.to_string_lossy()))
        })
        .and_then(|()| export("KARPENTER_METRICS", &world.metrics_endpoint().unwrap_or_default()))
        .context("write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_is_none_is_refused_with_those_there_are() {
        for text in ["local", "kind", "kubeconfig=/a"] {
            assert!(text.parse::<ClusterChoice>().is_ok(), "{text}");
        }
        for text in ["moto", "localstack", "endpoint=http://127.0.0.1:1"] {
            assert!(text.parse::<AccountChoice>().is_ok(), "{text}");
        }
        for text in ["", "minikube", "kubeconfig", "kubeconfig="] {
            assert!(
                text.parse::<ClusterChoice>().is_err_and(|said| said.contains("kubeconfig=FILE")),
                "{text}"
            );
        }
        for text in ["", "aws", "endpoint="] {
            assert!(text.parse::<AccountChoice>().is_err_and(|said| said.contains("endpoint=URL")), "{text}");
        }
    }
}
