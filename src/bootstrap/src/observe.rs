//! Reads what the account has of one cluster's prerequisites.
//!
//! Complete or an error: a plan is never made from half an answer.

mod subnets;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::ec2::{SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery};
use karpenter_aws_api::error::{Kind, optional};
use karpenter_aws_api::id::{Arn, QueueUrl, SecurityGroupId};
use karpenter_aws_api::{Clients, Filter, Tags, eks, events, iam};

use crate::Error;
use crate::desired::interruption::KEY_ATTRIBUTE;
use crate::desired::{DISCOVERY_TAG, Desired, OWNER_TAG, Purpose, RULE_TARGET_ID, desired, is_policy_name};
use crate::policy::{Found, node};
use crate::resource_owner::ResourceOwner;
use crate::settings::{Identity, IpFamily, Settings};

/// The name AWS gives the spot service-linked role.
pub const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

/// The add-on that EKS Pod Identity needs.
pub(crate) const POD_IDENTITY_AGENT: &str = "eks-pod-identity-agent";

/// Observed state of the account.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The EKS cluster. `None` when it is gone, which only [`observe_remains`] puts up with.
    pub cluster: Option<eks::Cluster>,
    /// Customer-managed policies by ARN: the desired ones that exist, any other attached one called as ours are, and
    /// those of others on the controller's role as far as the caller may read them.
    pub policies: BTreeMap<String, Policy>,
    /// ARNs of policies of others on the controller's role that the caller may not read, or with contents we do not
    /// understand.
    pub unread_policies: BTreeSet<String>,
    /// Roles by name.
    pub roles: BTreeMap<String, Role>,
    /// The static instance profile.
    pub instance_profile: Option<iam::InstanceProfile>,
    /// The interruption queue.
    pub queue: Option<Queue>,
    /// Rules by name.
    pub rules: BTreeMap<String, Rule>,
    /// True if the account has the policy that nodes of IPv6 clusters need; looked for only where settings ask for it.
    pub ipv6_policy: bool,
    /// True if the account has the spot service-linked role.
    pub spot_role: bool,
    /// The node role that is managed elsewhere, if settings name one and it exists.
    pub existing_node_role: Option<Role>,
    /// The identity provider of IRSA, if settings ask for that and it exists.
    pub oidc_provider: Option<iam::OidcProvider>,
    /// Access entries of node roles, by the role's ARN.
    pub access_entries: BTreeMap<String, eks::AccessEntry>,
    /// The add-on that hands out the credentials of EKS Pod Identity, if settings ask for that and it exists.
    pub pod_identity_agent: Option<eks::Addon>,
    /// The association of the controller's service account.
    pub pod_identity: Option<eks::PodIdentityAssociation>,
    /// The subnets nodes are to be launched into, and those of the VPC that carry the cluster's discovery tag.
    pub subnets: Vec<Subnet>,
    /// Security groups of the cluster's VPC that carry its discovery tag, and the one that would get it.
    pub security_groups: Vec<SecurityGroup>,
}

/// A customer-managed policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Name without path.
    pub name: String,
    /// The document in force.
    pub document: Found,
    /// All versions.
    pub versions: Vec<iam::PolicyVersion>,
    pub tags: Tags,
}

/// A role with its attachments.
#[derive(Clone, Debug)]
pub struct Role {
    pub role: iam::Role,
    /// Principals that may assume it.
    pub trust: Found,
    /// ARNs of attached managed policies.
    pub attached: Vec<String>,
    /// Policies that stand in the role itself, by name. The document of those in the controller's role, `None` where the
    /// caller may not read it or it has contents we do not understand.
    pub own: BTreeMap<String, Option<Found>>,
    /// Names of the instance profiles that hold it; looked for by [`observe_remains`] alone.
    pub profiles: Vec<String>,
}

/// The queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its address.
    pub url: QueueUrl,
    /// SQS attributes.
    pub attributes: BTreeMap<String, String>,
    /// Principals that may send; `None` without a policy.
    pub policy: Option<Found>,
    pub tags: Tags,
}

/// A rule with its targets.
#[derive(Clone, Debug)]
pub struct Rule {
    pub rule: events::Rule,
    /// Targets that it sends to.
    pub targets: Vec<events::Target>,
    pub tags: Tags,
}

impl Observed {
    /// Returns whether the role of an access entry was made again after it. EKS ties an entry to the id of its role, which
    /// another role of the same name does not have: its nodes may not join
    /// (<https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3329>).
    pub(crate) fn is_older_than_its_role(&self, entry: &eks::AccessEntry) -> bool {
        let name = entry.principal.as_str().rsplit('/').next().unwrap_or_default();
        let existing = self.existing_node_role.as_ref().filter(|role| role.role.name == name);
        let role = self.roles.get(name).or(existing);
        let made = role.and_then(|role| role.role.created_at);
        made.zip(entry.created_at).is_some_and(|(role, entry)| entry < role)
    }
}

/// Returns whether the tags show that bootstrap made this thing for the cluster of these settings, in their region.
pub fn is_ours(tags: &Tags, settings: &Settings) -> bool {
    ResourceOwner::of(tags, settings) == ResourceOwner::Us
}

/// Returns whether EKS answers about access entries of this cluster: none has them while `aws-auth` alone decides about joining.
pub(crate) fn takes_access_entries(cluster: Option<&eks::Cluster>) -> bool {
    let mode = cluster.and_then(|cluster| cluster.authentication_mode.as_deref());
    mode.is_some_and(|mode| mode != "CONFIG_MAP")
}

impl Queue {
    /// The customer-managed key that encrypts it, as it was given to SQS: ARN, id or alias.
    pub fn key(&self) -> Option<&str> {
        self.attributes.get(KEY_ATTRIBUTE).map(String::as_str).filter(|key| !key.is_empty())
    }
}

impl Rule {
    /// The ARN our target points to, if the rule has it.
    pub fn target(&self) -> Option<&str> {
        self.targets.iter().find(|target| target.id == RULE_TARGET_ID).map(|target| target.arn.as_str())
    }
}

/// Desired and observed state of a cluster that exists.
pub struct Look {
    /// The settings it was made with, with the addresses of the cluster's pods: those given before, or
    /// else those that EKS reports.
    pub settings: Settings,
    /// Desired state, by those settings.
    pub desired: Desired,
    /// Observed state of the account.
    pub observed: Observed,
}

/// The cluster as EKS describes it. One description serves all of a [`look`].
pub async fn describe(clients: &Clients, cluster: &str) -> Result<eks::Cluster, Error> {
    let described = clients.eks.describe_cluster(cluster).await;
    described.map_err(Error::observing(format!("cluster `{cluster}`")))
}

/// Reads everything that the cluster's prerequisites consist of.
pub async fn look(clients: &Clients, settings: &Settings, cluster: eks::Cluster) -> Result<Look, Error> {
    let settings = with_ip_family(settings, &cluster);
    let desired = desired(&settings);
    let reader = Reader { clients, settings: &settings, desired: &desired };
    let subnets = subnets::of_nodes(clients, &settings, &cluster).await?;
    let security_groups = reader.security_groups(&cluster).await?;
    let observed = reader.all(Some(cluster), subnets, security_groups).await?;
    Ok(Look { settings, desired, observed })
}

fn with_ip_family(settings: &Settings, cluster: &eks::Cluster) -> Settings {
    let of_cluster = if cluster.ip_family.as_deref() == Some("ipv6") { IpFamily::V6 } else { IpFamily::V4 };
    Settings { ip_family: settings.ip_family.or(Some(of_cluster)), ..settings.clone() }
}

/// Reads what may be left of ours, with what it was compared with: whatever can be found without knowing all flags that
/// it was made with, and whether or not the cluster still exists.
pub async fn observe_remains(clients: &Clients, settings: &Settings) -> Result<(Desired, Observed), Error> {
    let settings = &widened(settings);
    let desired = desired(settings);
    let reader = Reader { clients, settings, desired: &desired };
    let cluster = optional(clients.eks.describe_cluster(&settings.cluster).await)
        .map_err(Error::observing(format!("cluster `{}`", settings.cluster)))?;
    let ours = || vec![Filter::tag(OWNER_TAG, &settings.cluster)];
    let query = SubnetQuery { ids: Vec::new(), filters: ours() };
    let mut subnets =
        clients.ec2.describe_subnets(&query).await.map_err(Error::observing("the subnets with our tag"))?;
    subnets.sort_by(|a, b| a.id.cmp(&b.id));
    let query = SecurityGroupQuery { ids: Vec::new(), filters: ours() };
    let groups = clients.ec2.describe_security_groups(&query).await;
    let mut groups = groups.map_err(Error::observing("the security groups with our tag"))?;
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    let mut observed = reader.all(cluster, subnets, groups).await?;
    for (name, role) in &mut observed.roles {
        let profiles = clients.iam.list_instance_profiles_for_role(name).await;
        let profiles =
            profiles.map_err(Error::observing(format!("the instance profiles of role `{name}`")))?;
        role.profiles = profiles.into_iter().map(|profile| profile.name).collect();
        role.profiles.sort();
    }
    Ok((desired, observed))
}

/// Settings under which everything that has a name of its own is looked for.
pub(crate) fn widened(settings: &Settings) -> Settings {
    let mut all = settings.clone();
    all.windows = true;
    all.access_entry = true;
    if all.identity == Identity::None {
        all.identity = Identity::PodIdentity;
    }
    all
}

/// Reads every rule that sends to the interruption queue, whatever made it and whatever it is called.
pub async fn observe_senders(
    clients: &Clients,
    settings: &Settings,
    desired: &Desired,
) -> Result<Vec<events::Rule>, Error> {
    let queue = Arn::from(desired.queue.arn.as_str());
    let reading = || Error::observing(format!("rules that send to queue `{}`", settings.queue()));
    let names = clients.events.list_rules_sending_to(&queue).await.map_err(reading())?;
    let mut rules = Vec::new();
    for name in names {
        rules.push(clients.events.describe_rule(&name).await.map_err(reading())?);
    }
    Ok(rules)
}

/// The three things every read needs.
struct Reader<'a> {
    clients: &'a Clients,
    settings: &'a Settings,
    desired: &'a Desired,
}

impl Reader<'_> {
    async fn all(
        &self,
        cluster: Option<eks::Cluster>,
        subnets: Vec<Subnet>,
        security_groups: Vec<SecurityGroup>,
    ) -> Result<Observed, Error> {
        let roles = self.roles().await?;
        let (policies, unread_policies) = self.policies(&roles).await?;
        let mut observed = Observed {
            cluster,
            policies,
            unread_policies,
            roles,
            instance_profile: self.instance_profile().await?,
            queue: self.queue().await?,
            rules: self.rules().await?,
            ipv6_policy: self.ipv6_policy().await?,
            spot_role: self.spot_role().await?,
            existing_node_role: self.existing_node_role().await?,
            oidc_provider: self.oidc_provider().await?,
            access_entries: BTreeMap::new(),
            pod_identity_agent: None,
            pod_identity: None,
            subnets,
            security_groups,
        };
        // They went with the cluster.
        if observed.cluster.is_some() {
            observed.access_entries = self.access_entries(observed.cluster.as_ref()).await?;
            observed.pod_identity_agent = self.pod_identity_agent().await?;
            observed.pod_identity = self.pod_identity().await?;
        }
        Ok(observed)
    }

    async fn roles(&self) -> Result<BTreeMap<String, Role>, Error> {
        let mut found = BTreeMap::new();
        for wanted in &self.desired.roles {
            let Some(mut role) = self.role(&wanted.name).await? else { continue };
            if wanted.purpose == Purpose::Controller {
                for (name, document) in &mut role.own {
                    *document = self.own_policy(&wanted.name, name).await?;
                }
            }
            found.insert(wanted.name.clone(), role);
        }
        Ok(found)
    }

    async fn existing_node_role(&self) -> Result<Option<Role>, Error> {
        if self.settings.existing_node_role.is_none() {
            return Ok(None);
        }
        self.role(&self.settings.node_role()).await
    }

    async fn role(&self, name: &str) -> Result<Option<Role>, Error> {
        let iam = &self.clients.iam;
        let what = format!("role `{name}`");
        let reading = || Error::observing(what.clone());
        let Some(role) = optional(iam.get_role(name).await).map_err(reading())? else {
            return Ok(None);
        };
        let attached = iam.list_attached_role_policies(name).await.map_err(reading())?;
        let own = iam.list_role_policies(name).await.map_err(reading())?;
        let trust = Found::on_resource(&role.trust).map_err(not_understood(&what))?;
        let attached = attached.into_iter().map(|policy| policy.arn.to_string()).collect();
        let own = own.into_iter().map(|name| (name, None)).collect();
        Ok(Some(Role { role, trust, attached, own, profiles: Vec::new() }))
    }

    /// The document of a policy in a role, written by others.
    async fn own_policy(&self, role: &str, policy: &str) -> Result<Option<Found>, Error> {
        match self.clients.iam.get_role_policy(role, policy).await {
            Ok(text) => Ok(Found::on_identity(&text).ok()),
            Err(error) if error.kind == Kind::Denied => Ok(None),
            Err(source) => {
                Err(Error::Observe { what: format!("policy `{policy}` of role `{role}`"), source })
            }
        }
    }

    /// The desired policies and those called as ours are have to be read. Those of others matter to `check` alone and
    /// only on the controller's role; a caller with the rights that `permissions` prints may not read them, so the second half
    /// names those that were refused.
    async fn policies(
        &self,
        roles: &BTreeMap<String, Role>,
    ) -> Result<(BTreeMap<String, Policy>, BTreeSet<String>), Error> {
        let account = format!("::{}:policy/", self.settings.account);
        let name = |arn: &str| arn.rsplit('/').next().unwrap_or(arn).to_owned();
        let customers = |role: &Role| -> Vec<String> {
            role.attached.iter().filter(|arn| arn.contains(&account)).cloned().collect()
        };
        let mut ours: BTreeSet<String> =
            self.desired.policies.iter().map(|policy| policy.arn.clone()).collect();
        let attached = roles.values().flat_map(customers);
        ours.extend(attached.filter(|arn| is_policy_name(self.settings, &name(arn))));
        let controller = self.desired.roles.iter().find(|role| role.purpose == Purpose::Controller);
        let others = controller.and_then(|role| roles.get(&role.name)).map(|role| role.attached.clone());

        let (mut found, mut unread) = (BTreeMap::new(), BTreeSet::new());
        for arn in &ours {
            found.extend(self.policy(arn).await?.map(|policy| (arn.clone(), policy)));
        }
        for arn in others.unwrap_or_default().into_iter().filter(|arn| !ours.contains(arn)) {
            match self.foreign_policy(&arn).await? {
                Some(policy) => found.extend([(arn, policy)]),
                None => drop(unread.insert(arn)),
            }
        }
        Ok((found, unread))
    }

    /// A policy of others, AWS's own included; `None` when it may not be read or has contents we do not understand. Its
    /// versions are nothing to us.
    async fn foreign_policy(&self, arn: &str) -> Result<Option<Policy>, Error> {
        match self.in_force(&Arn::from(arn)).await {
            // One of ours under a name that settings gave before: its versions have to go with it.
            Ok((policy, _)) if is_ours(&policy.tags, self.settings) => self.policy(arn).await,
            Ok((policy, text)) => Ok(Found::on_identity(&text).ok().map(|document| Policy {
                name: policy.name,
                document,
                versions: Vec::new(),
                tags: policy.tags,
            })),
            Err(error) if error.kind == Kind::Denied || error.is_not_found() => Ok(None),
            Err(source) => Err(Error::Observe { what: format!("policy `{arn}`"), source }),
        }
    }

    /// A policy with the document of its default version.
    async fn in_force(&self, arn: &Arn) -> karpenter_aws_api::Result<(iam::Policy, String)> {
        let policy = self.clients.iam.get_policy(arn).await?;
        let text = self.clients.iam.get_policy_version(arn, &policy.default_version).await?;
        Ok((policy, text))
    }

    async fn policy(&self, arn: &str) -> Result<Option<Policy>, Error> {
        let iam = &self.clients.iam;
        let what = format!("policy `{arn}`");
        let arn = Arn::from(arn);
        let reading = || Error::observing(what.clone());
        let Some(policy) = optional(iam.get_policy(&arn).await).map_err(reading())? else {
            return Ok(None);
        };
        let text = iam.get_policy_version(&arn, &policy.default_version).await.map_err(reading())?;
        let versions = iam.list_policy_versions(&arn).await.map_err(reading())?;
        let document = Found::on_identity(&text).map_err(not_understood(&what))?;
        Ok(Some(Policy { name: policy.name, document, versions, tags: policy.tags }))
    }

    async fn instance_profile(&self) -> Result<Option<iam::InstanceProfile>, Error> {
        let name = &self.desired.instance_profile.name;
        optional(self.clients.iam.get_instance_profile(name).await)
            .map_err(Error::observing(format!("instance profile `{name}`")))
    }

    async fn queue(&self) -> Result<Option<Queue>, Error> {
        let sqs = &self.clients.sqs;
        let what = format!("queue `{}`", self.desired.queue.name);
        let reading = || Error::observing(what.clone());
        let Some(url) = optional(sqs.get_queue_url(&self.desired.queue.name).await).map_err(reading())?
        else {
            return Ok(None);
        };
        let attributes = sqs.get_queue_attributes(&url).await.map_err(reading())?;
        let tags = sqs.list_queue_tags(&url).await.map_err(reading())?;
        let policy = attributes.get("Policy").filter(|text| !text.is_empty());
        let policy =
            policy.map(|text| Found::on_resource(text)).transpose().map_err(not_understood(&what))?;
        Ok(Some(Queue { url, attributes, policy, tags }))
    }

    async fn rules(&self) -> Result<BTreeMap<String, Rule>, Error> {
        let events = &self.clients.events;
        let mut found = BTreeMap::new();
        for wanted in &self.desired.rules {
            let reading = || Error::observing(format!("rule `{}`", wanted.name));
            let rule = optional(events.describe_rule(&wanted.name).await).map_err(reading())?;
            if let Some(rule) = rule {
                found.insert(wanted.name.clone(), self.with_targets(rule).await?);
            }
        }
        Ok(found)
    }

    async fn with_targets(&self, rule: events::Rule) -> Result<Rule, Error> {
        let events = &self.clients.events;
        let reading = || Error::observing(format!("rule `{}`", rule.name));
        let targets = events.list_targets(&rule.name).await.map_err(reading())?;
        let tags = events.list_tags(&rule.arn).await.map_err(reading())?;
        Ok(Rule { rule, targets, tags })
    }

    async fn ipv6_policy(&self) -> Result<bool, Error> {
        if self.settings.ip_family != Some(IpFamily::V6) {
            return Ok(false);
        }
        let arn = node::cni_ipv6_policy(self.settings);
        let policy = optional(self.clients.iam.get_policy(&Arn::from(arn.as_str())).await);
        Ok(policy.map_err(Error::observing(format!("policy `{arn}`")))?.is_some())
    }

    async fn spot_role(&self) -> Result<bool, Error> {
        let role = optional(self.clients.iam.get_role(SPOT_ROLE).await);
        Ok(role.map_err(Error::observing(format!("role `{SPOT_ROLE}`")))?.is_some())
    }

    async fn access_entries(
        &self,
        cluster: Option<&eks::Cluster>,
    ) -> Result<BTreeMap<String, eks::AccessEntry>, Error> {
        let mut found = BTreeMap::new();
        // EKS refuses the question: `destroy` and `check` ask it whatever the mode is.
        if !takes_access_entries(cluster) {
            return Ok(found);
        }
        for wanted in &self.desired.access_entries {
            let principal = Arn::from(wanted.principal.as_str());
            let entry = self.clients.eks.describe_access_entry(&self.settings.cluster, &principal).await;
            let entry =
                optional(entry).map_err(Error::observing(format!("access entry of `{principal}`")))?;
            found.extend(entry.map(|entry| (wanted.principal.clone(), entry)));
        }
        Ok(found)
    }

    async fn oidc_provider(&self) -> Result<Option<iam::OidcProvider>, Error> {
        let Some(arn) = self.settings.oidc_provider_arn() else { return Ok(None) };
        let provider = self.clients.iam.get_open_id_connect_provider(&Arn::from(arn.as_str())).await;
        optional(provider).map_err(Error::observing(format!("identity provider `{arn}`")))
    }

    async fn pod_identity_agent(&self) -> Result<Option<eks::Addon>, Error> {
        if self.desired.pod_identity.is_none() {
            return Ok(None);
        }
        let addon = self.clients.eks.describe_addon(&self.settings.cluster, POD_IDENTITY_AGENT).await;
        optional(addon).map_err(Error::observing(format!("add-on `{POD_IDENTITY_AGENT}`")))
    }

    async fn pod_identity(&self) -> Result<Option<eks::PodIdentityAssociation>, Error> {
        let Some(wanted) = &self.desired.pod_identity else { return Ok(None) };
        let (namespace, account) = (&wanted.namespace, &wanted.service_account);
        let found =
            self.clients.eks.find_pod_identity_associations(&self.settings.cluster, namespace, account).await;
        let found = found.map_err(Error::observing(format!("pod identity of `{namespace}/{account}`")))?;
        Ok(found.into_iter().next())
    }

    async fn security_groups(&self, cluster: &eks::Cluster) -> Result<Vec<SecurityGroup>, Error> {
        let reading = || Error::observing("the cluster's security groups");
        let ec2 = &self.clients.ec2;
        let mut filters = vec![Filter::tag(DISCOVERY_TAG, &self.settings.cluster)];
        filters.extend(cluster.vpc.iter().map(|vpc| Filter::new("vpc-id", [vpc.as_str()])));
        let tagged = SecurityGroupQuery { ids: Vec::new(), filters };
        let mut all = ec2.describe_security_groups(&tagged).await.map_err(reading())?;
        let chosen = self.settings.security_group.as_deref().map(SecurityGroupId::from);
        if let Some(id) = chosen.or_else(|| cluster.cluster_security_group.clone())
            && !all.iter().any(|group| group.id == id)
        {
            let query = SecurityGroupQuery { ids: vec![id], filters: Vec::new() };
            all.extend(ec2.describe_security_groups(&query).await.map_err(reading())?);
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }
}

fn not_understood(object: &str) -> impl FnOnce(karpenter_iam::Error) -> Error {
    move |source| Error::Document { object: object.to_owned(), source }
}
