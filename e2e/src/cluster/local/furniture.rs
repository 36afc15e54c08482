//! Objects that every EKS cluster has from the start and a bare control plane has not.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::wait;

/// The tenth address of the service range, by EKS's convention; kubelets are configured with it.
const KUBE_DNS_ADDRESS: &str = "10.100.0.10";

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
    // A server that reports ready may not have made its own namespaces and address ranges yet.
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    wait::settles("service `kube-system/kube-dns`", || async {
        match services.create(&PostParams::default(), &service).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            outcome => outcome.map(drop).context("create service `kube-system/kube-dns`"),
        }
    })
    .await?;
    default_account(client).await
}

async fn default_account(client: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    wait::until("the controller manager to create service account `default/default`", || async {
        let found = accounts.get_opt("default").await.context("read service account `default/default`")?;
        Ok(found.map(drop).ok_or_else(|| "there is none".to_owned()))
    })
    .await
}
