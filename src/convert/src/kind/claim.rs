//! Machine of v1alpha5 and NodeClaim of v1beta1 as NodeClaim of v1.
//!
//! A Machine or NodeClaim stands for one instance that runs. Applied to another cluster, or after its deletion, it asks for one
//! more, which is why every conversion ends with a decision.

use karpenter_api::nodeclaim::ClaimResources;
use karpenter_api::{Duration, NillableDuration, NodeClaimSpec};

use crate::fields::Fields;
use crate::kind::kubelet;
use crate::kind::pool::class_of_claim;
use crate::kind::requirements::{self, Owner};
use crate::log::{Kind, Log};

/// The claim that the fields describe; `reference` is the name of the field that names the class.
pub(crate) fn from_old(mut fields: Fields, reference: &'static str, log: &Log) -> NodeClaimSpec {
    let taints = requirements::taints(&mut fields, "taints", "spec.taints", log);
    let startup_taints = requirements::taints(&mut fields, "startupTaints", "spec.startupTaints", log);
    let requirements = requirements::requirements(&mut fields, "spec.requirements", Owner::Claim, log);
    let node_class_ref = class_of_claim(&mut fields, reference, "spec.nodeClassRef", log);
    let resources = fields.read::<ClaimResources>("resources").map(|found| {
        log.at(Kind::Mapped, &found.path, found.line, "-> spec.resources");
        found.value
    });
    for name in ["kubelet", "kubeletConfiguration"] {
        if let Some(kubelet) = kubelet::read(&mut fields, name, log) {
            let text = "left out: the class has these settings in v1, written there with those of the pool";
            log.at(Kind::Noted, &kubelet.path, kubelet.line, text);
        }
    }
    // Machines had none; claims have theirs from their pool.
    let termination_grace_period = (reference == "nodeClassRef")
        .then(|| fields.read::<Duration>("terminationGracePeriod"))
        .flatten()
        .map(|found| {
            log.at(Kind::Mapped, &found.path, found.line, "-> spec.terminationGracePeriod");
            found.value
        });
    fields.finish();
    log.say(Kind::Added, "spec.expireAfter", "Never: in older versions the pool decided when a node expires");
    let text = "stands for one instance; applying it asks for one more, and the pool does not count the old one: leave it \
                out unless you want a machine of its own, and let the controller replace the old node";
    log.say(Kind::Decide, "", text);
    NodeClaimSpec {
        taints,
        startup_taints,
        requirements,
        resources,
        node_class_ref,
        termination_grace_period,
        expire_after: NillableDuration::never(),
    }
}
