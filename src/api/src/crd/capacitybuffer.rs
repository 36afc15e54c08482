//! The CustomResourceDefinition of CapacityBuffer [alpha: `CapacityBuffer`], an API shared with Cluster
//! Autoscaler (spec scheduling 6).

use serde_json::Value;

use super::condition;
use super::definition::{Column, Definition, Scope};
use super::schema::Schema;

pub(super) fn definition() -> Value {
    let definition = Definition {
        group: "autoscaling.x-k8s.io",
        version: "v1beta1",
        kind: "CapacityBuffer",
        plural: "capacitybuffers",
        singular: "capacitybuffer",
        short_names: &["cb"],
        category: "autoscaling",
        scope: Scope::Namespaced,
        columns: vec![
            Column::text("Strategy", ".spec.provisioningStrategy"),
            Column::text("PodTemplate", ".status.podTemplateRef.name"),
            Column::integer("Replicas", ".status.replicas"),
            Column::text("ConditionsType", ".status.conditions[*].type"),
            Column::text("ConditionsStatus", ".status.conditions[*].status"),
            Column::text("ConditionsReason", ".status.conditions[*].reason"),
            Column::age(),
        ],
        scale: None,
        description: "CapacityBuffer keeps room for pods that do not exist yet.",
        spec_required: true,
    };
    definition.render(spec(), status())
}

fn spec() -> Schema {
    let scalable = Schema::object()
        .describe("The workload whose pods are buffered.")
        .optional("apiGroup", Schema::string().describe("Empty means apps."))
        .required("kind", Schema::string().length(1..))
        .required("name", Schema::string().length(1..));
    Schema::object()
        .optional(
            "limits",
            Schema::map(Schema::quantity()).describe("Resources the buffered pods may add up to."),
        )
        .optional(
            "percentage",
            Schema::int32().within(0..).describe("Buffered pods as a share of the workload's replicas."),
        )
        .optional("podTemplateRef", pod_template_ref())
        .optional("provisioningStrategy", Schema::string().default_value("buffer.x-k8s.io/active-capacity"))
        .optional("replicas", Schema::int32().within(0..).describe("Number of buffered pods."))
        .optional("scalableRef", scalable)
        .rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "'replicas' or 'limits' must be set with 'podTemplateRef'",
        )
        .rule(
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "cannot set both 'podTemplateRef' and 'scalableRef'",
        )
}

fn status() -> Schema {
    Schema::object()
        .optional("conditions", condition::conditions().keyed_by("type"))
        .optional("podTemplateGeneration", Schema::int64())
        .optional("podTemplateRef", pod_template_ref())
        .optional("provisioningStrategy", Schema::string())
        .optional("replicas", Schema::int32())
}

fn pod_template_ref() -> Schema {
    Schema::object()
        .describe("A PodTemplate of the same namespace.")
        .required("name", Schema::string().length(1..))
}
