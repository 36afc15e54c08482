//! The API server that the environment names, for every command that asks it: how to reach it, and what to do when it
//! does not answer as it should.

use std::error::Error as _;

use anyhow::{Context, Result, ensure};
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::{Client, Config};

/// How to reach the API server: as a pod, or by the current context of the kubeconfig.
///
/// # Errors
/// There is neither, or the kubeconfig cannot be used.
pub(crate) async fn config() -> Result<Config> {
    let mut config = Config::infer()
        .await
        .context("cannot find out how to reach the API server; set KUBECONFIG to the path of a kubeconfig")?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let [proxy, exempt] = [["HTTPS_PROXY", "https_proxy"], ["NO_PROXY", "no_proxy"]]
        .map(|names| names.into_iter().find_map(variable).unwrap_or_default());
    config.proxy_url = config.proxy_url.filter(|used| applies(used, &proxy, &exempt, &config.cluster_url));
    let server = &config.cluster_url;
    // kubectl takes an address without a scheme; the client ends the process over it.
    ensure!(
        server.scheme().is_some(),
        "cannot use `{server}`, the server of the current context of the kubeconfig: it has no scheme; write \
         `https://{server}`"
    );
    Ok(config)
}

/// Whether the way to `server` is through the proxy that the library `used`: always if the kubeconfig names it; one of the
/// environment only where `NO_PROXY` does not name the server. The library compares that with the address of the proxy.
fn applies(used: &Uri, proxy: &str, exempt: &str, server: &Uri) -> bool {
    let of_environment = proxy.parse::<Uri>().is_ok_and(|proxy| proxy == *used);
    !of_environment || Matcher::builder().all(proxy).no(exempt).build().intercept(server).is_some()
}

/// A client of that server.
pub(crate) async fn client() -> Result<Client> {
    Client::try_from(config().await?).context("cannot set up the Kubernetes client")
}

/// Why a request failed, with all that is known, and what to do about it: `rights` if the server forbids it.
pub(crate) fn why(error: &kube::Error, rights: &str) -> String {
    let said = whole(error);
    let next = match error {
        kube::Error::Api(status) => match status.code {
            401 => "log in again: the API server does not know these credentials",
            403 => rights,
            _ => return said,
        },
        kube::Error::Auth(_) => "log in again: the kubeconfig brings no credentials that can be used",
        _ => "look whether the server of the current context of the kubeconfig can be reached from here",
    };
    format!("{said}; {next}")
}

/// An error with its causes, none of them twice.
fn whole(error: &kube::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let text = one.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        cause = one.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_proxy_of_the_environment_is_for_servers_that_are_not_exempt() {
        let proxy: Uri = "http://proxy.example.com:3128".parse().unwrap();
        let server: Uri = "https://abc.gr7.eu-west-1.eks.amazonaws.com".parse().unwrap();
        for (environment, exempt, expected) in [
            ("http://proxy.example.com:3128", "", true),
            ("http://proxy.example.com:3128", "127.0.0.1,10.0.0.0/8", true),
            ("http://proxy.example.com:3128", "127.0.0.1,.eks.amazonaws.com", false),
            ("http://proxy.example.com:3128", "proxy.example.com", true),
            ("http://other.example.com:3128", ".eks.amazonaws.com", true),
            ("", ".eks.amazonaws.com", true),
        ] {
            assert_eq!(applies(&proxy, environment, exempt, &server), expected, "{environment} {exempt}");
        }
    }

    #[test]
    fn what_to_do_depends_on_how_the_request_failed() {
        let answered = |code: u16, reason: &str| {
            let status = Status::failure("it says no", reason).with_code(code);
            why(&kube::Error::Api(status.boxed()), "grant verb `list` on nodes")
        };
        assert!(answered(403, "Forbidden").ends_with("; grant verb `list` on nodes"));
        assert!(answered(401, "Unauthorized").contains("; log in again"));
        assert!(!answered(500, "InternalError").contains("grant"));
        let unreachable = std::io::Error::new(
            std::io::ErrorKind::ConnectionRefused,
            std::io::Error::other("port 6443 is closed"),
        );
        let unreachable = why(&kube::Error::Service(Box::new(unreachable)), "grant verb `list` on nodes");
        assert!(unreachable.contains("port 6443 is closed"), "{unreachable}");
        assert!(unreachable.ends_with("can be reached from here"), "{unreachable}");
    }
}
