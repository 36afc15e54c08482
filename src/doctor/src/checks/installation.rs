//! Definitions, finalizers and leftovers: what an installation or its removal left behind.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_kube_harness::watch::Undecoded;
use karpenter_model::names::finalizer::TERMINATION;

use super::definitions::{is_begun, is_not_deployed, old_definitions};
use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Unseen, is_of_auto_mode};
use crate::repair::Repair;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-26",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "objects cannot be deleted; instance profiles and launch templates stay behind",
        cause: "the controller was removed before its NodePools, NodeClaims and EC2NodeClasses",
        fix: "install the controller again, which removes the finalizers: `helm install karpenter <chart>`; to uninstall remove in this order: NodePools, NodeClaims, EC2NodeClasses, chart, account",
        look: Look::At(orphaned_classes),
    },
    Check {
        id: "D-05",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "strict decoding error: unknown field; Unsupported value; conversion webhook for karpenter.sh failed",
        cause: "the definitions are older than the controller, because Helm never upgrades a chart's `crds/`; or an upgrade by way of v1beta1 has left a conversion webhook or stored versions in them",
        fix: "`karpenter crds | kubectl apply --server-side --force-conflicts -f -`, or the karpenter-crd chart; for a webhook that is left `kubectl patch crd <name> --type merge -p '{\"spec\":{\"conversion\":{\"strategy\":\"None\",\"webhook\":null}}}'`; for stored versions write every object again, as with `kubectl get <kind> -o yaml | kubectl replace -f -`, then `kubectl patch crd <name> --subresource status --type merge -p '{\"status\":{\"storedVersions\":[\"v1\"]}}'`",
        look: Look::At(old_definitions),
    },
    Check {
        id: "D-46",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "a NodePool, NodeClaim or EC2NodeClass takes no part, or is looked at by no check",
        cause: "another release wrote it, with a field or value that this one does not know",
        fix: "compare `karpenter --version` with the controller's image, `kubectl get deployments -A -o wide | grep karpenter`, and run the doctor of that release; if they are the same, correct the field with `kubectl edit`",
        look: Look::At(undecoded),
    },
    Check {
        id: "D-09",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "installing karpenter-crd fails: invalid ownership metadata",
        cause: "definitions belong to no release, because kubectl or the folder `crds/` of a chart made them, or to several",
        fix: "`helm upgrade --install karpenter-crd <chart> --take-ownership` (Helm 3.17 or newer), or --only D-09 --fix, which labels and annotates them as Helm would",
        look: Look::At(torn_definitions),
    },
    Check {
        id: "D-10",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "deleting a Node hangs",
        cause: "its finalizer waits for a controller that is not installed any more",
        fix: "--only D-10 --fix 15 minutes after the deletion, or remove the finalizer karpenter.sh/termination with `kubectl edit node <node>`; then look for instances left: `aws ec2 describe-instances --filters Name=tag-key,Values=karpenter.sh/nodepool`",
        look: Look::At(stuck_nodes),
    },
];

/// The release that the charts' pages install definitions with.
const CRD_RELEASE: &str = "karpenter-crd";
/// Time that a Node waits for its finalizer before `--fix` removes it. Without the finalizer its pods are neither evicted nor
/// are `PodDisruptionBudgets` kept, and a controller that leads without a Lease may be draining it.
const DELETED_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Returns the objects that wait for their finalizer, if no controller is there to remove it. Leases need a right of their own,
/// so they only count where something waits.
fn without_controller<T>(facts: &Facts, ending: Vec<T>) -> Result<Vec<T>, Unseen> {
    let is_gone = !ending.is_empty() && !facts.cluster.is_led(facts.now)?;
    Ok(if is_gone { ending } else { Vec::new() })
}

fn orphaned_classes(facts: &Facts) -> Outcome {
    if !is_not_deployed(facts)? {
        return Ok(Vec::new());
    }
    let classes =
        facts.cluster.node_classes.get()?.decoded().iter().map(|class| ("EC2NodeClass", &class.metadata));
    let claims = facts.cluster.own_claims()?.into_iter().map(|claim| ("NodeClaim", &claim.metadata));
    let ending = claims.chain(classes).filter(|(_, metadata)| metadata.deletion_timestamp.is_some());
    Ok(without_controller(facts, ending.collect())?
        .into_iter()
        .map(|(kind, metadata)| Evidence::new(object(kind, metadata), "waits for its finalizer"))
        .collect())
}

fn stuck_nodes(facts: &Facts) -> Outcome {
    if !is_not_deployed(facts)? {
        return Ok(Vec::new());
    }
    // EKS Auto Mode removes its finalizers itself: `--fix` would cut a drain short.
    let nodes = facts.cluster.nodes.get()?.iter().filter(|node| !is_of_auto_mode(node));
    let stuck = nodes.filter(|node| {
        node.metadata.deletion_timestamp.is_some()
            && node.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TERMINATION)
    });
    let stuck = without_controller(facts, stuck.collect())?;
    Ok(stuck.into_iter().map(|node| stuck_node(node, facts.now)).collect())
}

fn stuck_node(node: &Node, now: Timestamp) -> Evidence {
    let object = object("Node", &node.metadata);
    let deleted = node.metadata.deletion_timestamp.as_ref();
    if deleted.is_none_or(|deleted| now.duration_since(deleted.0) < DELETED_FOR) {
        let minutes = DELETED_FOR.as_mins();
        return Evidence::new(object, format!("waits for {TERMINATION}, not yet for {minutes} minutes"));
    }
    let repair = Repair::DropFinalizer { node: name(&node.metadata).to_owned() };
    Evidence::new(object, format!("waits for {TERMINATION}")).with(repair)
}

fn undecoded(facts: &Facts) -> Outcome {
    let cluster = &facts.cluster;
    let pools = cluster.node_pools.get()?.undecoded().map(|object| ("NodePool", object));
    let claims = cluster.node_claims.get()?.undecoded().map(|object| ("NodeClaim", object));
    let classes = cluster.node_classes.get()?.undecoded().map(|object| ("EC2NodeClass", object));
    let evidence = |(kind, undecoded): (&str, &Undecoded)| {
        let problem = &undecoded.problem;
        Evidence::new(object(kind, &undecoded.metadata), format!("cannot be decoded: {problem}"))
    };
    Ok(pools.chain(claims).chain(classes).map(evidence).collect())
}

/// Name and namespace of the Helm release a definition belongs to.
fn release(crd: &CustomResourceDefinition) -> Option<(String, String)> {
    let annotations = crd.metadata.annotations.as_ref()?;
    let managed = crd.metadata.labels.as_ref()?.get("app.kubernetes.io/managed-by")?;
    (managed == "Helm").then_some(())?;
    Some((
        annotations.get("meta.helm.sh/release-name")?.clone(),
        annotations.get("meta.helm.sh/release-namespace")?.clone(),
    ))
}

fn torn_definitions(facts: &Facts) -> Outcome {
    let ours: BTreeSet<String> =
        karpenter_api::crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
    let installed = facts.cluster.definitions.get()?;
    if !is_begun(installed) && is_not_deployed(facts)? {
        return Ok(Vec::new());
    }
    let installed: Vec<_> = installed.iter().filter(|crd| ours.contains(name(&crd.metadata))).collect();
    let owner = installed.iter().find_map(|crd| release(crd));
    // Operators that manage all of them by other means than Helm do so perhaps on purpose.
    let is_on_purpose = owner.is_none();
    let (name, namespace) =
        owner.unwrap_or_else(|| (CRD_RELEASE.to_owned(), facts.cluster.service_account().0.to_owned()));
    let is_strange = |crd: &&CustomResourceDefinition| {
        release(crd).is_none_or(|(owner, home)| owner != name || home != namespace)
    };
    let evidence = |crd: &CustomResourceDefinition| {
        let repair = Repair::GiveToRelease {
            definition: super::name(&crd.metadata).to_owned(),
            release: name.clone(),
            namespace: namespace.clone(),
        };
        let object = object("CustomResourceDefinition", &crd.metadata);
        if is_on_purpose {
            let seen = "is of no release, so an upgrade of a chart leaves it as it is";
            Evidence::new(object, seen).with(repair).advice_only()
        } else {
            let seen = format!("is not of release `{name}` in `{namespace}`, as others are");
            Evidence::new(object, seen).with(repair)
        }
    };
    Ok(installed.into_iter().filter(is_strange).map(evidence).collect())
}
