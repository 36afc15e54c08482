//! The way from the subnets to AWS (spec aws-operations 1.14, 7.2).

use super::object;
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity, aws, ours, reference};
use crate::facts::{Endpoint, Facts, Unseen};

/// Services that nodes and controller call, wherever they are. Beyond these IAM and pricing have no endpoint in most
/// regions, which `settings.isolatedVPC` is for.
const NEEDED: [&str; 7] = ["ec2", "ecr.api", "ecr.dkr", "eks", "s3", "ssm", "sts"];

/// The call for prices, which most closed networks have no endpoint for: D-38.
const PRICE_LIST: &[&str] = &["getproducts"];

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-13",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "calls to AWS time out",
        cause: "a private cluster lacks VPC endpoints (ec2, ecr.api, ecr.dkr, eks, s3, ssm, sts, sqs, eks-auth), or their security group is closed",
        fix: "`aws ec2 create-vpc-endpoint` for each service, open to the pods' subnets; IAM and pricing have none in most regions: set settings.isolatedVPC and spec.instanceProfile",
        look: Look::Either(
            missing_endpoints,
            &[
                // With a space: a failed look-up of the name says `dial tcp: lookup`.
                reference(&["amazonaws.com", "dial tcp ", "i/o timeout"]),
                aws(&["amazonaws.com", "connect timeout"]),
                // `dispatch failure` is said of calls to AWS only. No host follows.
                ours(&["dispatch failure", "connect timeout"]).without(PRICE_LIST),
                ours(&["dispatch failure", "tcp connect error"]).without(PRICE_LIST),
            ],
        ),
    },
    Check {
        id: "P-14",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "calls to AWS time out although there are VPC endpoints",
        cause: "an endpoint is not available, or the service's names do not lead to it",
        fix: "`aws ec2 describe-vpc-endpoints --vpc-endpoint-ids <endpoint>` says why it failed; switch on its private DNS names: `aws ec2 modify-vpc-endpoint --vpc-endpoint-id <endpoint> --private-dns-enabled`",
        look: Look::At(useless_endpoints),
    },
    Check {
        id: "D-38",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "prices are not refreshed, or are estimates",
        cause: "the VPC does not reach the pricing API, or the region has none",
        fix: "open a way to it: an endpoint for pricing.api, or HTTPS_PROXY in controller.env; else `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.isolatedVPC=true`, and settings.priceFile, without which prices are the figures built in for a few regions and estimates for the others",
        look: Look::Either(
            isolated_without_saying_so,
            &[
                reference(&["updating on-demand pricing", "timeout"]),
                ours(&["getproducts", "dispatch failure"]),
                ours(&["on-demand prices are estimates"]),
            ],
        ),
    },
];

/// The services this cluster needs: also the queue's if there is one, and Pod Identity's if that is how the
/// controller gets its role.
fn needed(facts: &Facts) -> Result<Vec<&'static str>, Unseen> {
    let mut services = NEEDED.to_vec();
    if facts.account.queues.get()?.values().any(Option::is_some) {
        services.push("sqs");
    }
    if facts.account.pod_identity.get()?.is_some() {
        services.push("eks-auth");
    }
    Ok(services)
}

/// `sqs` of `com.amazonaws.eu-west-1.sqs`; AWS also writes `cn.com.amazonaws...`.
fn service<'a>(endpoint: &'a Endpoint, region: &str) -> Option<&'a str> {
    endpoint.service.split_once(&format!(".{region}.")).map(|(_, service)| service)
}

fn missing_endpoints(facts: &Facts) -> Outcome {
    let closed = facts.account.closed_subnets.get()?;
    if closed.is_empty() {
        return Ok(Vec::new());
    }
    let region = facts.account.region.get()?;
    let present = facts.account.endpoints.get()?;
    let is_missing = |wanted: &&str| !present.iter().any(|found| service(found, region) == Some(*wanted));
    let missing: Vec<&str> = needed(facts)?.into_iter().filter(is_missing).collect();
    Ok((!missing.is_empty())
        .then(|| {
            let seen = format!("have no way out, and there is no endpoint for {}", missing.join(", "));
            Evidence::new(format!("subnets {}", closed.join(", ")), seen)
        })
        .into_iter()
        .collect())
}

fn useless_endpoints(facts: &Facts) -> Outcome {
    // Subnets with a way out reach the services without them.
    if facts.account.closed_subnets.get()?.is_empty() {
        return Ok(Vec::new());
    }
    let region = facts.account.region.get()?;
    let needed = needed(facts)?;
    let ours = facts.account.endpoints.get()?.iter();
    let ours = ours.filter(|found| service(found, region).is_some_and(|service| needed.contains(&service)));
    let evidence = |found: &Endpoint| {
        let object = format!("endpoint {} of {}", found.id, found.service);
        if found.state != "available" {
            return Some(Evidence::new(object, format!("is {}", found.state)));
        }
        (found.private_names == Some(false)).then(|| Evidence::new(object, "has no private DNS names"))
    };
    Ok(ours.filter_map(evidence).collect())
}

fn isolated_without_saying_so(facts: &Facts) -> Outcome {
    let closed = facts.account.closed_subnets.get()?;
    let Some(controller) = facts.cluster.controller()?.filter(|_| !closed.is_empty()) else {
        return Ok(Vec::new());
    };
    let says_so = facts.cluster.setting("ISOLATED_VPC")?.as_deref() == Some("true");
    Ok((!says_so)
        .then(|| {
            let seen = format!("ISOLATED_VPC is not `true`, and no way leads out of {}", closed.join(", "));
            Evidence::new(object("Deployment", &controller.metadata), seen)
        })
        .into_iter()
        .collect())
}
