//! EC2NodeClasses: images, reservations, validation.

use karpenter_api::{Condition, EC2NodeClass};

use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::Facts;
use crate::repair::Repair;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-17",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "FailedCreatePodSandBox: no address, although the subnets have many",
        cause: "kubelet.maxPods is above what the interfaces of the instance can address",
        fix: "switch on prefix delegation in the VPC CNI, or lower or remove maxPods; with security groups for pods set settings.reservedENIs=1",
        look: Look::At(crowded),
    },
    Check {
        id: "D-37",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the EC2NodeClass is not ready although the rights were granted",
        cause: "the answer of a failed validation is remembered for half an hour",
        fix: "change an annotation of the class, or --fix",
        look: Look::At(unvalidated),
    },
    Check {
        id: "D-43",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "all nodes drift on the day a new image is published",
        cause: "the alias ends with @latest",
        fix: "pin the version, and let budgets limit how many nodes are replaced at once",
        look: Look::At(moving_images),
    },
    Check {
        id: "D-44",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "open capacity reservations stay unused since v1.6",
        cause: "with the gate ReservedCapacity, only selected reservations are used",
        fix: "add capacityReservationSelectorTerms to the class, or set settings.featureGates.reservedCapacity=false",
        look: Look::At(unselected_reservations),
    },
];

fn condition<'a>(class: &'a EC2NodeClass, kind: &str) -> Option<&'a Condition> {
    class.status.as_ref()?.conditions.iter().find(|condition| condition.kind == kind)
}

fn crowded(facts: &Facts) -> Outcome {
    let daemon_sets = facts.cluster.daemon_sets.get()?;
    let containers = daemon_sets
        .iter()
        .filter(|set| name(&set.metadata) == "aws-node")
        .filter_map(|set| set.spec.as_ref()?.template.spec.as_ref())
        .flat_map(|spec| &spec.containers);
    let delegates = containers.flat_map(|container| container.env.iter().flatten()).any(|variable| {
        variable.name == "ENABLE_PREFIX_DELEGATION" && variable.value.as_deref() == Some("true")
    });
    if delegates {
        return Ok(Vec::new());
    }
    // 29 is what the smallest type in common use, a large, can address with its interfaces.
    let many = facts.cluster.node_classes.get()?.iter().filter_map(|class| {
        let most = class.spec.kubelet.as_ref()?.max_pods.filter(|most| *most > 29)?;
        Some((class, most))
    });
    Ok(many
        .map(|(class, most)| {
            let seen = format!("kubelet.maxPods is {most}, and the VPC CNI does not delegate prefixes");
            Evidence::new(object("EC2NodeClass", &class.metadata), seen)
        })
        .collect())
}

fn unvalidated(facts: &Facts) -> Outcome {
    let failed = facts.cluster.node_classes.get()?.iter().filter_map(|class| {
        let condition = condition(class, "ValidationSucceeded")?;
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
    let moving = facts.cluster.node_classes.get()?.iter().filter_map(|class| {
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
    let classes = facts.cluster.node_classes.get()?;
    if gates.contains("ReservedCapacity=false") || classes.is_empty() || classes.iter().any(selects) {
        return Ok(Vec::new());
    }
    let open = facts.account.reservations.get()?.iter();
    let open = open.filter(|found| found.state == "active" && found.match_criteria == "open");
    Ok(open
        .map(|found| {
            Evidence::new(format!("reservation {}", found.id), "is open, and no EC2NodeClass selects it")
        })
        .collect())
}
