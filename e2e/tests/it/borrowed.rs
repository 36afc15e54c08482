//! A cluster that was there before a run is left as it was.

use std::collections::BTreeSet;

use karpenter_e2e::cluster::local::{LocalCluster, Options as LocalOptions};
use karpenter_e2e::machines::Pace;
use karpenter_e2e::scenario::{Chosen, Suite, end, run};
use karpenter_e2e::world::{self, Options, Site};
use karpenter_e2e::{cluster, controller, manifests};
use kube::Client;

use super::objects;

/// Every object of the cluster, by kind, namespace and name.
async fn names(client: &Client) -> BTreeSet<String> {
    objects::all(client).await.expect("they can be listed").into_keys().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_there_is_left_as_it_was() {
    let cluster = LocalCluster::start(LocalOptions::default()).await.expect("the control plane starts");
    let before = names(&cluster.client()).await;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("borrowed");
    let options = || Options {
        cluster: cluster::Choice::Kubeconfig(cluster.kubeconfig().to_owned()),
        account: world::moto(folder.join("account")),
        controller: controller::Choice::Process,
        folder: folder.clone(),
        pace: Pace::HURRIED,
        site: Site::default(),
    };
    let outcome = run(Suite::Launch, options(), &Chosen::default()).await.expect("the world starts");
    assert_eq!(outcome.failure(), None);
    end(outcome.world).await.expect("everything ends");
    let after = names(&cluster.client()).await;
    let difference: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(difference.is_empty(), "{difference:#?}");

    manifests::apply_definitions(&cluster.client(), &karpenter_api::crds_yaml())
        .await
        .expect("the definitions are applied");
    let refused =
        run(Suite::Launch, options(), &Chosen::default()).await.err().map(|error| format!("{error:#}"));
    assert!(
        refused.is_some_and(|said| said.contains("has `nodepools.karpenter.sh`")),
        "a Karpenter is there"
    );
    cluster.stop().await.expect("the control plane ends");
}
