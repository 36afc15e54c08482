//! `destroy --drain`: has the controller take away its machines and instance profiles, while it still can.
//!
//! EKS Auto Mode has NodePools and NodeClaims of the same kinds, with node classes of its own. They are none of ours.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Half an hour: disruption budgets of pods and grace periods take their time. Another run goes on waiting.
const LOOKS: u32 = 360;

/// Deletes the NodePools and waits for their NodeClaims, then the EC2NodeClasses and waits for them. `report` gets what is
/// done, and how much is left whenever that changes.
pub(super) async fn drain(client: &Client, report: &mut (dyn FnMut(&str) + Send)) -> Result<()> {
    delete_all::<NodePool>(client, report).await?;
    until_none::<NodeClaim>(client, report).await?;
    delete_all::<EC2NodeClass>(client, report).await?;
    until_none::<EC2NodeClass>(client, report).await
}

/// A kind whose objects the controller works on, perhaps beside another one.
trait OfController: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync {
    /// Returns whether the controller works on this object.
    fn is_of_controller(&self) -> bool;
}

impl OfController for NodePool {
    fn is_of_controller(&self) -> bool {
        is_our_class(&self.spec.template.spec.node_class_ref.group)
    }
}

impl OfController for NodeClaim {
    fn is_of_controller(&self) -> bool {
        is_our_class(&self.spec.node_class_ref.group)
    }
}

impl OfController for EC2NodeClass {
    fn is_of_controller(&self) -> bool {
        true
    }
}

fn is_our_class(group: &str) -> bool {
    group == EC2NodeClass::group(&())
}

async fn delete_all<K: OfController>(client: &Client, report: &mut (dyn FnMut(&str) + Send)) -> Result<()> {
    let kind = K::kind(&());
    let objects = Api::<K>::all(client.clone());
    for name in names(&objects).await? {
        report(&format!("delete {kind} {name}"));
        match objects.delete(&name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            outcome => drop(outcome.with_context(|| format!("cannot delete {kind} `{name}`"))?),
        }
    }
    Ok(())
}

async fn until_none<K: OfController>(client: &Client, report: &mut (dyn FnMut(&str) + Send)) -> Result<()> {
    let kind = K::kind(&());
    let objects = Api::<K>::all(client.clone());
    let mut known = usize::MAX;
    let mut left = Vec::new();
    for _ in 0..LOOKS {
        left = names(&objects).await?;
        if left.is_empty() {
            return Ok(());
        }
        if left.len() != known {
            known = left.len();
            report(&format!("waiting for {known} {kind}(s)"));
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!(
        "{} {kind}(s) are still there ({}): `kubectl describe` says what holds them, and the controller must be \
         running to end them; nothing of the account was changed, run the command again to keep waiting",
        left.len(),
        left.join(", ")
    )
}

/// Names of all objects that the controller works on; a cluster without the definition has none.
async fn names<K: OfController>(objects: &Api<K>) -> Result<Vec<String>> {
    match objects.list(&ListParams::default()).await {
        Ok(found) => {
            let ours = found.items.iter().filter(|object| object.is_of_controller());
            Ok(ours.map(ResourceExt::name_any).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot list {}s", K::kind(&()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::ApiServer;
    use kube::api::{Patch, PatchParams};
    use serde_json::{Value, json};

    use super::*;

    fn server(objects: &[Value]) -> ApiServer {
        let server = ApiServer::new(Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        for crd in karpenter_api::crd_values() {
            server.load(&crd).unwrap();
        }
        for object in objects {
            server.load(object).unwrap_or_else(|refusal| panic!("{object}: {refusal:?}"));
        }
        server
    }

    fn pool() -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }}},
        })
    }

    fn claim() -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "default-1", "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            },
        })
    }

    fn class() -> Value {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "finalizers": ["karpenter.k8s.aws/termination"]},
            "spec": {
                "role": "KarpenterNodeRole-demo",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
            },
        })
    }

    async fn let_go<K>(client: &Client, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
    {
        let objects = Api::<K>::all(client.clone());
        objects.delete(name, &DeleteParams::default()).await.unwrap();
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        objects.patch(name, &PatchParams::default(), &none).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn pools_go_first_and_classes_when_the_machines_are_gone() {
        let server = server(&[pool(), claim(), class()]);
        let client = server.client();
        let controller = async {
            tokio::time::sleep(PAUSE * 3).await;
            assert!(names(&Api::<NodePool>::all(client.clone())).await.unwrap().is_empty());
            let class = Api::<EC2NodeClass>::all(client.clone()).get("default").await.unwrap();
            assert!(class.metadata.deletion_timestamp.is_none(), "the machines need it still");
            let_go::<NodeClaim>(&client, "default-1").await;
            tokio::time::sleep(PAUSE * 3).await;
            let class = Api::<EC2NodeClass>::all(client.clone()).get("default").await.unwrap();
            assert!(class.metadata.deletion_timestamp.is_some());
            let_go::<EC2NodeClass>(&client, "default").await;
        };
        let mut told = Vec::new();
        let mut tell = |line: &str| told.push(line.to_owned());
        let (outcome, ()) = tokio::join!(drain(&client, &mut tell), controller);
        outcome.unwrap();
        assert_eq!(
            told,
            [
                "delete NodePool default",
                "waiting for 1 NodeClaim(s)",
                "delete EC2NodeClass default",
                "waiting for 1 EC2NodeClass(s)",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pools_and_claims_of_eks_auto_mode_are_left_alone() {
        let of_auto_mode = |mut object: Value, path: &str| {
            object["metadata"]["name"] = json!("general-purpose");
            let class = json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
            *object.pointer_mut(path).unwrap() = class;
            object
        };
        let server = server(&[
            of_auto_mode(pool(), "/spec/template/spec/nodeClassRef"),
            of_auto_mode(claim(), "/spec/nodeClassRef"),
        ]);
        drain(&server.client(), &mut |line| panic!("{line}")).await.unwrap();
        let pool = Api::<NodePool>::all(server.client()).get("general-purpose").await.unwrap();
        assert!(pool.metadata.deletion_timestamp.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_go_is_named_and_classes_stay() {
        let server = server(&[pool(), claim(), class()]);
        let client = server.client();
        let error = drain(&client, &mut |_| {}).await.unwrap_err().to_string();
        assert!(
            error.contains("default-1") && error.contains("nothing of the account was changed"),
            "{error}"
        );
        let class = Api::<EC2NodeClass>::all(client).get("default").await.unwrap();
        assert!(class.metadata.deletion_timestamp.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_the_definitions_has_nothing_to_drain() {
        let server = ApiServer::new(Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        drain(&server.client(), &mut |line| panic!("{line}")).await.unwrap();
    }
}
