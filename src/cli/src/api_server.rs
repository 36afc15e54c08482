//! The API server that the environment names, for every command that asks it: how to reach it, and what to do when it
//! does not answer as it should.

use std::error::Error as _;

use anyhow::{Context, Result, ensure};
use kube::{Client, Config};

/// How to reach the API server: as a pod, or by the current context of the kubeconfig.
///
/// # Errors
/// There is neither, or the kubeconfig cannot be used.
pub(crate) async fn config() -> Result<Config> {
    let config = Config::infer()
        .await
        .context("cannot find out how to reach the API server; set KUBECONFIG to the path of a kubeconfig")?;
    let server = &config.cluster_url;
    // kubectl takes an address without a scheme; the client ends the process over it.
    ensure!(
        server.scheme().is_some(),
        "cannot use `{server}`, the server of the current context of the kubeconfig: it has no scheme; write \
         `https://{server}`"
    );
    Ok(config)
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
