//! Resources that a pod asks of a node.

use karpenter_model::node::score::{UNSAID_BYTES, UNSAID_MILLIS};
use karpenter_model::{Quantity, Resources, resources};
use serde_json::Value;

use crate::apiserver::object::list;

/// Effective requests of a pod: those it states as a whole, else containers and sidecars together or the largest moment of
/// initialisation, plus the overhead; and one pod slot.
pub(super) fn of(pod: &Value) -> Resources {
    with(pod, true, requests)
}

/// CPU and memory of a pod for scores of free resources: containers that state nothing count with a little. The scheduler
/// leaves out what the pod states as a whole where it places it, and not where it counts it on its node.
pub(super) fn for_score(pod: &Value, as_a_whole: bool) -> [Quantity; 2] {
    let stated = with(pod, as_a_whole, |container| {
        let unsaid = [
            (resources::CPU, Quantity::from_millis(UNSAID_MILLIS)),
            (resources::MEMORY, Quantity::from_bytes(UNSAID_BYTES)),
        ];
        let stated = requests(container);
        let unsaid = unsaid.into_iter().filter(|(name, _)| stated.get(name).is_none());
        unsaid.fold(stated.clone(), |all, (name, amount)| all.with(name, amount))
    });
    [stated.amount(resources::CPU), stated.amount(resources::MEMORY)]
}

fn with(pod: &Value, as_a_whole: bool, requests: impl Fn(&Value) -> Resources) -> Resources {
    let mut running = Resources::new();
    let mut largest = Resources::new();
    for container in list(pod, "/spec/initContainers") {
        let own = requests(container);
        if is_sidecar(container) {
            running = running.merge(&own);
            largest = Resources::max([&largest, &running]);
        } else {
            largest = Resources::max([&largest, &running.merge(&own)]);
        }
    }
    for container in list(pod, "/spec/containers") {
        running = running.merge(&requests(container));
    }
    let mut own = Resources::max([&largest, &running]);
    if as_a_whole {
        own = own.replaced_by(&quantities(&pod["spec"]["resources"]["requests"]));
    }
    let overhead = quantities(&pod["spec"]["overhead"]);
    own.merge(&overhead).merge(&Resources::one_pod())
}

/// Returns whether an init container runs beside the containers until the pod ends.
pub(super) fn is_sidecar(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}

/// Quantities of a map.
pub(super) fn quantities(map: &Value) -> Resources {
    let entries = map.as_object().into_iter().flatten();
    entries.fold(Resources::new(), |all, (name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.with(name, text.parse::<Quantity>().unwrap_or_default())
    })
}

fn requests(container: &Value) -> Resources {
    quantities(&container["resources"]["requests"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn initialisation_counts_only_where_it_is_larger() {
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let mut sidecar = cpu("100m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"initContainers": [sidecar, cpu("2")], "containers": [cpu("1"), cpu("500m")],
            "overhead": {"cpu": "10m"}}});
        let requests = of(&pod);
        assert_eq!(requests.amount("cpu"), Quantity::from_millis(2_110));
        assert_eq!(requests.amount("pods"), Quantity::ONE);
    }
}
