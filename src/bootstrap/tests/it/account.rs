//! An account with a fresh cluster, and what the tests do to it.

use std::sync::Arc;

use karpenter_aws_api::Clients;
use karpenter_aws_api::ec2::{SecurityGroupQuery, SubnetQuery};
use karpenter_aws_sim::{Account, Options};
use karpenter_bootstrap::apply::apply;
use karpenter_bootstrap::aws_auth::AwsAuth;
use karpenter_bootstrap::check::{Report, check};
use karpenter_bootstrap::desired::DISCOVERY_TAG;
use karpenter_bootstrap::destroy::{self, InUse};
use karpenter_bootstrap::observe::{self, Look, observe_remains, observe_senders};
use karpenter_bootstrap::plan::{self, Plan};
use karpenter_bootstrap::{Error, Settings, leftovers};
use karpenter_model::{Clock, ManualClock};

/// The account and the settings that fit it.
pub(crate) struct Fixture {
    pub(crate) account: Account,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
}

impl Fixture {
    /// A cluster that is not prepared for Karpenter: no discovery tags, no spot role.
    pub(crate) async fn fresh() -> Self {
        Self::with(Options::default()).await
    }

    /// Makes the fixture with another account.
    pub(crate) async fn with(options: Options) -> Self {
        Self::with_clock(options, Arc::new(ManualClock::default())).await
    }

    /// Makes the fixture with an account that lives by this clock.
    pub(crate) async fn with_clock(options: Options, clock: Arc<dyn Clock>) -> Self {
        let options = Options { spot_service_linked_role: false, ..options };
        let account = Account::with_clock(options, clock);
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

    /// Reads account and cluster as `plan`, `apply` and `check` do first.
    pub(crate) async fn look(&self) -> Result<Look, Error> {
        let cluster = observe::describe(&self.clients, &self.settings.cluster).await?;
        observe::look(&self.clients, &self.settings, cluster).await
    }

    pub(crate) async fn plan(&self) -> Plan {
        let look = self.look().await.unwrap();
        plan::plan(&look.settings, &look.desired, &look.observed)
    }

    pub(crate) async fn apply(&self) -> Result<(), Error> {
        let look = self.look().await?;
        let plan = plan::plan(&look.settings, &look.desired, &look.observed);
        apply(&self.clients, &self.settings.cluster, &plan, &mut |_| {}).await
    }

    /// Carries out only the first `count` steps of the plan.
    pub(crate) async fn apply_some(&self, count: usize) {
        let mut plan = self.plan().await;
        plan.steps.truncate(count);
        apply(&self.clients, &self.settings.cluster, &plan, &mut |_| {}).await.unwrap();
    }

    pub(crate) async fn check(&self) -> Report {
        self.check_with(&AwsAuth::Unread("no kubeconfig".to_owned())).await
    }

    /// `check` of a user who can read the `ConfigMap` `aws-auth`.
    pub(crate) async fn check_with(&self, aws_auth: &AwsAuth) -> Report {
        let Look { settings, desired, observed } = self.look().await.unwrap();
        let senders = observe_senders(&self.clients, &settings, &desired).await.unwrap();
        check(&settings, &desired, &observed, &senders, aws_auth)
    }

    pub(crate) async fn destroy(&self) -> Result<Plan, Error> {
        self.destroy_although(InUse::Refuse).await
    }

    /// Plans what `destroy` would do.
    pub(crate) async fn plan_to_destroy(&self, in_use: InUse) -> Result<Plan, Error> {
        let left = leftovers::observe(&self.clients, &self.settings).await?;
        let (desired, observed) = observe_remains(&self.clients, &self.settings).await?;
        Ok(destroy::destroy(&self.settings, &desired, &observed, &left, in_use))
    }

    pub(crate) async fn destroy_although(&self, in_use: InUse) -> Result<Plan, Error> {
        let plan = self.plan_to_destroy(in_use).await?;
        apply(&self.clients, &self.settings.cluster, &plan, &mut |_| {}).await?;
        Ok(plan)
    }
}

/// A plan's steps as `+ role x` lines, for readable assertions.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(karpenter_bootstrap::step::Step::sentence).collect()
}
