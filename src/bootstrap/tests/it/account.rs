//! An account with a fresh cluster, and what the tests do to it.

use karpenter_aws_client::Clients;
use karpenter_aws_client::ec2::{SecurityGroupQuery, SubnetQuery};
use karpenter_aws_client::memory::{Account, Options};
use karpenter_bootstrap::apply::apply;
use karpenter_bootstrap::desired::{DISCOVERY_TAG, desired};
use karpenter_bootstrap::observe::observe;
use karpenter_bootstrap::plan::{self, Plan};
use karpenter_bootstrap::{Error, Settings, destroy};

/// The account and the settings that fit it.
pub(crate) struct Fixture {
    pub(crate) account: Account,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
}

impl Fixture {
    /// A cluster nobody has prepared for Karpenter: no discovery tags, no spot role.
    pub(crate) async fn fresh() -> Self {
        let account = Account::new(Options { spot_service_linked_role: false, ..Options::default() });
        let clients = account.clients();
        let options = account.options().clone();
        let settings = Settings::new(&options.cluster, &options.region, &options.account, clients.partition);
        let fixture = Self { account, clients, settings };
        let mut tagged: Vec<String> = Vec::new();
        let subnets = fixture.clients.ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
        tagged.extend(subnets.iter().map(|subnet| subnet.id.to_string()));
        let groups =
            fixture.clients.ec2.describe_security_groups(&SecurityGroupQuery::default()).await.unwrap();
        tagged.extend(groups.iter().map(|group| group.id.to_string()));
        fixture.clients.ec2.delete_tags(&tagged, &[DISCOVERY_TAG.to_owned()]).await.unwrap();
        fixture
    }

    /// A fresh cluster with everything applied.
    pub(crate) async fn prepared() -> Self {
        let fixture = Self::fresh().await;
        fixture.apply().await.unwrap();
        fixture
    }

    pub(crate) async fn plan(&self) -> Plan {
        let desired = desired(&self.settings);
        let observed = observe(&self.clients, &self.settings, &desired).await.unwrap();
        plan::plan(&self.settings, &desired, &observed)
    }

    pub(crate) async fn apply(&self) -> Result<(), Error> {
        let desired = desired(&self.settings);
        let observed = observe(&self.clients, &self.settings, &desired).await?;
        let plan = plan::plan(&self.settings, &desired, &observed);
        apply(&self.clients, &self.settings.cluster, &plan, &mut |_| {}).await
    }

    pub(crate) async fn destroy(&self) -> Result<Plan, Error> {
        let desired = desired(&self.settings);
        let observed = observe(&self.clients, &self.settings, &desired).await?;
        let plan = destroy::destroy(&self.settings, &desired, &observed);
        apply(&self.clients, &self.settings.cluster, &plan, &mut |_| {}).await?;
        Ok(plan)
    }
}

/// A plan's steps as `+ role x` lines, for readable assertions.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(karpenter_bootstrap::show::sentence).collect()
}
