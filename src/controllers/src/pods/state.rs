//! `karpenter_pods_state`: one series per pod with its place and state (spec disruption 6).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_model::names::label;
use karpenter_model::{NodeName, Pod, PodPhase};
use karpenter_telemetry::metrics::Collecting;
use kube::ResourceExt;

use crate::Context;
use crate::publish::word;

/// Publishes the series for as long as what is returned is held: only by the replica that leads, or every pod would
/// count twice.
pub(crate) fn collect(context: &Context) -> Collecting {
    let view = Arc::clone(&context.view);
    context.metrics.pods.state.collect(move |series| {
        let nodes = view.nodes().into_iter().map(|known| (known.model.name.clone(), known.object));
        let nodes: BTreeMap<NodeName, Arc<Node>> = nodes.collect();
        for pod in view.pods() {
            let node = pod.node_name.as_ref().and_then(|name| nodes.get(name));
            series(labels(&pod, node.map(AsRef::as_ref)), 1.0);
        }
    })
}

fn labels<'a>(pod: &'a Pod, node: Option<&'a Node>) -> [&'a str; 13] {
    let of_node = |label: &str| node.and_then(|node| node.labels().get(label)).map_or("", String::as_str);
    let pool = of_node(label::NODE_POOL);
    [
        pod.key.name.as_str(),
        pod.key.namespace.as_str(),
        pod.owner_path.as_str(),
        pod.node_name.as_ref().map_or("", |name| name.as_str()),
        word(pod.node_name.is_some()),
        pool,
        of_node(label::ZONE),
        of_node(label::ARCH),
        of_node(label::CAPACITY_TYPE),
        of_node(label::INSTANCE_TYPE),
        phase(pod.phase),
        word(pod.ready == Some(true)),
        word(!pool.is_empty()),
    ]
}

fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::World;
    use crate::view::Followed;

    fn pod(version: &str, node: Option<&str>, phase: &str) -> v1::Pod {
        let conditions =
            json!([{"type": "Ready", "status": if phase == "Running" { "True" } else { "False" }}]);
        read(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": version, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true},
            ]},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": phase, "conditions": conditions},
        }))
    }

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    fn lines(context: &Context) -> Vec<String> {
        let text = context.metrics.render();
        text.lines().filter(|line| line.starts_with("karpenter_pods_state{")).map(ToOwned::to_owned).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_one_series_that_follows_it_to_its_node_and_goes_with_it() {
        let context = World::new().context;
        pod("1", None, "Pending").applied(&context.view);
        assert!(lines(&context).is_empty(), "a replica that waits to lead publishes nothing");
        let leading = collect(&context);
        let waiting = "karpenter_pods_state{arch=\"\",capacity_type=\"\",instance_type=\"\",managed=\"false\",\
                       name=\"web-1\",namespace=\"shop\",node=\"\",nodepool=\"\",\
                       owner=\"/apis/apps/v1/namespaces/shop/replicasets/web\",phase=\"Pending\",ready=\"false\",\
                       scheduled=\"false\",zone=\"\"} 1";
        assert_eq!(lines(&context), [waiting]);
        pod("2", Some("n"), "Running").applied(&context.view);
        assert_eq!(lines(&context).len(), 1);
        let node: Node = read(json!({"metadata": {"name": "n", "resourceVersion": "1", "labels": {
            "karpenter.sh/nodepool": "default", "topology.kubernetes.io/zone": "a", "kubernetes.io/arch": "arm64",
            "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": "m7g.large",
        }}}));
        context.view.put_node(node);
        let running = "karpenter_pods_state{arch=\"arm64\",capacity_type=\"spot\",instance_type=\"m7g.large\",\
                       managed=\"true\",name=\"web-1\",namespace=\"shop\",node=\"n\",nodepool=\"default\",\
                       owner=\"/apis/apps/v1/namespaces/shop/replicasets/web\",phase=\"Running\",ready=\"true\",\
                       scheduled=\"true\",zone=\"a\"} 1";
        assert_eq!(lines(&context), [running]);
        pod("3", Some("n"), "Running").deleted(&context.view);
        assert!(lines(&context).is_empty());
        pod("4", None, "Pending").applied(&context.view);
        drop(leading);
        assert!(lines(&context).is_empty(), "it no longer leads");
    }
}
