//! A snapshot as JSON for other schedulers: pods and pools as Kubernetes objects, instance types as a plain list.
//!
//! For comparisons on the same input. It writes what generated worlds use: empty clusters, no volumes.

use karpenter_model::pod::affinity::WeightedAffinityTerm;
use karpenter_model::resources;
use karpenter_model::{
    AffinityTerm, Expression, InstanceType, LabelSelector, Labels, NodeTerm, Pod, PodAffinity, Pool, Price,
    Requirement, Resources, Snapshot, SpreadConstraint, Toleration,
};
use serde_json::{Map, Value, json};

/// The waiting pods as a list of Pods.
pub fn pods(snapshot: &Snapshot) -> Value {
    list(&snapshot.pending.iter().map(|pod| self::pod(pod)).collect::<Vec<_>>())
}

/// The pools as a list of NodePools.
pub fn pools(snapshot: &Snapshot) -> Value {
    list(&snapshot.pools.iter().map(|pool| self::pool(pool)).collect::<Vec<_>>())
}

/// Daemons as a list of Pods that run on every machine they select.
pub fn daemons(snapshot: &Snapshot) -> Value {
    list(&snapshot.daemons.iter().map(|daemon| pod(&daemon.pod)).collect::<Vec<_>>())
}

/// The instance types of the first pool that has any: name, labels, capacity, allocatable and offerings.
pub fn instance_types(snapshot: &Snapshot) -> Value {
    let types = snapshot.instance_types.values().next();
    Value::Array(types.into_iter().flat_map(|types| types.iter()).map(|one| instance_type(one)).collect())
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn pod(pod: &Pod) -> Value {
    let node_affinity = json!({
        "requiredDuringSchedulingIgnoredDuringExecution":
            (!pod.required_terms.is_empty()).then(|| json!({ "nodeSelectorTerms": terms(&pod.required_terms) })),
        "preferredDuringSchedulingIgnoredDuringExecution": pod.preferred_terms.iter()
            .map(|(weight, term)| json!({ "weight": weight, "preference": node_term(term) })).collect::<Value>(),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.key.name.as_str(),
            "namespace": pod.key.namespace.as_str(),
            "uid": pod.uid.as_str(),
            "labels": labels(&pod.labels),
            "creationTimestamp": pod.created_at.to_string(),
        },
        "spec": {
            "containers": [{ "name": "main", "image": "pause", "resources": { "requests": amounts(&pod.requests) } }],
            "nodeSelector": labels(&pod.node_selector),
            "tolerations": pod.tolerations.iter().map(toleration).collect::<Value>(),
            "topologySpreadConstraints": pod.spread.iter().map(spread).collect::<Value>(),
            "affinity": {
                "nodeAffinity": node_affinity,
                "podAffinity": pod_affinity(&pod.pod_affinity),
                "podAntiAffinity": pod_affinity(&pod.pod_anti_affinity),
            },
        },
        "status": { "phase": "Pending" },
    })
}

fn pool(pool: &Pool) -> Value {
    let taint = |taint: &karpenter_model::Taint| json!({ "key": taint.key, "value": taint.value, "effect": taint.effect.as_str() });
    let template = &pool.template;
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": pool.name.as_str() },
        "spec": {
            "weight": pool.weight,
            "limits": pool.limits.as_ref().map(amounts),
            "template": {
                "metadata": { "labels": labels(&template.labels) },
                "spec": {
                    "requirements": template.requirements.iter().map(requirement).collect::<Value>(),
                    "taints": template.taints.iter().map(taint).collect::<Value>(),
                },
            },
        },
    })
}

fn instance_type(one: &InstanceType) -> Value {
    let offering = |offering: &karpenter_model::Offering| {
        json!({
            "zone": offering.zone.as_str(),
            "capacityType": offering.capacity_type.as_str(),
            "pricePerHour": dollars(offering.price),
            "available": offering.available,
        })
    };
    json!({
        "name": one.name.as_str(),
        "requirements": one.requirements.iter().map(requirement).collect::<Value>(),
        "capacity": amounts(&one.capacity),
        "allocatable": amounts(&one.allocatable()),
        "offerings": one.offerings.iter().map(offering).collect::<Value>(),
    })
}

/// A price in dollars: a plain number, exact to the billionth.
fn dollars(price: Price) -> Value {
    let (whole, rest) = (price.nanos() / 1_000_000_000, price.nanos() % 1_000_000_000);
    let text = format!("{whole}.{:09}", rest.abs());
    text.parse::<serde_json::Number>().expect("invariant: digits with a point are a number").into()
}

fn labels(labels: &Labels) -> Value {
    labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.as_str().into()))
        .collect::<Map<_, Value>>()
        .into()
}

/// Amounts without the pod itself, which Kubernetes does not write down.
fn amounts(amounts: &Resources) -> Value {
    let named = amounts.iter().filter(|(name, quantity)| {
        name.as_str() != resources::PODS || **quantity != karpenter_model::Quantity::ONE
    });
    named
        .map(|(name, quantity)| (name.to_string(), quantity.to_string().into()))
        .collect::<Map<_, Value>>()
        .into()
}

fn terms(terms: &[NodeTerm]) -> Value {
    terms.iter().map(node_term).collect()
}

fn node_term(term: &NodeTerm) -> Value {
    json!({ "matchExpressions": term.expressions.iter().map(expression).collect::<Value>() })
}

fn expression(stated: &Expression) -> Value {
    let values: Value = stated.values.iter().map(|value| Value::from(value.as_str())).collect();
    json!({ "key": stated.key.as_str(), "operator": stated.operator.as_str(), "values": values })
}

fn requirement(requirement: &Requirement) -> Value {
    let values: Value = requirement.values().iter().map(|value| Value::from(value.as_str())).collect();
    let operator = requirement.operator().as_str();
    json!({ "key": requirement.key().as_str(), "operator": operator, "values": values })
}

fn toleration(toleration: &Toleration) -> Value {
    json!({
        "key": toleration.key,
        "operator": format!("{:?}", toleration.operator),
        "value": toleration.value,
        "effect": toleration.effect.map(karpenter_model::Effect::as_str),
    })
}

fn selector(selector: &LabelSelector) -> Value {
    let expression = |one: &karpenter_model::label::selector::SelectorExpression| {
        let values: Value = one.values.iter().map(|value| Value::from(value.as_str())).collect();
        json!({ "key": one.key.as_str(), "operator": format!("{:?}", one.operator), "values": values })
    };
    json!({ "matchExpressions": selector.expressions.iter().map(expression).collect::<Value>() })
}

fn spread(spread: &SpreadConstraint) -> Value {
    json!({
        "maxSkew": spread.max_skew,
        "topologyKey": spread.topology_key.as_str(),
        "whenUnsatisfiable": format!("{:?}", spread.when_unsatisfiable),
        "labelSelector": spread.selector.as_ref().map(selector),
        "minDomains": spread.min_domains,
        "nodeAffinityPolicy": format!("{:?}", spread.node_affinity_policy),
        "nodeTaintsPolicy": format!("{:?}", spread.node_taints_policy),
        "matchLabelKeys": spread.match_label_keys.iter().map(|key| Value::from(key.as_str())).collect::<Value>(),
    })
}

fn pod_affinity(affinity: &PodAffinity) -> Value {
    let weighted = |one: &WeightedAffinityTerm| json!({ "weight": one.weight, "podAffinityTerm": affinity_term(&one.term) });
    json!({
        "requiredDuringSchedulingIgnoredDuringExecution":
            affinity.required.iter().map(affinity_term).collect::<Value>(),
        "preferredDuringSchedulingIgnoredDuringExecution":
            affinity.preferred.iter().map(weighted).collect::<Value>(),
    })
}

fn affinity_term(term: &AffinityTerm) -> Value {
    json!({
        "topologyKey": term.topology_key.as_str(),
        "labelSelector": term.selector.as_ref().map(selector),
        "namespaces": term.namespaces.iter().map(|name| Value::from(name.as_str())).collect::<Value>(),
        "namespaceSelector": term.namespace_selector.as_ref().map(selector),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{self, Mix};

    #[test]
    fn a_world_is_written_with_everything_its_pods_say() {
        let snapshot = world::pending(70, 9, Mix::Diverse, 1);
        let pods = pods(&snapshot);
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(70));
        let text = pods.to_string();
        for said in ["\"maxSkew\":1", "podAffinity", "\"weight\":10", "\"cpu\":", "kubernetes.io/hostname"] {
            assert!(text.contains(said), "{said}");
        }
        assert!(!text.contains("\"pods\""), "the pod itself is not requested");
        assert_eq!(pools(&snapshot)["items"][1]["spec"]["template"]["spec"]["taints"][0]["key"], "team");
        assert_eq!(daemons(&snapshot)["items"].as_array().map(Vec::len), Some(3));
        let types = instance_types(&snapshot);
        assert_eq!(types.as_array().map(Vec::len), Some(9));
        assert_eq!(
            types[0]["offerings"].as_array().map(Vec::len),
            Some(6),
            "three zones, spot and on-demand"
        );
        let prices = types.as_array().into_iter().flatten().filter_map(|one| one["offerings"].as_array());
        assert!(prices.flatten().all(|offering| offering["pricePerHour"].is_number()), "{types}");
    }

    #[test]
    fn prices_are_plain_numbers() {
        for (nanos, text) in [
            (0, "0.0"),
            (1, "1e-9"),
            (96_000_000, "0.096"),
            (12_345_678_901, "12.345678901"),
            (2_000_000_000, "2.0"),
        ] {
            assert_eq!(dollars(Price::from_nanos(nanos)).to_string(), text);
        }
    }
}
