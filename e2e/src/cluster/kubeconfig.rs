//! A cluster that exists already, by its kubeconfig. It must be one without Karpenter, and is left as it was: everything
//! that a run has applied is deleted at its end.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams};
use tempfile::TempDir;

use super::Access;
use crate::manifests::{self, LEASE, NAMESPACE};

/// A cluster that has this kind has a Karpenter, or had one.
const OURS: &str = "nodepools.karpenter.sh";

/// A cluster that was there before us.
pub struct KubeconfigCluster {
    access: Access,
    /// Holds the kubeconfigs of other identities; removed when this value is dropped.
    _folder: TempDir,
}

impl KubeconfigCluster {
    /// Connects with the current context of `kubeconfig` and asks for the version, so that a wrong file is
    /// noticed here and not in the first scenario.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?;
        let access = Access::from_kubeconfig(kubeconfig, folder.path()).await?;
        access
            .client()
            .apiserver_version()
            .await
            .with_context(|| format!("reach the cluster of kubeconfig `{}`", kubeconfig.display()))?;
        let definitions: Api<CustomResourceDefinition> = Api::all(access.client());
        let found = definitions.get_opt(OURS).await.with_context(|| format!("read definition `{OURS}`"))?;
        ensure!(
            found.is_none(),
            "the cluster of kubeconfig `{}` has `{OURS}`: a run would change a Karpenter that is there; name a \
             cluster without one",
            kubeconfig.display()
        );
        Ok(Self { access, _folder: folder })
    }

    /// Deletes what was applied, and the Lease that the controller has made.
    pub async fn stop(self) -> Result<()> {
        let client = self.access.client();
        manifests::remove_applied(&client).await.context("leave the cluster as it was")?;
        let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
        match leases.delete(LEASE, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            outcome => outcome.map(drop).with_context(|| format!("delete lease `{NAMESPACE}/{LEASE}`")),
        }
    }

    /// Returns the access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }
}
