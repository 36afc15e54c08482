//! Meaning of the documents, worked out by an evaluator of IAM policies: the controller can do its work and nothing that would
//! turn it against the account.
//!
//! Every table runs for every kind of account: plain, with a path, with a permissions boundary, with the longest
//! name, with everything optional, in China and in `GovCloud`. Sources: spec aws-operations 1.2 (statements
//! and threat model), 1.3 (trust), 1.4 (queue), 1.10 (profiles), 1.14, P-4 to P-6.

mod needed;
mod operators;
mod refused;
mod trusted;

use karpenter_aws_api::Partition;
use karpenter_bootstrap::Settings;
use karpenter_bootstrap::desired::desired;
use karpenter_bootstrap::settings::{ExtraNodeRole, Platform};
use karpenter_iam::{Policies, Policy, Request};

const ACCOUNT: &str = "123456789012";
const POOL: &str = "karpenter.sh/nodepool";
const EKS_CLUSTER: &str = "eks:eks-cluster-name";
const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// One kind of account, with what bootstrap would attach to the controller's role there.
pub(crate) struct Account {
    pub(crate) name: &'static str,
    pub(crate) settings: Settings,
    pub(crate) policies: Policies,
}

impl Account {
    fn new(name: &'static str, settings: Settings) -> Self {
        assert_eq!(settings.validate(), [], "{name}");
        let attached = desired(&settings)
            .policies
            .iter()
            .map(|policy| Policy::of_identity(&policy.document.to_json()).unwrap())
            .collect();
        Self { name, settings, policies: Policies::of(attached) }
    }

    /// Every kind. The boundary of the one that has it allows what a careful platform team allows: all of EC2, SQS,
    /// SSM, EKS and prices, and of IAM only what controllers need.
    pub(crate) fn kinds() -> Vec<Self> {
        let plain = || Settings::new("prod", "eu-west-1", ACCOUNT, Partition::Aws);
        let with = |change: fn(&mut Settings)| {
            let mut settings = plain();
            change(&mut settings);
            settings
        };
        let mut limited = Self::new(
            "boundary",
            with(|settings| {
                settings.permissions_boundary = Some(format!("arn:aws:iam::{ACCOUNT}:policy/platform"));
            }),
        );
        limited.policies.boundary = Some(Policy::of_identity(BOUNDARY).unwrap());
        vec![
            Self::new("plain", plain()),
            Self::new("path", with(|settings| "/platform/karpenter/".clone_into(&mut settings.iam_path))),
            limited,
            Self::new("longest name", Settings::new(&"c".repeat(100), "eu-west-1", ACCOUNT, Partition::Aws)),
            Self::new(
                "everything",
                with(|settings| {
                    settings.windows = true;
                    settings.zonal_shift = true;
                    settings.queue_kms_key = Some(format!("arn:aws:kms:eu-west-1:{ACCOUNT}:key/1"));
                    settings.extra_ssm_parameters =
                        vec![format!("arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/images/*")];
                    settings.extra_node_roles = vec![ExtraNodeRole {
                        arn: format!("arn:aws:iam::{ACCOUNT}:role/gpu"),
                        platform: Platform::Linux,
                    }];
                }),
            ),
            Self::new("cn", Settings::new("prod", "cn-north-1", ACCOUNT, Partition::China)),
            Self::new("gov", Settings::new("prod", "us-gov-west-1", ACCOUNT, Partition::UsGov)),
        ]
    }

    /// A resource of EC2; images and snapshots belong to no account.
    pub(crate) fn ec2(&self, kind: &str, id: &str) -> String {
        let account = if matches!(kind, "image" | "snapshot") { "" } else { ACCOUNT };
        format!("arn:{}:ec2:{}:{account}:{kind}/{id}", self.settings.partition, self.settings.region)
    }

    /// A profile as the controller names it (spec aws-operations 1.10).
    pub(crate) fn profile(&self) -> String {
        let Settings { region, cluster, .. } = &self.settings;
        self.settings.iam_arn(&format!("instance-profile/karpenter/{region}/{cluster}/uid/{cluster}_1"))
    }

    /// A role of the account.
    pub(crate) fn role(&self, name: &str) -> String {
        self.settings.iam_arn(&format!("role/{name}"))
    }

    /// The key that says whose a resource is.
    pub(crate) fn owner_key(&self) -> String {
        format!("kubernetes.io/cluster/{}", self.settings.cluster)
    }

    /// A request about one of the cluster's own nodes, templates, volumes: it has its tags.
    pub(crate) fn on_own(&self, action: &str, resource: &str) -> Request {
        self.at(action, resource).with(&existing(&self.owner_key()), "owned").with(&existing(POOL), "default")
    }

    /// A request that makes something and gives it the cluster's tags.
    pub(crate) fn making(&self, action: &str, kind: &str) -> Request {
        self.at(action, &self.ec2(kind, "*"))
            .with(&asked(&self.owner_key()), "owned")
            .with(&asked(EKS_CLUSTER), &self.settings.cluster)
            .with(&asked(POOL), "default")
    }

    /// A request that makes a profile with the tags of its class.
    pub(crate) fn making_profile(&self, action: &str) -> Request {
        self.at(action, &self.profile())
            .with(&asked(&self.owner_key()), "owned")
            .with(&asked(EKS_CLUSTER), &self.settings.cluster)
            .with(&asked(REGION_LABEL), &self.settings.region)
            .with(&asked(NODE_CLASS), "default")
    }

    /// A request about a profile the controller has made.
    pub(crate) fn on_own_profile(&self, action: &str) -> Request {
        as_owned_profile(self, self.at(action, &self.profile()))
    }

    /// A request in the cluster's region.
    pub(crate) fn at(&self, action: &str, resource: &str) -> Request {
        Request::new(action, resource).with("aws:RequestedRegion", &self.settings.region)
    }
}

/// Returns the request, about a profile with the tags the controller gives.
pub(crate) fn as_owned_profile(account: &Account, request: Request) -> Request {
    request
        .with(&existing(&account.owner_key()), "owned")
        .with(&existing(REGION_LABEL), &account.settings.region)
        .with(&existing(NODE_CLASS), "default")
}

/// The key of a tag that a request gives.
pub(crate) fn asked(tag: &str) -> String {
    format!("aws:RequestTag/{tag}")
}

/// The key of a tag that a resource has.
pub(crate) fn existing(tag: &str) -> String {
    format!("aws:ResourceTag/{tag}")
}

const BOUNDARY: &str = r#"{"Version":"2012-10-17","Statement":[
    {"Sid":"Work","Effect":"Allow","Resource":"*","Action":["ec2:*","sqs:*","ssm:*","eks:*","pricing:*",
        "iam:PassRole","iam:*InstanceProfile","iam:ListInstanceProfiles"]},
    {"Sid":"NoWidening","Effect":"Deny","Resource":"*","Action":"iam:*RolePermissionsBoundary"}]}"#;
