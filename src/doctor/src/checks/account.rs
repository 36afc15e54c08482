//! Roles, names, subnets and groups of the account (spec aws-operations 1.14).

use karpenter_aws_client::Partition;

use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Role, Unseen};
use crate::repair::Repair;

/// Longest role name of IAM, less what stands before the cluster's name.
const CLUSTER_NAME_MAX: usize = 64 - "KarpenterNodeRole-".len();
/// Free addresses below which a subnet soon has none: two dense nodes take as many.
const FREE_ADDRESSES_LOW: u32 = 64;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-1",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Account,
        symptom: "CloudFormation or IAM refuses a name with ValidationError",
        cause: "names made of the cluster's name exceed 64 characters for roles and rules, 80 for queues",
        fix: "let `karpenter bootstrap` shorten them, or give names: --node-role-name, --controller-role-name, --queue-name",
        look: Look::At(long_name),
    },
    Check {
        id: "P-5",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "instance profiles are made again and again; iam:PassRole is denied",
        cause: "the EC2NodeClass names its role with a path; IAM compares bare names",
        fix: "write only the last segment into spec.role",
        look: Look::At(role_with_path),
    },
    Check {
        id: "P-6",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "iam:PassRole is denied, or instances cannot take their role",
        cause: "the node role does not trust EC2",
        fix: "`karpenter bootstrap apply`, which knows the service names of every partition",
        look: Look::At(untrusting_role),
    },
    Check {
        id: "P-16",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "spot instances never launch",
        cause: "the account has no service-linked role for spot, and the controller may not create it",
        fix: "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, or --fix",
        look: Look::At(no_spot_role),
    },
    Check {
        id: "P-17",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "SecurityGroupsNotFound, or the load balancer controller complains about several groups",
        cause: "no security group carries the discovery tag, or several that also carry kubernetes.io/cluster/<name>",
        fix: "tag exactly one such group with karpenter.sh/discovery=<cluster>",
        look: Look::At(discovery_groups),
    },
    Check {
        id: "P-18",
        also: &["D-33"],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "nodes never register; kubelet logs Unauthorized",
        cause: "no access entry and no line of aws-auth lets the node role join the cluster",
        fix: "`karpenter bootstrap apply`, or aws eks create-access-entry --type EC2_LINUX",
        look: Look::At(node_role_not_admitted),
    },
    Check {
        id: "P-28",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "launches in a Local Zone fail",
        cause: "a discovery-tagged subnet is in a Local Zone, where gp3 volumes often do not exist",
        fix: "remove the tag from that subnet, or use a class with gp2 volumes for it",
        look: Look::At(local_zones),
    },
    Check {
        id: "D-04",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "creating the role is refused",
        cause: "the name of a role exceeds 64 characters",
        fix: "choose a shorter name",
        look: Look::At(long_role),
    },
    Check {
        id: "D-18",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "FailedCreatePodSandBox: no address can be assigned",
        cause: "a subnet is nearly out of addresses",
        fix: "add subnets, a larger CIDR, custom networking or IPv6",
        look: Look::At(full_subnets),
    },
];

#[expect(clippy::unnecessary_wraps, reason = "a check has the shape of all checks")]
fn long_name(facts: &Facts) -> Outcome {
    let length = facts.cluster_name.len();
    let is_long = length > CLUSTER_NAME_MAX;
    Ok(is_long
        .then(|| {
            let seen =
                format!("the name has {length} characters, role names have room for {CLUSTER_NAME_MAX}");
            Evidence::new(format!("cluster {}", facts.cluster_name), seen)
        })
        .into_iter()
        .collect())
}

/// Name and role of each EC2NodeClass that has one.
pub(super) fn class_roles(facts: &Facts) -> Result<Vec<(String, String)>, Unseen> {
    let classes = facts.cluster.node_classes.get()?;
    Ok(classes
        .iter()
        .filter_map(|class| Some((super::object("EC2NodeClass", &class.metadata), class.spec.role.clone()?)))
        .collect())
}

fn role_with_path(facts: &Facts) -> Outcome {
    let roles = class_roles(facts)?.into_iter().filter(|(_, role)| role.contains('/'));
    Ok(roles.map(|(class, role)| Evidence::new(class, format!("spec.role is `{role}`"))).collect())
}

fn long_role(facts: &Facts) -> Outcome {
    let roles = class_roles(facts)?.into_iter().filter(|(_, role)| role.len() > 64);
    Ok(roles
        .map(|(class, role)| Evidence::new(class, format!("spec.role has {} characters", role.len())))
        .collect())
}

fn untrusting_role(facts: &Facts) -> Outcome {
    let principal = format!("ec2.{}", Partition::of_region(facts.account.region.get()?).dns_suffix());
    let untrusting = node_roles(facts)?
        .into_iter()
        .filter(|(_, role)| !role.trust.contains(&principal) && !role.trust.contains("ec2.amazonaws.com"));
    Ok(untrusting
        .map(|(name, _)| Evidence::new(format!("role {name}"), format!("does not trust {principal}")))
        .collect())
}

/// Roles that exist and that nodes take: those of the classes, and the one bootstrap makes. Before there is a cluster
/// only the latter.
fn node_roles(facts: &Facts) -> Result<Vec<(&String, &Role)>, Unseen> {
    let named = match facts.cluster.node_classes.if_asked()? {
        Some(_) => class_roles(facts)?,
        None => Vec::new(),
    };
    let is_node_role = |name: &str| {
        name.starts_with("KarpenterNodeRole-")
            || named.iter().any(|(_, role)| role.rsplit('/').next() == Some(name))
    };
    let roles = facts.account.roles.get()?.iter().filter_map(|(name, role)| Some((name, role.as_ref()?)));
    Ok(roles.filter(|(name, _)| is_node_role(name)).collect())
}

fn no_spot_role(facts: &Facts) -> Outcome {
    let missing = !facts.account.spot_role.get()?;
    Ok(missing
        .then(|| {
            Evidence::new("role AWSServiceRoleForEC2Spot", "does not exist").with(Repair::CreateSpotRole)
        })
        .into_iter()
        .collect())
}

fn discovery_groups(facts: &Facts) -> Outcome {
    let groups = facts.account.security_groups.get()?;
    let tag = format!("karpenter.sh/discovery={}", facts.cluster_name);
    if groups.is_empty() {
        return Ok(vec![Evidence::new("security groups", format!("none has the tag {tag}"))]);
    }
    let owned = format!("kubernetes.io/cluster/{}", facts.cluster_name);
    let both: Vec<&str> = groups
        .iter()
        .filter(|group| group.tags.contains_key(&owned))
        .map(|group| group.id.as_str())
        .collect();
    Ok((both.len() > 1)
        .then(|| Evidence::new(both.join(", "), format!("all have the tags {tag} and {owned}")))
        .into_iter()
        .collect())
}

fn node_role_not_admitted(facts: &Facts) -> Outcome {
    let Some(cluster) = facts.account.eks.get()? else {
        return Ok(vec![Evidence::new(format!("cluster {}", facts.cluster_name), "EKS does not know it")]);
    };
    let mode = cluster.authentication_mode.as_deref().unwrap_or("CONFIG_MAP");
    let entries = if mode == "CONFIG_MAP" { &Vec::new() } else { facts.account.access_entries.get()? };
    let mut missing = node_roles(facts)?;
    missing.retain(|(name, _)| {
        let suffix = format!("/{name}");
        !entries.iter().any(|entry| entry.principal.ends_with(&suffix))
    });
    if !missing.is_empty() && mode != "API" {
        let map = aws_auth(facts)?;
        missing.retain(|(name, _)| !map.contains(&format!("role/{name}")));
    }
    let seen = format!("neither an access entry nor aws-auth names it; authentication mode is {mode}");
    Ok(missing.into_iter().map(|(name, _)| Evidence::new(format!("role {name}"), seen.clone())).collect())
}

/// The roles in `aws-auth`; empty when it does not exist.
fn aws_auth(facts: &Facts) -> Result<String, Unseen> {
    let maps = facts.cluster.config_maps.get()?;
    let map = maps.iter().find(|map| super::name(&map.metadata) == "aws-auth");
    Ok(map.and_then(|map| map.data.as_ref()?.get("mapRoles").cloned()).unwrap_or_default())
}

fn local_zones(facts: &Facts) -> Outcome {
    // `us-west-2-lax-1a`: a region's own zones have no further part.
    let is_local = |zone: &str| zone.matches('-').count() > 2 && !zone.starts_with("us-gov-");
    let subnets = facts.account.subnets.get()?.iter().filter(|subnet| is_local(&subnet.zone));
    Ok(subnets
        .map(|subnet| Evidence::new(format!("subnet {}", subnet.id), format!("is in {}", subnet.zone)))
        .collect())
}

fn full_subnets(facts: &Facts) -> Outcome {
    let subnets = facts.account.subnets.get()?;
    if subnets.is_empty() {
        let tag = format!("karpenter.sh/discovery={}", facts.cluster_name);
        return Ok(vec![Evidence::new("subnets", format!("none has the tag {tag}"))]);
    }
    let full = subnets.iter().filter(|subnet| subnet.free_addresses < FREE_ADDRESSES_LOW);
    Ok(full
        .map(|subnet| {
            let seen = format!("{} addresses are free in {}", subnet.free_addresses, subnet.zone);
            Evidence::new(format!("subnet {}", subnet.id), seen)
        })
        .collect())
}
