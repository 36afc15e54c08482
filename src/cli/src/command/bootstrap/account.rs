//! The account that the credentials open, and settings that fit it.

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::{Clients, eks};
use karpenter_aws_sdk as sdk;
use karpenter_bootstrap::Settings;
use karpenter_bootstrap::desired::Desired;
use karpenter_bootstrap::observe::{self, Look, Observed, observe_remains};

use crate::flags::bootstrap::{BootstrapFlags, IdentityKind};

/// An account that was reached, with the settings that fit it.
pub(super) struct Account {
    pub(super) clients: Clients,
    pub(super) settings: Settings,
    /// The cluster, if settings needed something of it.
    cluster: Option<eks::Cluster>,
}

impl Account {
    /// Finds out which account this is and asks EKS for what settings need of the cluster.
    pub(super) async fn open(flags: &BootstrapFlags) -> Result<Self> {
        flags.cluster()?;
        Self::of(connect(flags).await?, flags).await
    }

    /// Opens the account for a removal, which asks the cluster for nothing: it may be gone.
    pub(super) async fn open_for_removal(flags: &BootstrapFlags) -> Result<Self> {
        Self::open(&without_issuer(flags)).await
    }

    /// Finds out which account this is, with its `clients`.
    async fn of(clients: Clients, flags: &BootstrapFlags) -> Result<Self> {
        let identity =
            clients.sts.get_caller_identity().await.context("cannot tell which AWS account this is")?;
        let meant = flags.account.as_ref().is_none_or(|meant| *meant == identity.account);
        ensure!(meant, "the credentials are of account {}, not of the one --account names", identity.account);
        let mut cluster = None;
        if flags.lacks_issuer() {
            let described = observe::describe(&clients, flags.cluster()?).await;
            cluster = Some(
                described.context("cannot ask the cluster for its issuer: name that with --oidc-issuer")?,
            );
        }
        let issuer = cluster.as_ref().and_then(|cluster| cluster.oidc_issuer.as_deref());
        let settings = flags.settings_in(&identity.account, &clients.region, issuer)?;
        Ok(Self { clients, settings, cluster })
    }

    /// Returns the desired and the observed state. Completes the settings with facts of the cluster.
    pub(super) async fn look(&mut self) -> Result<(Desired, Observed)> {
        let cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => observe::describe(&self.clients, &self.settings.cluster).await?,
        };
        let Look { settings, desired, observed } =
            observe::look(&self.clients, &self.settings, cluster).await?;
        self.settings = settings;
        Ok((desired, observed))
    }

    /// Returns the desired and the observed state for `destroy`, which also works once the cluster is gone.
    pub(super) async fn look_for_remains(&self) -> Result<(Desired, Observed)> {
        Ok(observe_remains(&self.clients, &self.settings).await?)
    }

    pub(super) fn heading(&self) -> String {
        format!(
            "cluster {} in {}, account {}\n",
            self.settings.cluster, self.settings.region, self.settings.account
        )
    }
}

/// Settings alone. Makes no call when the flags say everything.
pub(super) async fn settings(flags: &BootstrapFlags) -> Result<Settings> {
    if let (Some(account), Some(region), false) = (&flags.account, &flags.region, flags.lacks_issuer()) {
        return flags.settings_in(account, region, None);
    }
    Ok(Account::open(flags).await?.settings)
}

/// Flags without the issuer: the identity that the controller's role trusts changes no name.
fn without_issuer(flags: &BootstrapFlags) -> BootstrapFlags {
    let identity = if flags.lacks_issuer() { IdentityKind::PodIdentity } else { flags.identity };
    BootstrapFlags { identity, ..flags.clone() }
}

async fn connect(flags: &BootstrapFlags) -> Result<Clients> {
    let config = sdk::Config {
        region: flags.region.clone(),
        endpoint_url: flags.endpoint_url.clone(),
        ..sdk::Config::default()
    };
    sdk::connect(config).await.context("cannot set up the AWS clients")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use karpenter_aws_sim::{Account as Simulated, Options};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: BootstrapFlags,
    }

    #[tokio::test]
    async fn what_is_left_of_a_cluster_that_is_gone_is_looked_for_without_its_issuer() {
        let simulated = Simulated::new(Options::default());
        let words = ["bootstrap", "--cluster-name", "gone", "--identity", "irsa"];
        let flags = Cli::parse_from(words).flags;
        assert!(
            Account::of(simulated.clients(), &flags).await.is_err(),
            "settings that are complete need it"
        );
        let account = Account::of(simulated.clients(), &without_issuer(&flags)).await.unwrap();
        let (desired, observed) = account.look_for_remains().await.unwrap();
        assert!(observed.cluster.is_none());
        assert!(desired.roles.iter().any(|role| role.name == "gone-karpenter"));
    }

    #[tokio::test]
    async fn the_cluster_is_described_once_whatever_is_asked_of_it() {
        for identity in ["pod-identity", "irsa"] {
            let simulated = Simulated::new(Options::default());
            let words = ["bootstrap", "--cluster-name", "demo", "--identity", identity];
            let flags = Cli::parse_from(words).flags;
            let mut account = Account::of(simulated.clients(), &flags).await.unwrap();
            account.look().await.unwrap();
            assert_eq!(simulated.calls().count("DescribeCluster"), 1, "{identity}");
            assert!(account.settings.ip_family.is_some(), "{identity}");
        }
    }
}
