//! Windows: a PowerShell block that calls the EKS bootstrap script (spec aws-provider 6.10).

use super::Bootstrap;
use super::kubelet;

/// Renders the block; the `NodeClass`'s own commands run first.
pub fn render(bootstrap: &Bootstrap) -> String {
    let mut call = format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}'",
        bootstrap.cluster_name, bootstrap.cluster_endpoint
    );
    if let Some(ca) = &bootstrap.ca_bundle {
        call.push_str(&format!(" -Base64ClusterCA '{ca}'"));
    }
    let args = kubelet::extra_args(bootstrap);
    if !args.is_empty() {
        call.push_str(&format!(" -KubeletExtraArgs '{args}'"));
    }
    if let Some(ip) = bootstrap.kubelet.cluster_dns.as_ref().and_then(|servers| servers.first()) {
        call.push_str(&format!(" -DNSClusterIP '{ip}'"));
    }
    let custom = match bootstrap.custom.as_deref() {
        None | Some("") => String::new(),
        Some(text) => format!("{text}\n"),
    };
    format!(
        "<powershell>\n{custom}[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n{call}\n</powershell>"
    )
}
