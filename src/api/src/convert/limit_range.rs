//! `LimitRange`: what a namespace gives containers that do not say what they need (spec scheduling 16).

use k8s_openapi::api::core::v1::LimitRange;
use karpenter_model::resources::limit_range::ContainerDefaults;

use super::{Error, resources};

/// Reads the defaults for containers, in the order of the object; other items only limit.
pub fn limit_range(object: &LimitRange) -> Result<Vec<ContainerDefaults>, Error> {
    let items = object.spec.iter().flat_map(|spec| spec.limits.iter().enumerate());
    let of_containers = items.filter(|(_, item)| item.type_ == "Container");
    of_containers
        .map(|(index, item)| {
            let read = |field: &str, list| {
                resources(field, list).map_err(|error| {
                    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
                    let name = object.metadata.name.as_deref().unwrap_or_default();
                    error
                        .below(&format!("spec.limits[{index}]"))
                        .of("LimitRange", &format!("{namespace}/{name}"))
                })
            };
            Ok(ContainerDefaults {
                requests: read("defaultRequest", item.default_request.as_ref())?,
                limits: read("default", item.default.as_ref())?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn range(limits: &Value) -> LimitRange {
        let metadata = json!({"namespace": "shop", "name": "small"});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"limits": limits}})).unwrap()
    }

    #[test]
    fn only_containers_are_given_anything() {
        let read = limit_range(&range(&json!([
            {"type": "Pod", "max": {"cpu": "4"}},
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
        ])))
        .unwrap();
        let [item] = &read[..] else { panic!("{read:?}") };
        assert_eq!(item.requests.amount("memory").to_string(), "1Gi");
        assert_eq!(item.requests.amount("cpu").to_string(), "1");
        assert_eq!(item.limits.amount("cpu").to_string(), "2");
    }

    #[test]
    fn errors_name_object_and_field() {
        let error =
            limit_range(&range(&json!([{"type": "Container", "default": {"cpu": "lots"}}]))).unwrap_err();
        assert_eq!(error.object, "LimitRange `shop/small`");
        assert_eq!(error.field, "spec.limits[0].default.cpu");
    }
}
