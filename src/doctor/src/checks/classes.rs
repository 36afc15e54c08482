//! EC2NodeClasses: images, reservations, validation.

use std::collections::BTreeSet;

use karpenter_api::{Condition, EC2NodeClass, NodePool};
use karpenter_model::names;

use super::pools::{daemon, switched_on};
use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Reservation, allows};
use crate::repair::Repair;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-17",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "FailedCreatePodSandBox: no address, although the subnets have many",
        cause: "kubelet.maxPods is above what the VPC CNI can address on an instance type that is used or allowed",
        fix: "switch on prefix delegation: `kubectl set env --namespace kube-system daemonset/aws-node ENABLE_PREFIX_DELEGATION=true`; or lower or remove maxPods; with security groups for pods set settings.reservedENIs=1",
        look: Look::At(crowded),
    },
    Check {
        id: "D-37",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the EC2NodeClass is not ready although the rights were granted",
        cause: "the answer of a failed validation is remembered for half an hour",
        fix: "`kubectl annotate ec2nodeclass <class> --overwrite again=<anything else>`, or --fix",
        look: Look::At(unvalidated),
    },
    Check {
        id: "D-43",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "all nodes drift on the day a new image is published",
        cause: "the alias ends with @latest",
        fix: "pin the version (`kubectl get ec2nodeclass <class> --output yaml` has the image in use), and let budgets limit how many nodes are replaced at once",
        look: Look::At(moving_images),
    },
    Check {
        id: "D-44",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "open capacity reservations stay unused since v1.6",
        cause: "with the gate ReservedCapacity, only selected reservations are used",
        fix: "if they are meant for this cluster, add capacityReservationSelectorTerms (`kubectl edit ec2nodeclass <class>`); else `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.featureGates.reservedCapacity=false`",
        look: Look::At(unselected_reservations),
    },
];

fn condition<'a>(class: &'a EC2NodeClass, kind: &str) -> Option<&'a Condition> {
    class.status.as_ref()?.conditions.iter().find(|condition| condition.kind == kind)
}

/// Labels by which a NodePool can keep small types out.
const SIZES: [&str; 5] = [
    names::label::INSTANCE_TYPE,
    names::label::aws::INSTANCE_SIZE,
    names::label::aws::INSTANCE_FAMILY,
    names::label::aws::INSTANCE_CPU,
    names::label::aws::INSTANCE_MEMORY,
];
/// Pods that a large, the smallest size in common use, can address with its interfaces.
const SMALL: u32 = 29;

/// Classes with more pods than addresses. Only the VPC CNI gives addresses of interfaces; without prefixes an interface
/// has few.
fn crowded(facts: &Facts) -> Outcome {
    let Some(driver) = daemon(facts, "aws-node")? else { return Ok(Vec::new()) };
    if switched_on(driver, "ENABLE_PREFIX_DELEGATION") {
        return Ok(Vec::new());
    }
    let rooms = facts.account.pods_by_type.get()?;
    let mut found = Vec::new();
    for class in facts.cluster.node_classes.get()?.decoded() {
        let wanted = class.spec.kubelet.as_ref().and_then(|kubelet| kubelet.settings().max_pods);
        let Some(wanted) = wanted.and_then(|wanted| u32::try_from(wanted).ok()) else { continue };
        let types = facts.cluster.types_of(class)?;
        let known = types.iter().filter_map(|name| Some((name, *rooms.get(name)?)));
        let least = known.min_by_key(|(_, room)| *room).filter(|(_, room)| *room < wanted);
        let open = facts.cluster.pools_of(class)?.into_iter().find(|pool| {
            let mut requirements = pool.spec.template.spec.requirements.iter();
            wanted > SMALL && !requirements.any(|found| SIZES.contains(&found.key.as_str()))
        });
        let why = match (least, open) {
            (Some((name, room)), _) => format!("the interfaces of {name} have addresses for {room}"),
            (None, Some(pool)) => {
                format!("NodePool {} allows types of every size", super::name(&pool.metadata))
            }
            (None, None) => continue,
        };
        let seen = format!("kubelet.maxPods is {wanted}, the VPC CNI does not delegate prefixes, and {why}");
        found.push(Evidence::new(object("EC2NodeClass", &class.metadata), seen));
    }
    Ok(found)
}

fn unvalidated(facts: &Facts) -> Outcome {
    let failed = facts.cluster.node_classes.get()?.decoded().iter().filter_map(|class| {
        let condition = condition(class, names::condition::VALIDATION_SUCCEEDED)?;
        (condition.status.as_str() == "False").then_some((class, condition))
    });
    Ok(failed
        .map(|(class, condition)| {
            let seen = format!("ValidationSucceeded is False: {} {}", condition.reason, condition.message);
            let repair = Repair::Touch { class: name(&class.metadata).to_owned() };
            Evidence::new(object("EC2NodeClass", &class.metadata), seen).with(repair)
        })
        .collect())
}

fn moving_images(facts: &Facts) -> Outcome {
    let moving = facts.cluster.node_classes.get()?.decoded().iter().filter_map(|class| {
        let (family, version) = class.spec.alias()?;
        (version == "latest").then(|| format!("selects {family}@latest")).map(|seen| (class, seen))
    });
    Ok(moving.map(|(class, seen)| Evidence::new(object("EC2NodeClass", &class.metadata), seen)).collect())
}

fn unselected_reservations(facts: &Facts) -> Outcome {
    let gates = facts.cluster.setting("FEATURE_GATES")?.unwrap_or_default();
    let selects = |class: &EC2NodeClass| {
        class.spec.capacity_reservation_selector_terms.as_ref().is_some_and(|terms| !terms.is_empty())
    };
    let classes = facts.cluster.node_classes.get()?.all()?;
    if gates.contains("ReservedCapacity=false") || classes.is_empty() || classes.iter().any(selects) {
        return Ok(Vec::new());
    }
    let zones: BTreeSet<&str> =
        facts.account.subnets.get()?.iter().map(|subnet| subnet.zone.as_str()).collect();
    let pools = facts.cluster.own_pools()?;
    // Others of the account reserve, too: what no NodePool could launch into is theirs.
    let is_in_reach = |found: &&Reservation| {
        let is_open = found.state == "active" && found.match_criteria == "open" && found.available > 0;
        let fits = |pool: &&NodePool| {
            allows(pool, names::label::INSTANCE_TYPE, &found.instance_type)
                && allows(pool, names::label::ZONE, &found.zone)
        };
        is_open && zones.contains(found.zone.as_str()) && pools.iter().any(fits)
    };
    let open = facts.account.reservations.get()?.iter().filter(is_in_reach);
    Ok(open
        .map(|found| {
            let seen = format!(
                "is open for {} {} in {}, and no EC2NodeClass selects it",
                found.available, found.instance_type, found.zone
            );
            Evidence::new(format!("reservation {}", found.id), seen)
        })
        .collect())
}
