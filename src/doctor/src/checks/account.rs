//! Roles, names, subnets and groups of the account (spec aws-operations 1.14).

use karpenter_aws_api::Partition;
use karpenter_iam::Request;

use super::policies::{any, gathered, lets};
use super::pools::{Launched, launched};
use super::{joining, name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Role, Subnet, Unseen};
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
        fix: "write only the last segment into spec.role: `kubectl edit ec2nodeclass <class>`",
        look: Look::At(role_with_path),
    },
    Check {
        id: "P-6",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "iam:PassRole is denied, or instances cannot take their role",
        cause: "the node role does not trust EC2",
        fix: "`karpenter bootstrap apply --cluster-name <cluster>`, which knows the service names of every partition; for a role of your own `aws iam update-assume-role-policy --role-name <role>`",
        look: Look::At(untrusting_role),
    },
    Check {
        id: "P-16",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "spot instances never launch",
        cause: "the account has no service-linked role for spot, and the controller may not create it",
        fix: "`aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`, or --fix",
        look: Look::At(no_spot_role),
    },
    Check {
        id: "P-17",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "SecurityGroupsNotFound, or the load balancer controller complains about several groups",
        cause: "the selector terms of an EC2NodeClass select no security group, or several that carry kubernetes.io/cluster/<name>",
        fix: "select one such group: by the tag karpenter.sh/discovery=<cluster>, which `karpenter bootstrap apply --cluster-name <cluster>` gives, or by its id, with `kubectl edit ec2nodeclass <class>`",
        look: Look::At(discovery_groups),
    },
    Check {
        id: "P-18",
        also: &["D-33"],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "nodes never register; kubelet logs Unauthorized",
        cause: "no access entry and no line of aws-auth lets the node role join the cluster; entries of type STANDARD are for people, and one that is older than its role is of a role that was deleted",
        fix: "`karpenter bootstrap apply --cluster-name <cluster>`, or `aws eks create-access-entry --cluster-name <cluster> --principal-arn <role> --type EC2_LINUX`; delete an entry of another type, or one that is older than its role, first",
        look: Look::At(node_role_not_admitted),
    },
    Check {
        id: "P-28",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "launches in a Local Zone fail",
        cause: "a selected subnet is in a Local Zone, where gp3 volumes often do not exist",
        fix: "do not select that subnet (`kubectl edit ec2nodeclass <class>`), or use a class with gp2 volumes for it",
        look: Look::At(local_zones),
    },
    Check {
        id: "D-04",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "creating the role is refused",
        cause: "the name of a role exceeds 64 characters",
        fix: "choose a shorter name: `kubectl edit ec2nodeclass <class>`",
        look: Look::At(long_role),
    },
    Check {
        id: "D-18",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "FailedCreatePodSandBox: no address can be assigned",
        cause: "a subnet is nearly out of addresses, or an EC2NodeClass selects none",
        fix: "add subnets, a larger CIDR, custom networking or IPv6; correct subnetSelectorTerms: `kubectl edit ec2nodeclass <class>`",
        look: Look::At(full_subnets),
    },
];

#[expect(clippy::unnecessary_wraps, reason = "all checks have one signature")]
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
    let classes = facts.cluster.node_classes.get()?.decoded();
    Ok(classes
        .iter()
        .filter_map(|class| Some((object("EC2NodeClass", &class.metadata), class.spec.role.clone()?)))
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
    let principal = Partition::of_region(facts.account.region.get()?).ec2_principal();
    gathered(node_roles(facts)?.into_iter().map(|(name, role)| {
        let trusted = any([principal.as_str(), "ec2.amazonaws.com"].map(|service| {
            lets(&role.trust, [Request::new("sts:AssumeRole", &role.arn).by("Service", service)])
        }));
        let evidence = || Evidence::new(format!("role {name}"), format!("does not trust {principal}"));
        Ok((!trusted?).then(evidence))
    }))
}

/// Roles that exist and that nodes take: those of the classes, and the one bootstrap makes. Before there is a cluster
/// only the latter.
fn node_roles(facts: &Facts) -> Result<Vec<(&String, &Role)>, Unseen> {
    let named = match facts.cluster.node_classes.if_asked()? {
        Some(_) => class_roles(facts)?,
        None => Vec::new(),
    };
    let is_node_role = |name: &str| {
        name == facts.names.node_role || named.iter().any(|(_, role)| role.rsplit('/').next() == Some(name))
    };
    let roles = facts.account.roles.get()?.iter().filter_map(|(name, role)| Some((name, role.as_ref()?)));
    Ok(roles.filter(|(name, _)| is_node_role(name)).collect())
}

fn no_spot_role(facts: &Facts) -> Outcome {
    if *facts.account.spot_role.get()? {
        return Ok(Vec::new());
    }
    let missing =
        Evidence::new("role AWSServiceRoleForEC2Spot", "does not exist").with(Repair::CreateSpotRole);
    Ok(match launched(facts, "spot") {
        Launched::Yes => vec![missing],
        Launched::NotYet => vec![missing.advice_only()],
        Launched::No => Vec::new(),
    })
}

/// Names of the EC2NodeClasses; `None` while there is none to select anything.
fn selecting(facts: &Facts) -> Result<Option<Vec<&str>>, Unseen> {
    let Some(classes) = facts.cluster.node_classes.if_asked()? else { return Ok(None) };
    if classes.decoded().is_empty() {
        return classes.all().map(|_| None);
    }
    Ok(Some(classes.decoded().iter().map(|class| name(&class.metadata)).collect()))
}

/// Reports that nothing has the tag that classes usually select by. Until there is a class, that is no more than advice.
fn untagged(facts: &Facts, what: &str) -> Vec<Evidence> {
    let tag = format!("karpenter.sh/discovery={}", facts.cluster_name);
    vec![Evidence::new(what, format!("none has the tag {tag}, to be selected by")).advice_only()]
}

fn discovery_groups(facts: &Facts) -> Outcome {
    let groups = facts.account.security_groups.get()?;
    let Some(classes) = selecting(facts)? else {
        return Ok(if groups.is_empty() { untagged(facts, "security groups") } else { Vec::new() });
    };
    let owned = format!("kubernetes.io/cluster/{}", facts.cluster_name);
    let mut found = Vec::new();
    for class in classes {
        let selected: Vec<_> = groups.iter().filter(|group| group.classes.contains(class)).collect();
        let of_cluster: Vec<&str> = selected
            .iter()
            .filter(|group| group.tags.contains_key(&owned))
            .map(|group| group.id.as_str())
            .collect();
        let class = format!("EC2NodeClass {class}");
        if selected.is_empty() {
            found.push(Evidence::new(class, "securityGroupSelectorTerms select none"));
        } else if of_cluster.len() > 1 {
            let seen = format!("selects {}, which all have the tag {owned}", of_cluster.join(", "));
            found.push(Evidence::new(class, seen));
        }
    }
    Ok(found)
}

fn node_role_not_admitted(facts: &Facts) -> Outcome {
    let Some(mode) = joining::mode(facts)? else {
        return Ok(vec![Evidence::new(format!("cluster {}", facts.cluster_name), "EKS does not know it")]);
    };
    let entries = joining::entries(facts)?;
    let entry_of = |name: &str| {
        let suffix = format!("/{name}");
        entries.iter().find(|entry| entry.principal.ends_with(&suffix))
    };
    let roles = node_roles(facts)?;
    // EKS ties an entry to the id of its role: terraform-aws-eks#3329.
    let is_older = |name: &str| {
        let role = roles.iter().find(|(of, _)| *of == name);
        let made = role.and_then(|(_, role)| role.created_at);
        made.zip(entry_of(name)?.created_at).map(|(role, entry)| entry < role)
    };
    let lets_in = |name: &str| {
        let of_nodes = entry_of(name).is_some_and(|entry| entry.kind.starts_with("EC2_"));
        of_nodes && is_older(name) != Some(true)
    };
    let mut missing: Vec<_> = roles.iter().filter(|(name, _)| !lets_in(name)).collect();
    if !missing.is_empty() {
        let map = joining::mappings(facts)?;
        missing.retain(|(name, _)| !map.iter().any(|mapping| mapping.is_of(name)));
    }
    let seen = |name: &str| {
        match entry_of(name) {
        Some(_) if is_older(name) == Some(true) => {
            "its access entry is older than the role, which was made again under its name: EKS knows the one that was \
             deleted, so no node joins"
                .to_owned()
        }
        Some(entry) => format!("its access entry is of type {}, which lets no node join", entry.kind),
        None => format!("neither an access entry nor aws-auth names it; authentication mode is {mode}"),
    }
    };
    Ok(missing.into_iter().map(|(name, _)| Evidence::new(format!("role {name}"), seen(name))).collect())
}

fn local_zones(facts: &Facts) -> Outcome {
    // `us-west-2-lax-1a`: a region's own zones add a letter to its name, whatever its name is made of.
    let region = facts.account.region.get()?;
    let is_local = |zone: &str| zone.strip_prefix(region).is_some_and(|rest| rest.starts_with('-'));
    let subnets = facts.account.subnets.get()?.iter().filter(|subnet| is_local(&subnet.zone));
    Ok(subnets
        .map(|subnet| Evidence::new(format!("subnet {}", subnet.id), format!("is in {}", subnet.zone)))
        .collect())
}

fn full_subnets(facts: &Facts) -> Outcome {
    let subnets = facts.account.subnets.get()?;
    let Some(classes) = selecting(facts)? else {
        return Ok(if subnets.is_empty() { untagged(facts, "subnets") } else { low_on_addresses(subnets) });
    };
    let bare =
        classes.into_iter().filter(|class| !subnets.iter().any(|found| found.classes.contains(*class)));
    let bare =
        bare.map(|class| Evidence::new(format!("EC2NodeClass {class}"), "subnetSelectorTerms select none"));
    Ok(bare.chain(low_on_addresses(subnets)).collect())
}

fn low_on_addresses(subnets: &[Subnet]) -> Vec<Evidence> {
    let full = subnets.iter().filter(|subnet| subnet.free_addresses < FREE_ADDRESSES_LOW);
    full.map(|subnet| {
        let seen = format!("{} addresses are free in {}", subnet.free_addresses, subnet.zone);
        Evidence::new(format!("subnet {}", subnet.id), seen)
    })
    .collect()
}
