//! The account that the credentials open, and settings that fit it.

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_bootstrap::Settings;
use karpenter_bootstrap::desired::{Desired, desired};
use karpenter_bootstrap::observe::{Observed, observe, observe_remains, with_ip_family};

use crate::flags::bootstrap::BootstrapFlags;

/// An account that was reached, with the settings that fit it.
pub(super) struct Account {
    pub(super) clients: Clients,
    pub(super) settings: Settings,
}

impl Account {
    /// Finds out which account this is and asks EKS for what settings need of the cluster.
    pub(super) async fn open(flags: &BootstrapFlags) -> Result<Self> {
        flags.cluster()?;
        let clients = connect(flags).await?;
        let identity =
            clients.sts.get_caller_identity().await.context("cannot tell which AWS account this is")?;
        let meant = flags.account.as_ref().is_none_or(|meant| *meant == identity.account);
        ensure!(meant, "the credentials are of account {}, not of the one --account names", identity.account);
        let settings = with_issuer(flags, &clients, &identity.account).await?;
        Ok(Self { clients, settings })
    }

    /// What should be, and what is. What should be depends on the cluster's addresses, so EKS is asked for them first.
    pub(super) async fn look(&mut self) -> Result<(Desired, Observed)> {
        self.settings = with_ip_family(&self.clients, &self.settings).await?;
        let desired = desired(&self.settings);
        let observed = observe(&self.clients, &self.settings, &desired).await?;
        Ok((desired, observed))
    }

    /// The same for `destroy`, which also works once the cluster is gone.
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
        return flags.settings(account, region, None);
    }
    Ok(Account::open(flags).await?.settings)
}

async fn connect(flags: &BootstrapFlags) -> Result<Clients> {
    let config = sdk::Config {
        region: flags.region.clone(),
        endpoint_url: flags.endpoint_url.clone(),
        ..sdk::Config::default()
    };
    sdk::connect(config).await.context("cannot set up the AWS clients")
}

async fn with_issuer(flags: &BootstrapFlags, clients: &Clients, account: &str) -> Result<Settings> {
    let issuer = if flags.lacks_issuer() {
        let cluster = clients.eks.describe_cluster(flags.cluster()?).await;
        cluster.context("cannot ask the cluster for its issuer: name that with --oidc-issuer")?.oidc_issuer
    } else {
        None
    };
    flags.settings(account, &clients.region, issuer.as_deref())
}
