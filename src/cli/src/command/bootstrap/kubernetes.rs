//! The cluster's own API server, through the current kubeconfig: never that of another cluster than the flags name.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_aws_api::eks;
use kube::Client;
use kube::config::Config;

use crate::api_server;

/// A server that does not answer counts as missing.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A client for `cluster`, or why there is none, as the end of a sentence.
pub(super) async fn connect(cluster: &eks::Cluster) -> Result<Client, String> {
    let mut config = api_server::config().await.map_err(|error| format!("no kubeconfig: {error:#}"))?;
    config.connect_timeout = Some(CONNECT_WITHIN);
    if !is_of(&config, cluster) {
        return Err(format!(
            "the current kubeconfig is of {}, and the cluster is at {}: `aws eks update-kubeconfig --name {}`",
            config.cluster_url,
            cluster.endpoint.as_deref().unwrap_or("no endpoint yet"),
            cluster.name
        ));
    }
    Client::try_from(config).map_err(|error| format!("the current kubeconfig cannot be used: {error}"))
}

/// Returns whether it leads to this cluster: by the host, or by the authority that signs for it. Inside of the cluster and
/// behind a tunnel the host is another one.
pub(in crate::command) fn is_of(config: &Config, cluster: &eks::Cluster) -> bool {
    let authority = certificates(cluster.certificate_authority.as_deref().unwrap_or_default());
    is_at(config, cluster.endpoint.as_deref().unwrap_or_default())
        || config.root_cert.iter().flatten().any(|trusted| authority.contains(trusted))
}

/// By host; behind a tunnel it may be the name that the server's certificate must have.
fn is_at(config: &Config, endpoint: &str) -> bool {
    let host = endpoint.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_lowercase));
    let Some(host) = host else { return false };
    let named = config.tls_server_name.as_deref().or_else(|| config.cluster_url.host());
    named.is_some_and(|named| named.to_lowercase() == host)
}

/// The certificates of a PEM file in base64, as EKS gives it.
fn certificates(authority: &str) -> Vec<Vec<u8>> {
    let pem = STANDARD.decode(authority).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split("-----END").next());
    bodies.filter_map(|body| STANDARD.decode(body.split_whitespace().collect::<String>()).ok()).collect()
}

#[cfg(test)]
pub(in crate::command) mod tests {
    use karpenter_aws_sim::{Account, Options};

    use super::*;

    const ENDPOINT: &str = "https://ABC.gr7.eu-west-1.eks.amazonaws.com";

    /// A cluster of EKS at `endpoint`, whose authority is this text.
    pub(in crate::command) async fn cluster(endpoint: &str, authority: &str) -> eks::Cluster {
        let cluster = Account::new(Options::default()).clients().eks.describe_cluster("demo").await.unwrap();
        let body = STANDARD.encode(authority);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        eks::Cluster {
            endpoint: Some(endpoint.to_owned()),
            certificate_authority: Some(STANDARD.encode(pem)),
            ..cluster
        }
    }

    /// A kubeconfig of this server, which trusts this authority, if any.
    pub(in crate::command) fn at(url: &str, authority: Option<&str>) -> Config {
        let mut config = Config::new(url.parse().unwrap());
        config.root_cert = authority.map(|text| vec![text.as_bytes().to_vec()]);
        config
    }

    #[tokio::test]
    async fn a_kubeconfig_is_of_the_cluster_that_it_leads_to_or_that_signs_for_its_server() {
        let ours = cluster(ENDPOINT, "ours").await;
        let named = |name: &str| {
            let mut config = at("https://127.0.0.1:8443", None);
            config.tls_server_name = Some(name.to_owned());
            config
        };
        for (config, expected) in [
            (at(ENDPOINT, None), true),
            (at("https://DEF.gr7.eu-west-1.eks.amazonaws.com", None), false),
            (at("https://DEF.gr7.eu-west-1.eks.amazonaws.com", Some("theirs")), false),
            (at("https://127.0.0.1:8443", None), false),
            (named("abc.gr7.eu-west-1.eks.amazonaws.com"), true),
            (at("https://127.0.0.1:8443", Some("ours")), true),
            (at("https://10.100.0.1", Some("ours")), true),
            (at("https://10.100.0.1", Some("theirs")), false),
        ] {
            assert_eq!(is_of(&config, &ours), expected, "{config:?}");
        }
    }

    #[tokio::test]
    async fn a_cluster_that_is_being_created_is_not_reached() {
        let cluster = eks::Cluster { endpoint: None, certificate_authority: None, ..cluster("", "").await };
        for config in [at(ENDPOINT, None), at(ENDPOINT, Some("")), at("https://127.0.0.1:8443", Some("ours"))]
        {
            assert!(!is_of(&config, &cluster), "{config:?}");
        }
    }
}
