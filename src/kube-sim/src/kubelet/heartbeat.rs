//! Heartbeats: the Lease of every node that lives.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use karpenter_model::clock::later;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::Pass;

impl Pass<'_> {
    /// Renews the lease of a node when it is time.
    pub(super) async fn beat(&mut self, node: &Node) {
        let name = node.name_any();
        let last = self.notes.lock().heartbeats.get(&name).copied();
        if last.is_some_and(|last| !self.is_due(later(last, self.agent.options.heartbeat))) {
            return;
        }
        let leases: Api<Lease> = Api::namespaced(self.agent.client.clone(), "kube-node-lease");
        let renewed = json!({"spec": {"renewTime": self.now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
        let answer = match leases.patch(&name, &PatchParams::default(), &Patch::Merge(&renewed)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let lease = serde_json::from_value(lease(node, &renewed)).expect("invariant: a valid Lease");
                leases.create(&PostParams::default(), &lease).await
            }
            other => other,
        };
        if answer.is_ok() {
            self.notes.lock().heartbeats.insert(name.clone(), self.now);
            let _not_yet = self.is_due(later(self.now, self.agent.options.heartbeat));
        }
        self.report("renew lease", &name, answer);
    }
}

fn lease(node: &Node, renewed: &Value) -> Value {
    let name = node.name_any();
    json!({
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid()}],
        },
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed["spec"]["renewTime"],
        },
    })
}
