//! The CustomResourceDefinition of NodeClaim (spec scheduling 4).

use serde_json::Value;

use super::condition;
use super::definition::{Column, Definition, Scope};
use super::node_template::{
    Owner, expire_after, node_class_ref, requirements, taints, termination_grace_period,
};
use super::schema::Schema;

pub(super) fn definition() -> Value {
    let definition = Definition {
        group: "karpenter.sh",
        version: "v1",
        kind: "NodeClaim",
        plural: "nodeclaims",
        singular: "nodeclaim",
        short_names: &[],
        category: "karpenter",
        scope: Scope::Cluster,
        columns: vec![
            Column::text("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            Column::text("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
            Column::text("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            Column::text("Node", ".status.nodeName"),
            Column::ready(),
            Column::age(),
            Column::text("ImageID", ".status.imageID").wide(),
            Column::text("ID", ".status.providerID").wide(),
            Column::text("NodePool", r".metadata.labels.karpenter\.sh/nodepool").wide(),
            Column::text("NodeClass", ".spec.nodeClassRef.name").wide(),
            Column::text("Drifted", r#".status.conditions[?(@.type=="Drifted")].status"#).wide(),
        ],
        scale: None,
        description: "NodeClaim is the request for one machine and the state of that machine.",
        spec_required: true,
    };
    definition.render(spec(), status())
}

fn spec() -> Schema {
    let resources = Schema::object()
        .describe("The least the machine must offer to pods.")
        .optional("requests", Schema::map(Schema::quantity()));
    Schema::object()
        .optional("expireAfter", expire_after())
        .required("nodeClassRef", node_class_ref())
        .required("requirements", requirements(Owner::Claim))
        .optional("resources", resources)
        .optional("startupTaints", taints("Taints something else removes once the node can run pods."))
        .optional("taints", taints("Taints of the node."))
        .optional("terminationGracePeriod", termination_grace_period())
        .rule("self == oldSelf", "spec is immutable")
}

fn status() -> Schema {
    let resources = || Schema::map(Schema::quantity());
    Schema::object()
        .optional("allocatable", resources().describe("What the machine offers to pods, as estimated."))
        .optional("capacity", resources().describe("What the machine has, as estimated."))
        .optional("conditions", condition::relaxed_conditions().keyed_by("type"))
        .optional("imageID", Schema::string())
        .optional(
            "lastPodEventTime",
            Schema::date_time()
                .describe("When a pod was last bound or removed, accurate to about ten seconds."),
        )
        .optional("nodeName", Schema::string())
        .optional("providerID", Schema::string())
}
