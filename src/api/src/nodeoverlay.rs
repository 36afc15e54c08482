//! NodeOverlay, `karpenter.sh/v1alpha1`: other prices or more resources for some instance types, as the planner sees
//! them [alpha: `NodeOverlay`] (spec scheduling 5).

use karpenter_model::requirement::syntax;
use karpenter_model::resources;
use karpenter_model::{Expression, LabelRegistry, PriceChange, Quantity};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::nodepool::{Invalid, Problem};
use crate::quantity::{RawQuantity, ResourceMap};
use crate::requirement::Requirement;
use crate::resource::custom_resource;

custom_resource! {
    /// Prices or additional resources of some instance types, whatever the cloud reports.
    NodeOverlay { spec: NodeOverlaySpec, status: NodeOverlayStatus }
    group: "karpenter.sh", version: "v1alpha1", plural: "nodeoverlays"
}

/// Resources whose amounts are always the cloud's.
const KNOWN: [&str; 4] = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE, resources::PODS];

/// Request of the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// The instance types and offerings the overlay is for.
    pub requirements: Vec<Requirement>,
    /// Change of the price, absolute (`+0.1`) or relative (`-10%`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Dollars per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Extended resources the instance types have in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceMap>,
    /// Preference over other overlays, 1 to 10000, higher first; absent counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Report of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlayStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl NodeOverlaySpec {
    /// Change of prices; `price` counts if both fields are there, which the schema forbids.
    pub(crate) fn price_change(&self) -> Result<Option<PriceChange>, Invalid> {
        let at = |field: &str| {
            let field = format!("spec.{field}");
            move |error| Invalid { field, problem: Problem::Price(error) }
        };
        match (&self.price, &self.price_adjustment) {
            (Some(price), _) => PriceChange::price(price).map(Some).map_err(at("price")),
            (None, Some(change)) => PriceChange::adjustment(change).map(Some).map_err(at("priceAdjustment")),
            (None, None) => Ok(None),
        }
    }
}

impl NodeOverlay {
    /// Everything that is wrong with the overlay, in the order of its fields; empty when it is right. The schema
    /// refuses most of it already.
    pub fn problems(&self, registry: &LabelRegistry) -> Vec<Invalid> {
        let mut found = Vec::new();
        for (index, requirement) in self.spec.requirements.iter().enumerate() {
            let field = format!("spec.requirements[{index}]");
            if let Err(error) = syntax::check(registry, &Expression::from(requirement)) {
                found.push(Invalid { field, problem: Problem::Requirement(error) });
            }
        }
        found.extend(self.spec.price_change().err());
        for (name, quantity) in self.spec.capacity.iter().flatten() {
            let mut report =
                |problem| found.push(Invalid { field: format!("spec.capacity.{name}"), problem });
            if KNOWN.contains(&name.as_str()) {
                report(Problem::KnownResource(name.clone()));
            }
            if let RawQuantity::Text(text) = quantity
                && let Err(error) = text.parse::<Quantity>()
            {
                report(Problem::Quantity(error));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(spec: &Value) -> Vec<String> {
        let mut value = json!({"spec": {"requirements": []}});
        crate::cases::merge(&mut value, &json!({"spec": spec}));
        let overlay: NodeOverlay = serde_json::from_value(value).unwrap();
        let found = overlay.problems(&LabelRegistry::core());
        found.into_iter().map(|invalid| invalid.field).collect()
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"requirements": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn what_is_right_has_no_problems() {
        let table = [
            json!({}),
            json!({"price": "0.0000000232", "weight": 10}),
            json!({"priceAdjustment": "-99.999%"}),
            json!({"capacity": {"smarter-devices/fuse": 1, "hugepages-2Mi": "4Gi"}}),
            requirement("karpenter.sh/nodepool", "In", &["web"]),
            requirement("karpenter.sh/capacity-type", "In", &["spot"]),
            requirement("team", "Gt", &["3"]),
        ];
        for spec in &table {
            assert_eq!(problems(spec), [""; 0], "{spec}");
        }
    }

    #[test]
    fn every_problem_is_told_with_its_field() {
        let table = [
            (requirement("kubernetes.io/hostname", "In", &["n"]), "spec.requirements[0]"),
            (requirement("karpenter.sh/unknown", "Exists", &[]), "spec.requirements[0]"),
            (requirement("karpenter.sh/capacity-type", "In", &["free"]), "spec.requirements[0]"),
            (requirement("team", "In", &[]), "spec.requirements[0]"),
            (requirement("team", "Gt", &["-1"]), "spec.requirements[0]"),
            (json!({"price": "-1"}), "spec.price"),
            (json!({"priceAdjustment": "10%"}), "spec.priceAdjustment"),
            (json!({"capacity": {"cpu": 1}}), "spec.capacity.cpu"),
            (json!({"capacity": {"x/y": "many"}}), "spec.capacity.x/y"),
        ];
        for (spec, field) in &table {
            assert_eq!(problems(spec), [*field], "{spec}");
        }
        assert_eq!(problems(&json!({"price": "a", "capacity": {"pods": "b"}})).len(), 3, "all at once");
    }

    #[test]
    fn a_price_counts_where_a_change_is_there_too() {
        let spec = NodeOverlaySpec {
            price: Some("2".to_owned()),
            price_adjustment: Some("+1".to_owned()),
            ..NodeOverlaySpec::default()
        };
        assert_eq!(spec.price_change(), Ok(Some(PriceChange::price("2").unwrap())));
    }
}
