//! Check that the current kubeconfig belongs to the cluster that the flags name.
//!
//! Facts read from another cluster lead to wrong advice, and a repair there is damage. EKS returns the address of the API
//! server of a cluster and the authority that signs for it. A server that is neither that of the named cluster nor one of
//! EKS counts as the named one if EKS does not find the name: not every cluster belongs to EKS.

use anyhow::{Result, bail};
use karpenter_aws_api::{Clients, eks};
use kube::config::Config;

use crate::command::bootstrap::kubernetes::is_of;

/// Returns why it may belong to another one; `None` if all agrees. `account` has the clients, or the reason why there are none.
pub(super) async fn doubt(config: &Config, name: &str, account: Result<&Clients, &str>) -> Option<String> {
    let found = match account {
        Ok(clients) => clients.eks.describe_cluster(name).await.map_err(|error| error.to_string()),
        Err(why) => Err(why.to_owned()),
    };
    contradiction(config, name, found.as_ref().map_err(String::as_str))
}

/// Returns the warning about a doubt to print before the report, if there is one.
///
/// # Errors
/// When something is to be repaired: it might be in another cluster.
pub(super) fn warning(doubt: Option<&str>, name: &str, fix: bool) -> Result<Option<String>> {
    let Some(doubt) = doubt else { return Ok(None) };
    let choose = format!("`aws eks update-kubeconfig --name {name}` chooses the named one");
    if fix {
        bail!("cannot repair cluster `{name}`: {doubt}; {choose}, and without --fix nothing is changed");
    }
    Ok(Some(format!("warning: {doubt}: what is said of the cluster may be of another one; {choose}\n")))
}

fn contradiction(config: &Config, name: &str, found: Result<&eks::Cluster, &str>) -> Option<String> {
    let url = &config.cluster_url;
    match found {
        Ok(cluster) if is_of(config, cluster) => None,
        Ok(cluster) => {
            let endpoint = cluster.endpoint.as_deref().unwrap_or("no endpoint yet");
            Some(format!("the current kubeconfig is of {url}, and cluster `{name}` is at {endpoint}"))
        }
        Err(why) if is_of_eks(config) => {
            Some(format!("the current kubeconfig is of {url}, which nothing shows to be `{name}`: {why}"))
        }
        Err(_) => None,
    }
}

fn is_of_eks(config: &Config) -> bool {
    let named = config.tls_server_name.as_deref().or_else(|| config.cluster_url.host()).unwrap_or_default();
    named.contains(".eks.") || named.contains("eks-cluster.")
}

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Account, Options};

    use super::*;
    use crate::command::bootstrap::kubernetes::tests::{at, cluster};

    const HOST: &str = "https://ABC.gr7.us-west-2.eks.amazonaws.com";

    #[tokio::test]
    async fn a_kubeconfig_of_another_cluster_than_the_named_one_is_doubted() {
        let demo = cluster(HOST, "ours").await;
        let found = |authority| contradiction(&at("https://10.100.0.1", Some(authority)), "demo", Ok(&demo));
        assert_eq!(found("ours"), None);
        let doubt =
            format!("the current kubeconfig is of https://10.100.0.1/, and cluster `demo` is at {HOST}");
        assert_eq!(found("theirs"), Some(doubt));
    }

    #[tokio::test]
    async fn a_name_that_eks_does_not_know_is_only_doubted_for_a_server_of_eks() {
        let clients = Account::new(Options::default()).clients();
        for (url, doubted) in [("https://127.0.0.1:8443", false), (HOST, true)] {
            for account in [Ok(&clients), Err("no credentials")] {
                let found = doubt(&at(url, None), "elsewhere", account).await;
                assert_eq!(found.is_some(), doubted, "{url}: {found:?}");
            }
        }
    }

    #[test]
    fn a_doubt_forbids_repairs_and_is_said_before_a_report() {
        assert_eq!(warning(None, "demo", true).unwrap(), None);
        let said = warning(Some("it is of b"), "demo", false).unwrap().unwrap();
        assert!(said.starts_with("warning: it is of b: ") && said.contains("--name demo"), "{said}");
        let refused = warning(Some("it is of b"), "demo", true).unwrap_err().to_string();
        assert!(refused.starts_with("cannot repair cluster `demo`: it is of b; `aws eks"), "{refused}");
    }
}
