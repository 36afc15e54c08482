//! What every EKS cluster has from the start and a bare control plane has not.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

/// The tenth address of the service range, by EKS's convention; kubelets are configured with it.
const KUBE_DNS_ADDRESS: &str = "10.100.0.10";
const ACCOUNT_WITHIN: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Creates the `kube-dns` service and waits for `default/default`, without which no pod can be created.
pub(super) async fn install(client: &Client) -> Result<()> {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "kube-dns", "namespace": "kube-system", "labels": { "k8s-app": "kube-dns" } },
        "spec": {
            "clusterIP": KUBE_DNS_ADDRESS,
            "selector": { "k8s-app": "kube-dns" },
            "ports": [
                { "name": "dns", "port": 53, "protocol": "UDP" },
                { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
            ],
        },
    }))
    .context("read the kube-dns service")?;
    Api::<Service>::namespaced(client.clone(), "kube-system")
        .create(&PostParams::default(), &service)
        .await
        .context("create service `kube-system/kube-dns`")?;
    default_account(client).await
}

async fn default_account(client: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let mut ticks = tokio::time::interval(ASK_EVERY);
    let wait = async {
        loop {
            ticks.tick().await;
            if accounts.get_opt("default").await.context("read service account `default/default`")?.is_some()
            {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(ACCOUNT_WITHIN, wait)
        .await
        .context("wait for the controller manager to create service account `default/default`")?
}
