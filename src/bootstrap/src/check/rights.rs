//! Verdicts of policies on calls: the role's policies on the controller's calls, documents with principals on the calls
//! of those that have to be let in.
//!
//! A check has less information than IAM at the call: the tags of an operator's own, the address it is made from. A
//! right that depends on that is neither granted nor missing.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_iam::{Decision, Denial, Policies, Request};

use crate::desired::ManagedPolicy;
use crate::observe::{Observed, Role};
use crate::policy::{Found, Statement};
use crate::settings::Settings;

const PASSED_TO: &str = "iam:PassedToService";
/// Things of EC2 that the controller uses and others make: the node classes name them, if any.
const OF_OTHERS: [&str; 6] =
    ["image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"];

/// Verdict of a document on some calls, from the best to the worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccessDecision {
    Granted,
    /// It depends on what is not known here, in words.
    Unclear(String),
    Refused,
}

impl AccessDecision {
    /// Returns the verdict of a trust document or of a queue's policy on one call.
    pub(super) fn of(document: &Found, request: Request) -> Self {
        match Policies::of(vec![document.policy.clone()]).decide(&request.partial()) {
            Decision::Allowed(_) => Self::Granted,
            Decision::Denied(denial @ Denial::Undecided { .. }) => Self::Unclear(denial.to_string()),
            Decision::Denied(_) => Self::Refused,
        }
    }
}

/// Grants of a role's policies: its own, those attached, AWS's among them.
pub(super) struct Granted<'a> {
    policies: Policies,
    /// Policies that could not be read.
    pub(super) unread: Vec<&'a str>,
}

/// Permissions that the controller needs and the policies of its role do not grant.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    /// An action, or an action on a resource; with the statement that denies it, if one does.
    pub(super) missing: BTreeSet<String>,
    /// Names of those statements.
    pub(super) denying: BTreeSet<String>,
    /// Actions of which it is not known whether they are granted.
    pub(super) unclear: BTreeSet<String>,
    /// Reasons why those are unclear.
    pub(super) reasons: BTreeSet<String>,
}

/// A call the controller makes.
struct Call<'a> {
    /// Resource, as the statement that has to grant the action names it.
    resource: &'a str,
    request: Request,
    /// The resource is an example of what others make.
    of_others: bool,
}

impl<'a> Granted<'a> {
    pub(super) fn of(role: &'a Role, observed: &'a Observed) -> Self {
        let attached = role.attached.iter().filter_map(|arn| observed.policies.get(arn));
        let own = role.own.values().flatten();
        let documents = attached.map(|policy| &policy.document).chain(own);
        let policies = Policies::of(documents.map(|document| document.policy.clone()).collect());
        let attached = role.attached.iter().filter(|arn| observed.unread_policies.contains(*arn));
        let own = role.own.iter().filter(|(_, document)| document.is_none()).map(|(name, _)| name);
        Self { policies, unread: attached.chain(own).map(String::as_str).collect() }
    }

    /// Asks for every call that the desired policies are there for.
    pub(super) fn lacking(&self, settings: &Settings, role: &Role, policies: &[ManagedPolicy]) -> Lacking {
        let mut calls: BTreeMap<&str, Vec<Call<'_>>> = BTreeMap::new();
        for statement in policies.iter().flat_map(|policy| &policy.document.statements) {
            for action in &statement.actions {
                calls.entry(action).or_default().extend(needed(settings, role, statement, action));
            }
        }
        let mut lacking = Lacking::default();
        for (action, calls) in calls {
            self.ask(action, &calls, &mut lacking);
        }
        lacking
    }

    fn ask(&self, action: &str, calls: &[Call<'_>], lacking: &mut Lacking) {
        let mut refused = Vec::new();
        for call in calls {
            let Decision::Denied(denial) = self.policies.decide(&call.request) else { continue };
            let is_unclear = match &denial {
                Denial::Undecided { .. } => true,
                Denial::NotGranted { nearest } => call.of_others && nearest.is_some(),
                Denial::Explicit { .. } | Denial::OutsideBoundary { .. } => false,
            };
            if is_unclear {
                lacking.unclear.insert(action.to_owned());
                lacking.reasons.insert(denial.to_string());
            } else {
                refused.push((call.resource, denial));
            }
        }
        // Resources are named where they make the difference.
        let first = refused.first().map(|(_, denial)| denial);
        let in_general = refused.len() == calls.len()
            && refused.iter().all(|(_, denial)| Some(denial) == first && is_about_the_action(denial));
        for (resource, denial) in &refused {
            let on = if in_general { String::new() } else { format!(" on {resource}") };
            let by = match denial {
                Denial::Explicit { sid } => {
                    lacking.denying.insert(sid.clone());
                    format!(" (denied by `{sid}`)")
                }
                _ => String::new(),
            };
            lacking.missing.insert(format!("{action}{on}{by}"));
        }
    }
}

fn is_about_the_action(denial: &Denial) -> bool {
    matches!(denial, Denial::Explicit { .. } | Denial::NotGranted { nearest: None })
}

/// The calls of one action that a statement is there for, as that statement requires them.
fn needed<'a>(
    settings: &Settings,
    role: &Role,
    statement: &'a Statement,
    action: &str,
) -> impl Iterator<Item = Call<'a>> {
    statement.resources.iter().filter(move |resource| touches(statement, action, kind(resource))).flat_map(
        move |resource| {
            let of_others = OF_OTHERS.contains(&kind(resource))
                || settings.extra_ssm_parameters.iter().any(|pattern| pattern == resource);
            requests(settings, role, statement, action, resource).into_iter().map(move |request| Call {
                resource,
                request,
                of_others,
            })
        },
    )
}

/// Statements list actions and resources apart; not every action is about every resource.
fn touches(statement: &Statement, action: &str, kind: &str) -> bool {
    let makes = || statement.conditions.values().flat_map(BTreeMap::keys).any(|key| is_request_tag(key));
    match action {
        "ec2:TerminateInstances" | "ec2:RebootInstances" => kind == "instance",
        "ec2:CreateLaunchTemplate" | "ec2:DeleteLaunchTemplate" => kind == "launch-template",
        "ec2:RunInstances" if kind == "fleet" => false,
        // A launch uses a template and gives tags to what it makes.
        "ec2:RunInstances" | "ec2:CreateFleet" if kind == "launch-template" => !makes(),
        _ => true,
    }
}

fn is_request_tag(key: &str) -> bool {
    key.starts_with("aws:RequestTag/")
}

fn requests(
    settings: &Settings,
    role: &Role,
    statement: &Statement,
    action: &str,
    resource: &str,
) -> Vec<Request> {
    let mut request = Request::new(action, &example(settings, action, resource))
        .partial()
        .with("aws:SecureTransport", "true")
        .with("aws:PrincipalArn", role.role.arn.as_str())
        .with("aws:PrincipalAccount", &settings.account);
    // The calls of other services go to a region of the partition's choice.
    if ["ec2:", "eks:", "sqs:", "ssm:"].iter().any(|service| action.starts_with(service)) {
        request = request.with("aws:RequestedRegion", &settings.region);
    }
    let mut passed_to = Vec::new();
    for (operator, keys) in &statement.conditions {
        for (key, values) in keys {
            match values.as_slice() {
                _ if key == PASSED_TO => passed_to.clone_from(values),
                _ if key == "ec2:CreateAction" => request = request.with(key, creation(kind(resource))),
                _ if operator.starts_with("ForAllValues:") => {
                    request = request.with_all(key, values.iter().cloned());
                }
                [any, ..] if operator == "StringLike" && any == "*" => request = request.with(key, "default"),
                [value, ..] => request = request.with(key, value),
                [] => {}
            }
        }
    }
    if passed_to.is_empty() {
        return vec![request];
    }
    // The policy names both spellings everywhere; only in China are both used.
    passed_to.retain(|service| service == "ec2.amazonaws.com" || *service == settings.ec2_principal);
    passed_to.iter().map(|service| request.clone().with(PASSED_TO, service)).collect()
}

/// The call that makes a thing, which tags it.
fn creation(kind: &str) -> &'static str {
    match kind {
        "fleet" => "CreateFleet",
        "launch-template" => "CreateLaunchTemplate",
        _ => "RunInstances",
    }
}

/// One resource of those a pattern of ours stands for, as the controller finds or names it.
fn example(settings: &Settings, action: &str, resource: &str) -> String {
    let Settings { region, cluster, .. } = settings;
    match action {
        "iam:ListInstanceProfiles" => return settings.iam_arn("instance-profile/"),
        "arc-zonal-shift:GetManagedResource" => return settings.cluster_arn(),
        _ => {}
    }
    let mut parts: Vec<&str> = resource.splitn(6, ':').collect();
    let [.., account, rest] = parts.as_mut_slice() else { return resource.to_owned() };
    if *account == "*" {
        *account = &settings.account;
    }
    let named = match *rest {
        "instance-profile/*" => {
            format!("instance-profile/karpenter/{region}/{cluster}/0123456789/{cluster}_0123456789")
        }
        "parameter/aws/service/*" => {
            "parameter/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
                .to_owned()
        }
        pattern => pattern.replace('*', &format!("{}0123456789abcdef0", id_prefix(kind(resource)))),
    };
    *rest = &named;
    parts.join(":")
}

/// Returns the beginning of ids of EC2.
fn id_prefix(kind: &str) -> &'static str {
    match kind {
        "capacity-reservation" => "cr-",
        "fleet" => "fleet-",
        "image" => "ami-",
        "instance" => "i-",
        "launch-template" => "lt-",
        "network-interface" => "eni-",
        "security-group" => "sg-",
        "snapshot" => "snap-",
        "spot-instances-request" => "sir-",
        "subnet" => "subnet-",
        "volume" => "vol-",
        _ => "",
    }
}

/// `instance` of `arn:aws:ec2:eu-west-1:*:instance/*`.
fn kind(arn: &str) -> &str {
    let rest = arn.splitn(6, ':').nth(5).unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn examples_are_what_the_controller_handles() {
        for (action, resource, wanted) in [
            ("ec2:DescribeImages", "*", "*"),
            (
                "ec2:RunInstances",
                "arn:aws:ec2:eu-west-1:*:subnet/*",
                "arn:aws:ec2:eu-west-1:123456789012:subnet/subnet-0123456789abcdef0",
            ),
            (
                "ec2:RunInstances",
                "arn:aws:ec2:eu-west-1::image/*",
                "arn:aws:ec2:eu-west-1::image/ami-0123456789abcdef0",
            ),
            ("iam:PassRole", "arn:aws:iam::123456789012:role/nodes", "arn:aws:iam::123456789012:role/nodes"),
            (
                "iam:GetInstanceProfile",
                "arn:aws:iam::123456789012:instance-profile/*",
                "arn:aws:iam::123456789012:instance-profile/karpenter/eu-west-1/prod/0123456789/prod_0123456789",
            ),
            ("iam:ListInstanceProfiles", "*", "arn:aws:iam::123456789012:instance-profile/"),
        ] {
            assert_eq!(example(&settings(), action, resource), wanted);
        }
    }
}
