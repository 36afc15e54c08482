//! The CustomResourceDefinition of NodeOverlay [alpha: `NodeOverlay`] (spec scheduling 5).

use serde_json::Value;

use super::condition;
use super::definition::{Column, Definition, Scope};
use super::node_template::{Owner, requirement_key};
use super::schema::Schema;

/// Plus or minus an amount, plus any percentage, or minus up to 100 percent.
const PRICE_ADJUSTMENT: &str = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";

pub(super) fn definition() -> Value {
    let definition = Definition {
        group: "karpenter.sh",
        version: "v1alpha1",
        kind: "NodeOverlay",
        plural: "nodeoverlays",
        singular: "nodeoverlay",
        short_names: &["overlays"],
        category: "karpenter",
        scope: Scope::Cluster,
        columns: vec![Column::ready(), Column::age(), Column::integer("Weight", ".spec.weight").wide()],
        scale: None,
        description: "NodeOverlay changes price or capacity of instance types as the planner sees them.",
        spec_required: true,
    };
    let status = Schema::object().optional("conditions", condition::conditions().keyed_by("type"));
    definition.render(spec(), status)
}

fn spec() -> Schema {
    let capacity = Schema::map(Schema::quantity())
        .describe("Extended resources the instance types have in addition.")
        .rule(
            "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
            "invalid resource restricted",
        );
    Schema::object()
        .optional("capacity", capacity)
        .optional("price", Schema::string().pattern(r"^\d+(\.\d+)?$").describe("Dollars per hour."))
        .optional(
            "priceAdjustment",
            Schema::string()
                .pattern(PRICE_ADJUSTMENT)
                .describe("Change of the price, absolute (+0.1) or relative (-10%)."),
        )
        .required("requirements", requirements())
        .optional(
            "weight",
            Schema::int32().within(1..=10_000).describe("The overlay with the highest weight wins."),
        )
        .rule(
            "!(has(self.price) && has(self.priceAdjustment))",
            "cannot set both 'price' and 'priceAdjustment'",
        )
}

fn requirements() -> Schema {
    let item = Schema::object()
        .required("key", requirement_key(Owner::Overlay))
        .required("operator", Schema::string().one_of(crate::Operator::ALL.map(crate::Operator::as_str)))
        .optional("values", Schema::list(Schema::string()).list_type("atomic"));
    Schema::list(item)
        .items(..=100)
        .list_type("atomic")
        .describe("The instance types and offerings the overlay is for.")
        .rule(
            "self.all(x, x.operator in ['In', 'NotIn'] ? x.values.size() != 0 : true)",
            "requirements with operator 'In' or 'NotIn' must have a value defined",
        )
        .rule(
            "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
        )
}
