//! Amazon Linux 2: the EKS bootstrap script, last part of a MIME archive (spec aws-provider 6.7).

use std::net::Ipv4Addr;

use super::kubelet;
use super::mime::{self, Part, SHELL_SCRIPT};
use super::{Bootstrap, Error};

/// Renders the archive: the `NodeClass`'s parts first, so that it can prepare what the bootstrap script uses.
///
/// # Errors
/// [`Error::Mime`] when custom user data starts like MIME and cannot be split.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut parts = custom_parts(bootstrap.custom.as_deref())?;
    parts.push(Part::new(SHELL_SCRIPT, script(bootstrap)));
    Ok(mime::write(&parts))
}

fn custom_parts(custom: Option<&str>) -> Result<Vec<Part>, Error> {
    match custom {
        None | Some("") => Ok(Vec::new()),
        Some(text) if mime::is_mime(text) => mime::parse(text),
        Some(text) => Ok(vec![Part::new(SHELL_SCRIPT, text)]),
    }
}

fn script(bootstrap: &Bootstrap) -> String {
    let mut call = format!(
        "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}'",
        bootstrap.cluster_name, bootstrap.cluster_endpoint
    );
    if let Some(ca) = &bootstrap.ca_bundle {
        call.push_str(&format!(" --b64-cluster-ca '{ca}'"));
    }
    let mut lines = vec![call];
    let dns = bootstrap.kubelet.cluster_dns.as_ref().and_then(|servers| servers.first());
    if dns.is_some_and(|ip| ip.parse::<Ipv4Addr>().is_err()) {
        lines.push("--ip-family ipv6".to_owned());
    }
    if let Some(ip) = dns {
        lines.push(format!("--dns-cluster-ip '{ip}'"));
    }
    if bootstrap.kubelet.max_pods.is_some() {
        lines.push("--use-max-pods false".to_owned());
    }
    let args = kubelet::extra_args(bootstrap);
    if !args.is_empty() {
        lines.push(format!("--kubelet-extra-args '{args}'"));
    }
    if bootstrap.raid0 {
        lines.push("--local-disks raid0".to_owned());
    }
    format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{}",
        lines.join(" \\\n")
    )
}
