//! Compares what should be with what is, and yields the steps from one to the other. Pure.

mod network;

use std::collections::BTreeMap;

use karpenter_aws_api::Tags;

use crate::desired::interruption::{KEY_ATTRIBUTE, SQS_KEY_ATTRIBUTE};
use crate::desired::{
    self, AccessEntry, Desired, ManagedPolicy, OWNER_TAG, Purpose, Queue, RULE_TARGET_ID, Role, Rule,
};
use crate::observe::{self, Observed, POD_IDENTITY_AGENT, is_ours, takes_access_entries};
use crate::policy::node;
use crate::policy::trust::STS_AUDIENCE;
use crate::resource_owner::{OTHER_NAMES, ResourceOwner};
use crate::settings::{Foreign, Identity, IpFamily, Removable, Settings};
use crate::step::{Step, Tagged};

/// AWS keeps this many versions of a managed policy.
const POLICY_VERSIONS_MAX: usize = 5;

/// The steps, and what stands in their way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps in the order they have to be done.
    pub steps: Vec<Step>,
    /// Reasons why the plan must not be carried out; empty when it may.
    pub conflicts: Vec<String>,
    /// Notes for the operator; they stop nothing.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns whether the account already is as it should be.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.conflicts.is_empty()
    }
}

/// Plans the way from `observed` to `desired`, which was computed from `settings`.
///
/// A queue that is encrypted with a key stays so when settings name none, and the controller may go on using that key.
pub fn plan(settings: &Settings, desired: &Desired, observed: &Observed) -> Plan {
    let Some(key) = kept_key(settings, observed) else { return everything(settings, desired, observed) };
    let settings = Settings { queue_kms_key: Some(key), ..settings.clone() };
    everything(&settings, &desired::desired(&settings), observed)
}

fn everything(settings: &Settings, desired: &Desired, observed: &Observed) -> Plan {
    let mut planner = Planner { settings, desired, observed, plan: Plan::default() };
    planner.spot_role();
    for policy in &desired.policies {
        planner.policy(policy);
    }
    for role in &desired.roles {
        planner.role(role);
    }
    planner.ipv6_policy();
    planner.existing_node_role();
    planner.oidc_provider();
    planner.instance_profile();
    planner.queue();
    for rule in &desired.rules {
        planner.rule(rule);
    }
    for entry in &desired.access_entries {
        planner.access_entry(entry);
    }
    planner.pod_identity();
    planner.discovery();
    planner.plan
}

/// Plans only what a stack leaves to us: the discovery tags, and what stands in the way of either.
pub fn surroundings(settings: &Settings, desired: &Desired, observed: &Observed) -> Plan {
    let mut planner = Planner { settings, desired, observed, plan: Plan::default() };
    planner.ipv6_policy();
    planner.existing_node_role();
    planner.oidc_provider();
    planner.queue_key();
    if let Some(entry) = desired.access_entries.first() {
        planner.takes_access_entries(&entry.principal);
    }
    planner.pod_identity_agent();
    planner.discovery();
    planner.plan
}

struct Planner<'a> {
    settings: &'a Settings,
    desired: &'a Desired,
    observed: &'a Observed,
    plan: Plan,
}

impl Planner<'_> {
    fn step(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    /// Plans to put right the tags that lack or differ. Which tags an earlier run gave cannot be known, so none is ever
    /// taken off.
    fn tags(&mut self, object: Tagged, wanted: &Tags, existing: &Tags) {
        let differing: Tags = wanted
            .iter()
            .filter(|(key, value)| existing.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !differing.is_empty() {
            self.step(Step::Tag { object, tags: differing });
        }
    }

    /// Returns whether something under our name is ours, or becomes so. Otherwise it is in the way, which is noted.
    fn owned(&mut self, what: &str, tags: &Tags, how: &str) -> bool {
        let cluster = &self.settings.cluster;
        let maker = ResourceOwner::of(tags, self.settings);
        if maker == ResourceOwner::Us {
            return true;
        }
        if matches!(maker, ResourceOwner::OtherRegion { .. }) {
            self.plan.conflicts.push(format!("{what} exists already{}: {OTHER_NAMES}", maker.phrase()));
            return false;
        }
        if self.settings.foreign == Foreign::Adopted && maker.may_be_adopted() {
            if let ResourceOwner::Stack(stack) = &maker {
                self.note(format!(
                    "CloudFormation stack `{stack}` still owns {what}: give its resources \
                     `DeletionPolicy: Retain` before you delete it"
                ));
            }
            return true;
        }
        self.plan.conflicts.push(format!(
            "{what} exists and does not carry the tag {OWNER_TAG}={cluster}{}: {how}",
            maker.phrase()
        ));
        if maker.may_be_adopted() {
            self.note(
                "what is in the way may do as it is: `karpenter bootstrap check` says whether it does, and `karpenter \
                 bootstrap apply --adopt` takes over what was made for this cluster"
                    .to_owned(),
            );
        }
        false
    }

    /// Returns whether something that serves as it is and stands in no way is ours, or becomes so.
    fn is_or_becomes_ours(&self, tags: &Tags) -> bool {
        let maker = ResourceOwner::of(tags, self.settings);
        maker == ResourceOwner::Us || (self.settings.foreign == Foreign::Adopted && maker.may_be_adopted())
    }

    fn note(&mut self, note: String) {
        if !self.plan.notes.contains(&note) {
            self.plan.notes.push(note);
        }
    }

    fn spot_role(&mut self) {
        if !self.observed.spot_role {
            self.step(Step::CreateSpotRole);
        }
    }

    fn policy(&mut self, wanted: &ManagedPolicy) {
        let Some(existing) = self.observed.policies.get(&wanted.arn) else {
            return self.step(Step::CreatePolicy(wanted.clone()));
        };
        if !self.owned(
            &format!("policy `{}`", wanted.name),
            &existing.tags,
            "delete it, or take it over with --adopt",
        ) {
            return;
        }
        if !existing.document.says(&wanted.document) {
            self.step(Step::UpdatePolicy { policy: wanted.clone(), spare: spare_versions(existing) });
        }
        self.tags(Tagged::Policy(wanted.arn.clone()), &wanted.tags, &existing.tags);
    }

    fn role(&mut self, wanted: &Role) {
        let Some(existing) = self.observed.roles.get(&wanted.name) else {
            self.step(Step::CreateRole(wanted.clone()));
            for policy in &wanted.attached {
                self.step(Step::AttachPolicy { role: wanted.name.clone(), policy: policy.clone() });
            }
            return;
        };
        let named = wanted.purpose == Purpose::Nodes
            && self.settings.node_role_name.is_some()
            && self.settings.foreign == Foreign::InTheWay;
        if named && !is_ours(&existing.role.tags, self.settings) {
            if self.at_its_path(wanted, existing, "name it with --node-role-arn") {
                self.foreign_node_role(existing);
            }
            return;
        }
        let how = "choose another name, or take it over with --adopt";
        if !self.owned(&format!("role `{}`", wanted.name), &existing.role.tags, how)
            || !self.at_its_path(wanted, existing, "pass its path with --iam-path, or choose another name")
        {
            return;
        }
        if !existing.trust.says(&wanted.trust) {
            self.step(Step::UpdateTrust { role: wanted.name.clone(), trust: wanted.trust.clone() });
        }
        let boundary = existing.role.permissions_boundary.as_ref().map(ToString::to_string);
        let taken_off = self.settings.take_off.contains(&Removable::PermissionsBoundary);
        if boundary != wanted.boundary && (wanted.boundary.is_some() || taken_off) {
            self.step(Step::SetBoundary { role: wanted.name.clone(), boundary: wanted.boundary.clone() });
        }
        self.tags(Tagged::Role(wanted.name.clone()), &wanted.tags, &existing.role.tags);
        self.attachments(wanted, existing);
    }

    /// Role names are unique across paths, so a role may exist under another ARN than the one that policies and access
    /// entries would name. Returns whether it does not.
    fn at_its_path(&mut self, wanted: &Role, existing: &observe::Role, how: &str) -> bool {
        let expected = self.settings.iam_arn(&format!("role{}{}", wanted.path, wanted.name));
        let found = &existing.role.arn;
        if found.as_str() != expected {
            self.plan
                .conflicts
                .push(format!("role `{}` exists as {found}, not as {expected}: {how}", wanted.name));
        }
        found.as_str() == expected
    }

    /// The node role the operator named by ARN: it has to be there, and is never changed.
    fn existing_node_role(&mut self) {
        let Some(arn) = &self.settings.existing_node_role else { return };
        match &self.observed.existing_node_role {
            Some(existing) if existing.role.arn.as_str() == arn => self.foreign_node_role(existing),
            Some(existing) => self.plan.conflicts.push(format!(
                "role `{}` is {}, not {arn}: pass its ARN as it is with --node-role-arn",
                existing.role.name, existing.role.arn
            )),
            None => self.plan.conflicts.push(format!(
                "role {arn} does not exist: create it, or leave --node-role-arn out to have one made"
            )),
        }
    }

    /// A node role the operator made: used as it is.
    fn foreign_node_role(&mut self, existing: &observe::Role) {
        let needed = node::managed_policies(self.settings);
        for policy in needed.iter().filter(|policy| !existing.attached.contains(policy)) {
            self.plan.notes.push(format!(
                "role `{}` is yours and is left alone, but nodes usually need {policy} attached to it",
                existing.role.name
            ));
        }
    }

    /// AWS has no policy for the network plugin of IPv6 clusters. The account's own is made once for all of them, so it is
    /// neither made nor changed here.
    fn ipv6_policy(&mut self) {
        let settings = self.settings;
        let makes_nodes = self.desired.roles.iter().any(|role| role.purpose != Purpose::Controller);
        if settings.ip_family != Some(IpFamily::V6) || self.observed.ipv6_policy || !makes_nodes {
            return;
        }
        self.plan.conflicts.push(format!(
            "cluster `{}` is of IPv6 and the account has no policy `{}`, which its nodes need: make it with `aws iam \
             create-policy --policy-name {} --policy-document '{}'`, or pass --ip-family ipv4 where the network plugin has \
             a role of its own",
            settings.cluster,
            node::cni_ipv6_policy(settings),
            node::CNI_IPV6_POLICY,
            node::cni_ipv6_document(settings).to_json()
        ));
    }

    /// Service accounts can assume the role only through a provider that IAM has; making one is left to
    /// the owner of the cluster, because every other service account of the cluster depends on it too.
    fn oidc_provider(&mut self) {
        let Identity::Irsa { issuer } = &self.settings.identity else { return };
        match &self.observed.oidc_provider {
            None => self.plan.conflicts.push(format!(
                "IAM knows no identity provider for the cluster's issuer {issuer}: make it with `aws iam \
                 create-open-id-connect-provider --url https://{issuer} --client-id-list {STS_AUDIENCE}`, or use \
                 --identity pod-identity"
            )),
            Some(provider) if !provider.client_ids.iter().any(|client| client == STS_AUDIENCE) => {
                self.plan.conflicts.push(format!(
                    "the identity provider of {issuer} does not take the audience {STS_AUDIENCE}: add it with \
                     `aws iam add-client-id-to-open-id-connect-provider`"
                ));
            }
            Some(_) => {}
        }
    }

    fn attachments(&mut self, wanted: &Role, existing: &observe::Role) {
        for policy in wanted.attached.iter().filter(|policy| !existing.attached.contains(policy)) {
            self.step(Step::AttachPolicy { role: wanted.name.clone(), policy: policy.clone() });
        }
        // Policies of ours from an earlier, larger split. What users attached themselves stays.
        for arn in existing.attached.iter().filter(|arn| !wanted.attached.contains(arn)) {
            let Some(policy) = self.observed.policies.get(arn) else { continue };
            if is_ours(&policy.tags, self.settings) {
                self.step(Step::DetachPolicy { role: wanted.name.clone(), policy: arn.clone() });
                self.step(Step::DeletePolicy { policy: arn.clone(), versions: other_versions(policy) });
            }
        }
    }

    fn instance_profile(&mut self) {
        let wanted = &self.desired.instance_profile;
        let current = match &self.observed.instance_profile {
            None => {
                self.step(Step::CreateInstanceProfile(wanted.clone()));
                None
            }
            Some(existing) => {
                let what = format!("instance profile `{}`", wanted.name);
                if !self.owned(&what, &existing.tags, "delete it, or take it over with --adopt") {
                    return;
                }
                self.tags(Tagged::InstanceProfile(wanted.name.clone()), &wanted.tags, &existing.tags);
                existing.role.clone()
            }
        };
        if current.as_ref() != Some(&wanted.role) {
            self.step(Step::FillInstanceProfile {
                profile: wanted.name.clone(),
                role: wanted.role.clone(),
                replaces: current,
            });
        }
    }

    fn queue_key(&mut self) {
        if let Some(key) = &self.settings.queue_kms_key {
            self.plan.notes.push(format!(
                "the policy of {key} must let the service events.amazonaws.com use kms:Decrypt and \
                 kms:GenerateDataKey, or no message reaches the queue"
            ));
        } else if let Some(alias) = self.observed.queue.as_ref().and_then(observe::Queue::key)
            && !self.settings.take_off.contains(&Removable::QueueKmsKey)
        {
            self.plan.notes.push(format!(
                "the queue stays encrypted with {alias}: pass the ARN of that key with --queue-kms-key, so that the \
                 controller may use it"
            ));
        }
    }

    fn queue(&mut self) {
        let wanted = &self.desired.queue;
        self.queue_key();
        let Some(existing) = &self.observed.queue else {
            return self.step(Step::CreateQueue(wanted.clone()));
        };
        // Two clusters on one queue lose each other's interruptions (spec aws-operations 1.14, P-12).
        let how = "two clusters must not share a queue, choose another one with --queue-name";
        if !self.owned(&format!("queue `{}`", wanted.name), &existing.tags, how) {
            return;
        }
        let attributes = differing_attributes(self.settings, wanted, existing);
        if !attributes.is_empty() {
            self.step(Step::UpdateQueue { name: wanted.name.clone(), url: existing.url.clone(), attributes });
        }
        let object = Tagged::Queue(wanted.name.clone(), existing.url.clone());
        self.tags(object, &wanted.tags, &existing.tags);
    }

    fn rule(&mut self, wanted: &Rule) {
        let target = Step::PutTarget { rule: wanted.name.clone(), target: wanted.target.clone() };
        let Some(existing) = self.observed.rules.get(&wanted.name) else {
            self.step(Step::PutRule { rule: wanted.clone(), fresh: true });
            return self.step(target);
        };
        let how = "delete it, or take it over with --adopt";
        if !self.owned(&format!("rule `{}`", wanted.name), &existing.tags, how) {
            return;
        }
        let pattern = existing.rule.pattern.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if pattern.as_ref() != Some(&wanted.pattern) || !existing.rule.enabled {
            self.step(Step::PutRule { rule: wanted.clone(), fresh: false });
        }
        if existing.target() != Some(wanted.target.as_str()) {
            self.step(target);
        }
        let object = Tagged::Rule(wanted.name.clone(), existing.rule.arn.clone());
        self.tags(object, &wanted.tags, &existing.tags);
    }

    /// Notes that the cluster takes no access entries, if that is so. Returns whether it does.
    fn takes_access_entries(&mut self, principal: &str) -> bool {
        if !takes_access_entries(self.observed.cluster.as_ref()) {
            self.plan.conflicts.push(format!(
                "cluster `{}` does not take access entries: switch its authentication mode to API_AND_CONFIG_MAP, \
                 or pass --no-access-entry and map {principal} in the aws-auth ConfigMap",
                self.settings.cluster
            ));
            return false;
        }
        true
    }

    /// Returns whether the role is not there and will be made: an existing entry belongs to a role of the same name that was
    /// deleted.
    fn makes_role_of(&self, principal: &str) -> bool {
        let name = principal.rsplit('/').next().unwrap_or_default();
        self.desired.roles.iter().any(|role| role.name == name) && !self.observed.roles.contains_key(name)
    }

    fn access_entry(&mut self, wanted: &AccessEntry) {
        if !self.takes_access_entries(&wanted.principal) {
            return;
        }
        let Some(existing) = self.observed.access_entries.get(&wanted.principal) else {
            return self.step(Step::CreateAccessEntry(wanted.clone()));
        };
        let is_stale =
            self.observed.is_older_than_its_role(existing) || self.makes_role_of(&wanted.principal);
        // An entry of the right type lets the nodes join, whichever tool made it.
        if existing.kind == wanted.kind && !is_stale {
            if self.is_or_becomes_ours(&existing.tags) {
                let object = Tagged::AccessEntry(wanted.principal.clone(), existing.arn.clone());
                self.tags(object, &wanted.tags, &existing.tags);
            }
            return;
        }
        let what = format!("access entry of `{}` (type {})", wanted.principal, existing.kind);
        let why = if is_stale {
            "EKS knows the role by an id that it had before it was made again".to_owned()
        } else {
            format!("nodes need type {}", wanted.kind)
        };
        let how = format!("{why}, delete it, or take it over with --adopt");
        if self.owned(&what, &existing.tags, &how) {
            self.step(Step::ReplaceAccessEntry(wanted.clone()));
        }
    }

    fn pod_identity_agent(&mut self) {
        if self.desired.pod_identity.is_some() && self.observed.pod_identity_agent.is_none() {
            self.plan.notes.push(format!(
                "cluster `{}` has no add-on {POD_IDENTITY_AGENT}: without it the controller gets no credentials",
                self.settings.cluster
            ));
        }
    }

    fn pod_identity(&mut self) {
        let Some(wanted) = &self.desired.pod_identity else { return };
        self.pod_identity_agent();
        let Some(existing) = &self.observed.pod_identity else {
            return self.step(Step::CreatePodIdentity(wanted.clone()));
        };
        if existing.role.as_str() != wanted.role {
            let what = format!(
                "pod identity association of `{}/{}` with {}",
                existing.namespace, existing.service_account, existing.role
            );
            let how = "choose another service account with --service-account, delete it, or take it over with --adopt";
            if !self.owned(&what, &existing.tags, how) {
                return;
            }
            self.step(Step::UpdatePodIdentity { id: existing.id.clone(), role: wanted.role.clone() });
        }
        if self.is_or_becomes_ours(&existing.tags) {
            let object = Tagged::PodIdentity(existing.id.clone(), existing.arn.clone());
            self.tags(object, &wanted.tags, &existing.tags);
        }
    }
}

/// The key that encrypts the queue and stays, as an ARN, because the controller's policy has to name it.
fn kept_key(settings: &Settings, observed: &Observed) -> Option<String> {
    if settings.queue_kms_key.is_some() || settings.take_off.contains(&Removable::QueueKmsKey) {
        return None;
    }
    let key = observed.queue.as_ref().and_then(observe::Queue::key)?;
    // SQS returns whatever it was given. The key of an alias is not known here: see `queue_key`.
    let bare = !key.contains(['/', ':']);
    let arn = || format!("arn:{}:kms:{}:{}:key/{key}", settings.partition, settings.region, settings.account);
    if bare { Some(arn()) } else { Some(key.to_owned()).filter(|key| key.starts_with("arn:")) }
}

/// The attributes whose value differs, the policy compared by meaning.
fn differing_attributes(
    settings: &Settings,
    wanted: &Queue,
    existing: &observe::Queue,
) -> BTreeMap<String, String> {
    let mut differing: BTreeMap<String, String> = wanted
        .attributes
        .iter()
        .filter(|(name, value)| existing.attributes.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if settings.take_off.contains(&Removable::QueueKmsKey) && existing.key().is_some() {
        differing.insert(KEY_ATTRIBUTE.to_owned(), String::new());
    } else if existing
        .key()
        .is_some_and(|key| wanted.attributes.get(KEY_ATTRIBUTE).is_none_or(|arn| arn.ends_with(key)))
    {
        // The key stays, however it is spelled, and the two ways to encrypt exclude each other.
        differing.retain(|name, _| name != KEY_ATTRIBUTE && name != SQS_KEY_ATTRIBUTE);
    }
    if !existing.policy.as_ref().is_some_and(|policy| policy.says(&wanted.policy)) {
        differing.insert("Policy".to_owned(), wanted.policy.to_json());
    }
    differing
}

/// Versions to delete before a new one can be made: the oldest non-default ones.
fn spare_versions(policy: &observe::Policy) -> Vec<String> {
    let surplus = (policy.versions.len() + 1).saturating_sub(POLICY_VERSIONS_MAX);
    let mut versions: Vec<_> = policy.versions.iter().filter(|version| !version.is_default).collect();
    versions.sort_by_key(|version| version.created_at);
    versions.into_iter().take(surplus).map(|version| version.id.clone()).collect()
}

/// All versions but the default one, which is deleted with the policy.
pub(crate) fn other_versions(policy: &observe::Policy) -> Vec<String> {
    policy.versions.iter().filter(|version| !version.is_default).map(|version| version.id.clone()).collect()
}

/// Every target of a rule, to be removed before the rule.
pub(crate) fn target_ids(rule: &observe::Rule) -> Vec<String> {
    let mut ids: Vec<_> = rule.targets.iter().map(|target| target.id.clone()).collect();
    if ids.is_empty() {
        ids.push(RULE_TARGET_ID.to_owned());
    }
    ids
}
