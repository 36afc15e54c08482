//! The CustomResourceDefinition of NodePool (spec scheduling 3).

use serde_json::{Value, json};

use super::definition::{Column, Definition, Scale, Scope};
use super::node_template::{
    Owner, expire_after, labels, node_class_ref, requirements, taints, termination_grace_period,
};
use super::schema::Schema;
use super::{condition, pattern};

pub(super) fn definition() -> Value {
    let definition = Definition {
        group: "karpenter.sh",
        version: "v1",
        kind: "NodePool",
        plural: "nodepools",
        singular: "nodepool",
        short_names: &[],
        category: "karpenter",
        scope: Scope::Cluster,
        columns: vec![
            Column::text("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            Column::text("Nodes", ".status.nodes"),
            Column::ready(),
            Column::age(),
            Column::integer("Weight", ".spec.weight").wide(),
            Column::text("CPU", ".status.resources.cpu").wide(),
            Column::text("Memory", ".status.resources.memory").wide(),
        ],
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.nodes" }),
        description: "NodePool says which nodes may be created and when they may be disrupted.",
        spec_required: true,
    };
    definition.render(spec(), status())
}

fn spec() -> Schema {
    Schema::object()
        .optional("disruption", disruption())
        .optional(
            "limits",
            Schema::map(Schema::quantity()).describe(
                "Resources the pool may hold at most; \"nodes\" counts nodes. Nothing is deleted when a limit shrinks.",
            ),
        )
        .optional(
            "replicas",
            Schema::int64().within(0..).describe(
                "Fixed number of nodes, whatever pods ask for. Makes the pool static for its life. Alpha.",
            ),
        )
        .required("template", template())
        .optional(
            "weight",
            Schema::int32().within(1..=100).describe("Pools with a higher weight are tried first."),
        )
        .rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        )
        .rule(
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
            "only 'limits.nodes' is supported on static NodePools",
        )
        .rule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools")
}

fn template() -> Schema {
    let metadata = Schema::object()
        .optional(
            "annotations",
            Schema::map(Schema::string()).describe("Annotations of every node of the pool."),
        )
        .optional("labels", labels());
    let reference = node_class_ref()
        .rule("self.group == oldSelf.group", "nodeClassRef.group is immutable")
        .rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable");
    let spec = Schema::object()
        .optional("expireAfter", expire_after())
        .required("nodeClassRef", reference)
        .required("requirements", requirements(Owner::Pool))
        .optional("startupTaints", taints("Taints something else removes once the node can run pods."))
        .optional("taints", taints("Taints of every node of the pool."))
        .optional("terminationGracePeriod", termination_grace_period());
    Schema::object()
        .describe("The NodeClaims the pool creates.")
        .optional("metadata", metadata)
        .required("spec", spec)
}

fn disruption() -> Schema {
    Schema::object()
        .default_value(json!({"consolidateAfter": "0s"}))
        .describe("When nodes may be disrupted, and how many at once.")
        .optional("budgets", budgets())
        .optional(
            "consolidateAfter",
            Schema::string()
                .default_value("0s")
                .pattern(pattern::DURATION_OR_NEVER)
                .describe("How long a node must be free of pod changes before it is consolidated, or Never."),
        )
        .optional(
            "consolidationPolicy",
            Schema::string().default_value("WhenEmptyOrUnderutilized").one_of([
                "WhenEmpty",
                "WhenEmptyOrUnderutilized",
                "Balanced",
            ]),
        )
}

fn budgets() -> Schema {
    let budget = Schema::object()
        .optional(
            "duration",
            Schema::string()
                .pattern(pattern::BUDGET_DURATION)
                .describe("How long the budget applies from each activation of the schedule."),
        )
        .required(
            "nodes",
            Schema::string()
                .default_value("10%")
                .pattern(pattern::BUDGET_NODES)
                .describe("Nodes that may be disrupted at once, as a number or a percentage."),
        )
        .optional(
            "reasons",
            Schema::list(Schema::string().one_of(["Underutilized", "Empty", "Drifted", "Unhealthy"]))
                .items(..=50)
                .list_type("set")
                .describe("The reasons the budget is for; unset means every reason."),
        )
        .optional(
            "schedule",
            Schema::string()
                .pattern(pattern::CRON)
                .describe(
                    "Cron expression in UTC, or in the time zone that precedes it as CRON_TZ=Europe/Berlin: when the \
                     budget begins to apply.",
                ),
        );
    Schema::list(budget)
        .default_value(json!([{"nodes": "10%"}]))
        .items(..=50)
        .list_type("atomic")
        .describe("Limits on voluntary disruption; the tightest active one counts.")
        .rule("self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'")
}

fn status() -> Schema {
    Schema::object()
        .optional("conditions", condition::conditions().keyed_by("type"))
        .optional(
            "nodeClassObservedGeneration",
            Schema::int64().describe("Generation of the node class that registration health was judged for."),
        )
        .optional("nodes", Schema::int64().default_value(0).describe("Number of nodes."))
        .optional("resources", Schema::map(Schema::quantity()).describe("Sum of the capacity of the nodes."))
}
