//! One account with a resolved `NodeClass` and a provider on it; time moves only when told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::ec2nodeclass::{AmiSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm};
use karpenter_api::{EC2NodeClass, Ec2NodeClassSpec};
use karpenter_aws::calls::observer::Silent;
use karpenter_aws::market::reservations::status::to_status;
use karpenter_aws::network::{security_groups, subnets};
use karpenter_aws::{AwsProvider, NODE_CLASS_KIND, Settings};
use karpenter_aws_sim::{Account, Options, examples};
use karpenter_cloud::{Instance, LaunchRequest};
use karpenter_model::names::label;
use karpenter_model::{
    Claim, Clock, LabelKey, ManualClock, NodeClassRef, Pool, Requirement, Resources, Template,
};

pub(crate) struct World {
    pub(crate) account: Account,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) provider: Arc<AwsProvider>,
    pub(crate) class: EC2NodeClass,
}

pub(crate) const CLASS: &str = "default";
pub(crate) const TYPES: [&str; 2] = ["m5.large", "c5.large"];

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Options { zones: 2, ..Options::default() }, |_| {}).await
    }

    /// A world whose `NodeClass` is edited before it is resolved.
    pub(crate) async fn with(options: Options, edit: impl FnOnce(&mut Ec2NodeClassSpec)) -> Self {
        Self::settled(options, edit, |_| {}).await
    }

    /// Returns a world with changed settings.
    pub(crate) async fn settled(
        options: Options,
        edit: impl FnOnce(&mut Ec2NodeClassSpec),
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let clock = Arc::new(ManualClock::default());
        let account = Account::with_clock(options, Arc::clone(&clock) as _);
        account.clients().iam.create_role(&examples::role("node-role")).await.expect("the role is made");
        let mut settings = settings();
        change(&mut settings);
        let provider = Arc::new(provider(&account, &clock, settings));
        provider.refresh_catalogue().await.expect("types are read");
        provider.prices.refresh_on_demand().await.expect("prices are read");
        provider.prices.refresh_spot().await.expect("spot prices are read");
        provider.cluster.refresh_version().await.expect("the version is read");
        provider.cluster.resolve_service_cidr().await.expect("the service range is read");
        let mut class = class();
        edit(&mut class.spec);
        let mut world = Self { account, clock, provider, class };
        world.resolve().await;
        world
    }

    /// Does what the `NodeClass` reconciler does.
    pub(crate) async fn resolve(&mut self) {
        let provider = &self.provider;
        let class = &mut self.class;
        let version = provider.cluster.version().unwrap();
        let amis = provider.images.resolve(class, &version).await.expect("images are found");
        let found = provider.subnets.select(class).await.expect("subnets are found");
        let groups = provider.security_groups.select(class).await.expect("groups are found");
        let profile = provider.profiles.ensure(class).await.expect("a profile is made");
        let reservations = provider.reservations.select(class).await.expect("reservations are found");
        // A group that is not there yet is the business of the test.
        let _found = provider.placement_groups.resolve(class).await;
        let found_reservations = to_status(&reservations, class, false, provider.now());
        let status = class.status.get_or_insert_default();
        status.capacity_reservations = found_reservations;
        status.amis = amis;
        status.subnets = subnets::to_status(&found);
        status.security_groups = security_groups::to_status(&groups);
        status.instance_profile = profile;
        let mut list = Vec::new();
        let all = Dependents::ec2_node_class(true);
        let mut conditions = Conditions::open(all, &mut list, &class.metadata, provider.now());
        for kind in all.0 {
            conditions.set_true(kind);
        }
        status.conditions = list;
        provider.classes.replace_all([class.clone()]);
    }

    /// A provider with empty memory on the same account.
    pub(crate) async fn restarted(&self) -> Arc<AwsProvider> {
        let again = Arc::new(provider(&self.account, &self.clock, settings()));
        again.refresh_catalogue().await.expect("types are read");
        again.prices.refresh_on_demand().await.expect("prices are read");
        again.prices.refresh_spot().await.expect("spot prices are read");
        again.classes.replace_all([self.class.clone()]);
        again
    }

    /// Returns a provider that has read no price yet, with a price file.
    pub(crate) async fn unpriced(&self, file: Option<PathBuf>) -> AwsProvider {
        let settings = Settings { price_file: file, ..Settings::new("demo", "https://demo.example") };
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let again = AwsProvider::new(self.account.clients(), settings, clock, Arc::new(Silent));
        again.refresh_catalogue().await.expect("types are read");
        again.classes.replace_all([self.class.clone()]);
        again
    }

    pub(crate) fn settle(&self) {
        self.clock.advance(Duration::from_mins(1));
    }
}

fn settings() -> Settings {
    Settings {
        cluster_ca_bundle: Some("Y2EtYnVuZGxlCg==".to_owned()),
        kube_dns_ip: Some("10.100.0.10".to_owned()),
        ..Settings::new("demo", "https://demo.example")
    }
}

fn provider(account: &Account, clock: &Arc<ManualClock>, settings: Settings) -> AwsProvider {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    AwsProvider::new(account.clients(), settings, clock, Arc::new(Silent))
}

fn class() -> EC2NodeClass {
    let discovery = || Some([("karpenter.sh/discovery".to_owned(), "demo".to_owned())].into());
    let spec = Ec2NodeClassSpec {
        subnet_selector_terms: vec![SubnetSelectorTerm { tags: discovery(), id: None }],
        security_group_selector_terms: vec![SecurityGroupSelectorTerm {
            tags: discovery(),
            ..Default::default()
        }],
        ami_selector_terms: vec![AmiSelectorTerm {
            alias: Some("al2023@latest".into()),
            ..Default::default()
        }],
        role: Some("node-role".to_owned()),
        ..Default::default()
    };
    let mut class = EC2NodeClass::new(CLASS, spec);
    class.metadata.uid = Some("class-uid".to_owned());
    class.metadata.generation = Some(1);
    class
}

pub(crate) fn reference() -> NodeClassRef {
    NodeClassRef {
        group: NODE_CLASS_KIND.group.to_owned(),
        kind: NODE_CLASS_KIND.kind.to_owned(),
        name: CLASS.to_owned(),
    }
}

pub(crate) fn one_of(key: &'static str, values: &[&str]) -> Requirement {
    Requirement::one_of(LabelKey::from(key), values.iter().map(|value| (*value).into()))
}

/// A request for one of two small types, spot or on-demand.
pub(crate) fn request(claim: &str) -> LaunchRequest {
    LaunchRequest {
        claim: claim.into(),
        uid: format!("uid-of-{claim}").into(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: 0,
        pool: Some("web".into()),
        pool_hash: None,
        node_class: reference(),
        requirements: [one_of(label::INSTANCE_TYPE, &TYPES)].into_iter().collect(),
        requests: Resources::one_pod(),
        labels: [("karpenter.sh/nodepool".into(), "web".into())].into(),
        annotations: Default::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        instance_types: TYPES.map(Into::into).to_vec(),
        overlays: None,
    }
}

/// Returns a request with one more requirement.
pub(crate) fn request_with(claim: &str, requirement: Requirement) -> LaunchRequest {
    let mut request = request(claim);
    request.requirements.add(requirement);
    request
}

/// Returns a request for an on-demand machine.
pub(crate) fn on_demand(claim: &str) -> LaunchRequest {
    request_with(claim, one_of(label::CAPACITY_TYPE, &["on-demand"]))
}

pub(crate) fn pool() -> Pool {
    Pool { template: Template { node_class: reference(), ..Template::default() }, ..Pool::bare("web") }
}

/// The claim an instance was launched for, as the controllers write it.
pub(crate) fn claim_of(instance: &Instance) -> Claim {
    let name = instance.claim.as_ref().expect("launched for a claim");
    Claim {
        pool: instance.pool.clone(),
        node_class: reference(),
        labels: instance.labels.clone(),
        annotations: instance.annotations.clone(),
        provider_id: Some(instance.provider_id.clone()),
        image_id: instance.image_id.clone(),
        capacity: instance.capacity.clone(),
        allocatable: instance.allocatable.clone(),
        ..Claim::bare(name.as_str(), instance.launched_at)
    }
}
