//! The flags that choose a cluster and an account.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use karpenter_e2e::world::{self, Options};
use karpenter_e2e::{account, cluster};

/// A machine joins this long after EC2 calls it running; real ones take half a minute.
const BOOT: Duration = Duration::from_secs(1);

/// Values of `--cluster`.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ClusterChoice {
    /// etcd, API server, scheduler and controller manager as processes.
    Local,
    /// A kind cluster; needs Docker and kind.
    Kind,
}

/// Values of `--aws`.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum AccountChoice {
    /// The launcher of `localstack/`, a process.
    Moto,
    /// The `LocalStack` container; needs Docker.
    Localstack,
}

/// A world of the chosen parts, its logs in `folder`. One that cannot be installed in is refused before anything starts.
pub(crate) fn options(cluster: ClusterChoice, account: AccountChoice, folder: &Path) -> Result<Options> {
    if matches!(account, AccountChoice::Localstack) {
        bail!(
            "--aws localstack: LocalStack has neither EKS nor prices, so nothing can be installed there; use --aws moto"
        );
    }
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    Ok(Options {
        cluster: match cluster {
            ClusterChoice::Local => cluster::Choice::Local(cluster::local::Options {
                folder: Some(folder.join("control-plane")),
                binaries: None,
            }),
            ClusterChoice::Kind => cluster::Choice::Kind("karpenter-e2e".to_owned()),
        },
        account: match account {
            AccountChoice::Moto => world::moto(folder.join("account")),
            AccountChoice::Localstack => account::Choice::LocalStack,
        },
        folder,
        boot: BOOT,
    })
}
