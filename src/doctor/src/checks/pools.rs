//! NodePools: types, labels and taints that nodes need for what runs on them.

use k8s_openapi::api::apps::v1::DaemonSet;
use karpenter_api::NodePool;
use karpenter_model::names::{self, label::CAPACITY_TYPE};

use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Unseen, allows, listed};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-11",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "c1.medium and m1.small never register",
        cause: "their images come with swap on the instance store, which kubelet refuses",
        fix: "exclude them (`kubectl edit nodepool <pool>`), or switch swap off in user data",
        look: Look::At(swapping_types),
    },
    Check {
        id: "D-14",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "pods with security groups stay in ContainerCreating for up to half an hour",
        cause: "the scheduler places them before the VPC resource controller has attached the trunk interface",
        fix: "add the label vpc.amazonaws.com/has-trunk-attached=\"false\" to the template: `kubectl edit nodepool <pool>`",
        look: Look::At(trunks),
    },
    Check {
        id: "D-16",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "fresh nodes get more volumes than they can attach",
        cause: "the scheduler places pods before the storage driver has said how many volumes the node takes",
        fix: "add the startup taint ebs.csi.aws.com/agent-not-ready:NoExecute (or efs.csi.aws.com/...): `kubectl edit nodepool <pool>`",
        look: Look::At(driver_taints),
    },
    Check {
        id: "D-45",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "pods never use capacity reservations",
        cause: "the NodePool of a class with reservations allows on-demand, but not `reserved`, which is a capacity type of its own",
        fix: "allow karpenter.sh/capacity-type In [on-demand, reserved]: `kubectl edit nodepool <pool>`",
        look: Look::At(reservations_out_of_reach),
    },
];

const SWAPPING: [&str; 2] = ["c1.medium", "m1.small"];
/// `DaemonSet` of a driver, and the taint that waits for it.
const DRIVERS: [(&str, &str); 2] = [
    ("ebs-csi-node", "ebs.csi.aws.com/agent-not-ready"),
    ("efs-csi-node", "efs.csi.aws.com/agent-not-ready"),
];

/// Answer to whether nodes of a capacity type are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launched {
    /// Some NodePool allows it, or not all could be asked: an account that is looked at by itself is to be ready for all.
    Yes,
    /// No NodePool allows it.
    No,
    /// There is no NodePool yet.
    NotYet,
}

/// Returns whether some NodePool may launch instances of a capacity type. A pool without that requirement allows all of them.
/// Instances launched by EKS Auto Mode need nothing that is looked at here.
pub(super) fn launched(facts: &Facts, capacity: &str) -> Launched {
    match facts.cluster.all_own_pools() {
        Err(_) => Launched::Yes,
        Ok(pools) if pools.is_empty() => Launched::NotYet,
        Ok(pools) if pools.iter().any(|pool| allows(pool, CAPACITY_TYPE, capacity)) => Launched::Yes,
        Ok(_) => Launched::No,
    }
}

fn swapping_types(facts: &Facts) -> Outcome {
    let mut found = Vec::new();
    for pool in facts.cluster.own_pools()? {
        for listed in listed(pool, names::label::INSTANCE_TYPE) {
            if SWAPPING.contains(&listed) {
                found.push(Evidence::new(object("NodePool", &pool.metadata), format!("allows {listed}")));
            }
        }
    }
    Ok(found)
}

/// A DaemonSet by its name.
pub(super) fn daemon<'a>(facts: &'a Facts, wanted: &str) -> Result<Option<&'a DaemonSet>, Unseen> {
    Ok(facts.cluster.daemon_sets.get()?.iter().find(|set| name(&set.metadata) == wanted))
}

/// Returns whether a container of the DaemonSet has this variable with the value `true`.
pub(super) fn switched_on(set: &DaemonSet, wanted: &str) -> bool {
    let spec = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let variables =
        spec.into_iter().flat_map(|spec| &spec.containers).flat_map(|found| found.env.iter().flatten());
    variables.filter(|variable| variable.name == wanted).any(|found| found.value.as_deref() == Some("true"))
}

fn trunks(facts: &Facts) -> Outcome {
    if !daemon(facts, "aws-node")?.is_some_and(|set| switched_on(set, "ENABLE_POD_ENI")) {
        return Ok(Vec::new());
    }
    let lacks = |pool: &&NodePool| {
        let labels = pool.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        !labels.is_some_and(|labels| labels.contains_key("vpc.amazonaws.com/has-trunk-attached"))
    };
    let pools = facts.cluster.own_pools()?.into_iter().filter(lacks);
    Ok(pools
        .map(|pool| {
            let seen = "has no label vpc.amazonaws.com/has-trunk-attached while ENABLE_POD_ENI is true";
            Evidence::new(object("NodePool", &pool.metadata), seen)
        })
        .collect())
}

fn driver_taints(facts: &Facts) -> Outcome {
    let mut found = Vec::new();
    for (set, taint) in DRIVERS {
        if daemon(facts, set)?.is_none() {
            continue;
        }
        for pool in facts.cluster.own_pools()? {
            let startup = pool.spec.template.spec.startup_taints.iter().flatten();
            if !startup.map(|startup| &startup.key).any(|key| key == taint) {
                let seen = format!("has no startup taint {taint} while DaemonSet {set} runs");
                found.push(Evidence::new(object("NodePool", &pool.metadata), seen));
            }
        }
    }
    Ok(found)
}

fn reservations_out_of_reach(facts: &Facts) -> Outcome {
    let classes = facts.cluster.node_classes.get()?.decoded();
    let mut found = Vec::new();
    for pool in facts.cluster.own_pools()? {
        let class = &pool.spec.template.spec.node_class_ref.name;
        let reserves = classes.iter().any(|found| {
            name(&found.metadata) == class
                && found
                    .spec
                    .capacity_reservation_selector_terms
                    .as_ref()
                    .is_some_and(|terms| !terms.is_empty())
        });
        let types = listed(pool, CAPACITY_TYPE);
        if reserves && types.contains(&"on-demand") && !types.contains(&"reserved") {
            let seen =
                format!("allows {CAPACITY_TYPE} {}; EC2NodeClass {class} has reservations", types.join(", "));
            found.push(Evidence::new(object("NodePool", &pool.metadata), seen));
        }
    }
    Ok(found)
}
