//! `NodeOverlay` to the model's overlay.

use karpenter_model::{LabelRegistry, Overlay};

use super::FieldError;
use super::requirements;
use super::resources;
use crate::nodeoverlay::NodeOverlay;

/// Reads an overlay.
///
/// # Errors
/// Everything that is wrong with it, as one text.
pub fn overlay(object: &NodeOverlay, registry: &LabelRegistry) -> Result<Overlay, String> {
    let problems = object.problems(registry);
    if !problems.is_empty() {
        return Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    read(object, name, registry).map_err(|error| error.of("NodeOverlay", name).to_string())
}

fn read(object: &NodeOverlay, name: &str, registry: &LabelRegistry) -> Result<Overlay, FieldError> {
    let spec = &object.spec;
    let price = spec.price_change();
    Ok(Overlay {
        name: name.into(),
        weight: spec.weight.unwrap_or_default(),
        requirements: requirements(registry, &spec.requirements),
        price: price.map_err(|invalid| FieldError::new(&invalid.field, invalid.problem))?,
        capacity: resources("spec.capacity", spec.capacity.as_ref())?,
    })
}

#[cfg(test)]
mod tests {
    use karpenter_model::{PriceChange, Quantity};
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_is_taken_over_and_an_absent_weight_is_none() {
        let object = |spec| {
            let object = json!({"metadata": {"name": "o"}, "spec": spec});
            serde_json::from_value::<NodeOverlay>(object).unwrap()
        };
        let registry = LabelRegistry::core();
        let family = json!({"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]});
        let full = object(json!({
            "requirements": [family], "priceAdjustment": "-10%", "capacity": {"x/y": "2"}, "weight": 7,
        }));
        let read = overlay(&full, &registry).unwrap();
        assert_eq!((read.name.as_str(), read.weight), ("o", 7));
        assert_eq!(read.requirements.to_string(), "kubernetes.io/arch In [arm64]");
        assert_eq!(read.price, Some(PriceChange::adjustment("-10%").unwrap()));
        assert_eq!(read.capacity.amount("x/y"), Quantity::from_units(2));
        let empty = overlay(&object(json!({"requirements": []})), &registry).unwrap();
        assert_eq!((empty.weight, empty.price, empty.capacity.len()), (0, None, 0));
    }
}
