//! Access to a cluster: the administrator's client, and kubeconfigs for other identities.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// Long enough for any run, short enough to be harmless in a forgotten file.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Identity that a kubeconfig authenticates with.
pub enum Identity<'a> {
    /// A bearer token.
    Token(&'a str),
    /// A client certificate and its key, both PEM.
    Certificate {
        certificate: &'a str,
        /// Its private key.
        key: &'a str,
    },
}

/// An administrator's way into a cluster.
pub struct Access {
    client: Client,
    kubeconfig: PathBuf,
    folder: PathBuf,
    /// The `cluster` part of the kubeconfig, reused for other identities.
    cluster: Value,
}

impl Access {
    /// Reads the current context of `kubeconfig`; files for other identities go to `folder`.
    pub async fn from_kubeconfig(kubeconfig: &Path, folder: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)
            .with_context(|| format!("read kubeconfig `{}`", kubeconfig.display()))?;
        let cluster = current_cluster(&file)
            .with_context(|| format!("find the current cluster in `{}`", kubeconfig.display()))?;
        let client = client(file)
            .await
            .with_context(|| format!("build a client from kubeconfig `{}`", kubeconfig.display()))?;
        Ok(Self { client, kubeconfig: kubeconfig.to_owned(), folder: folder.to_owned(), cluster })
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        self.cluster.get("server").and_then(Value::as_str).unwrap_or_default()
    }

    /// The certificate authority of the API server, PEM; `None` if the kubeconfig embeds none.
    pub fn certificate_authority(&self) -> Option<String> {
        let data = self.cluster.get("certificate-authority-data")?.as_str()?;
        String::from_utf8(STANDARD.decode(data).ok()?).ok()
    }

    /// Writes a kubeconfig with the identity of a service account, which must exist; its token lasts a day.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name, &[]).await?;
        let path = self.folder.join(format!("{namespace}-{name}.kubeconfig"));
        write_kubeconfig(&path, &self.cluster, namespace, &Identity::Token(&token))?;
        Ok(path)
    }

    /// Writes a service account's token for `audience`, as a projected volume holds it.
    pub async fn service_account_token_file(
        &self,
        namespace: &str,
        name: &str,
        audience: &str,
    ) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name, &[audience.to_owned()]).await?;
        let path = self.folder.join(format!("{namespace}-{name}.{audience}.token"));
        write_private(&path, &token)?;
        Ok(path)
    }

    /// A token of a service account for some audiences; none means the API server.
    async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        audiences: &[String],
    ) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: audiences.to_vec(),
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("request a token for service account `{namespace}/{name}`"))?;
        let token = answer
            .status
            .with_context(|| {
                format!("the token request for service account `{namespace}/{name}` has no token")
            })?
            .token;
        Ok(token)
    }

    /// Writes a kubeconfig for any identity under `<name>.kubeconfig`.
    pub(super) fn identity_kubeconfig(&self, name: &str, identity: &Identity<'_>) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        write_kubeconfig(&path, &self.cluster, "default", identity)?;
        Ok(path)
    }
}

/// A client that talks to a server on this machine directly, whatever proxy the environment names: servers of a run
/// have addresses, and no names that a proxy could resolve.
async fn client(file: Kubeconfig) -> Result<Client> {
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let is_near = |host: &str| host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
    if config.cluster_url.host().is_some_and(is_near) {
        config.proxy_url = None;
    }
    Ok(Client::try_from(config)?)
}

fn current_cluster(file: &Kubeconfig) -> Result<Value> {
    let context = file.current_context.as_deref().context("no current context")?;
    let context = file
        .contexts
        .iter()
        .find(|named| named.name == context)
        .and_then(|named| named.context.as_ref())
        .with_context(|| format!("no context `{context}`"))?;
    let cluster = file
        .clusters
        .iter()
        .find(|named| named.name == context.cluster)
        .and_then(|named| named.cluster.as_ref())
        .with_context(|| format!("no cluster `{}`", context.cluster))?;
    serde_json::to_value(cluster).context("read the cluster entry")
}

/// The `cluster` part of a kubeconfig.
pub(super) fn cluster_entry(server: &str, authority: &str) -> Value {
    json!({ "server": server, "certificate-authority-data": STANDARD.encode(authority) })
}

/// Writes a kubeconfig with one cluster, one user and one context, readable by the owner only.
pub(super) fn write_kubeconfig(
    path: &Path,
    cluster: &Value,
    namespace: &str,
    identity: &Identity<'_>,
) -> Result<()> {
    let user = match identity {
        Identity::Token(token) => json!({ "token": token }),
        Identity::Certificate { certificate, key } => json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }),
    };
    let name = "e2e";
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name, "namespace": namespace } }],
        "current-context": name,
    });
    let text = serde_saphyr::to_string(&document).context("render a kubeconfig")?;
    write_private(path, &text)
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_written_kubeconfig_reads_back_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.kubeconfig");
        let cluster = cluster_entry("https://127.0.0.1:1", "CA PEM\n");
        write_kubeconfig(&path, &cluster, "karpenter", &Identity::Token("t")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let read = Kubeconfig::read_from(&path).unwrap();
        let entry = current_cluster(&read).unwrap();
        assert_eq!(entry["server"], "https://127.0.0.1:1");
        assert_eq!(entry["certificate-authority-data"], cluster["certificate-authority-data"]);
        assert_eq!(read.contexts[0].context.as_ref().unwrap().namespace.as_deref(), Some("karpenter"));
    }

    #[test]
    fn a_kubeconfig_without_its_context_is_an_error_that_names_it() {
        let file = Kubeconfig { current_context: Some("gone".to_owned()), ..Kubeconfig::default() };
        assert_eq!(current_cluster(&file).unwrap_err().to_string(), "no context `gone`");
    }
}
