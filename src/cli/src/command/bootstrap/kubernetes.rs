//! The cluster's own API server, through the current kubeconfig: never that of another cluster than the flags name.

use std::time::Duration;

use karpenter_aws_api::eks;
use kube::Client;
use kube::config::Config;

/// A server that does not answer counts as missing.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A client for `cluster`, or why there is none, as the end of a sentence.
pub(super) async fn connect(cluster: &eks::Cluster) -> Result<Client, String> {
    let mut config = Config::infer().await.map_err(|error| format!("no kubeconfig: {error}"))?;
    config.connect_timeout = Some(CONNECT_WITHIN);
    let endpoint = cluster.endpoint.as_deref().unwrap_or_default();
    if !is_of(&config, endpoint) {
        return Err(format!(
            "the current kubeconfig is of {}, and the cluster is at {endpoint}: `aws eks update-kubeconfig --name {}`",
            config.cluster_url, cluster.name
        ));
    }
    Client::try_from(config).map_err(|error| format!("the current kubeconfig cannot be used: {error}"))
}

/// Whether it leads to this endpoint. By host; behind a tunnel it is the name that the server's certificate must have.
pub(in crate::command) fn is_of(config: &Config, endpoint: &str) -> bool {
    let host = endpoint.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_lowercase));
    let Some(host) = host else { return false };
    let named = config.tls_server_name.as_deref().or_else(|| config.cluster_url.host());
    named.is_some_and(|named| named.to_lowercase() == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_told_by_the_host_it_leads_to() {
        let at = |url: &str, name: Option<&str>| {
            let mut config = Config::new(url.parse().unwrap());
            config.tls_server_name = name.map(str::to_owned);
            config
        };
        let endpoint = "https://ABC.gr7.eu-west-1.eks.amazonaws.com";
        let host = "abc.gr7.eu-west-1.eks.amazonaws.com";
        for (config, expected) in [
            (at(endpoint, None), true),
            (at("https://DEF.gr7.eu-west-1.eks.amazonaws.com", None), false),
            (at("https://127.0.0.1:8443", None), false),
            (at("https://127.0.0.1:8443", Some(host)), true),
        ] {
            assert_eq!(is_of(&config, endpoint), expected, "{config:?}");
            assert!(!is_of(&config, ""), "a cluster without an endpoint is not reached");
        }
    }
}
