//! Amazon Linux 2: the EKS bootstrap script, last part of a MIME archive (spec aws-provider 6.7).

use std::net::Ipv4Addr;

use super::mime::{self, Part, SHELL_SCRIPT};
use super::{Bootstrap, Error, al2023, cloud_init, kubelet};

/// Renders the archive: the `NodeClass`'s parts first, so that it can prepare what the bootstrap script uses.
///
/// # Errors
/// When custom user data is malformed MIME, or nothing on the node would read it.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut parts = parts(bootstrap.custom.as_deref())?;
    parts.push(Part::new(SHELL_SCRIPT, script(bootstrap)));
    Ok(mime::write(&parts))
}

/// The parts of the user.
pub(super) fn parts(custom: Option<&str>) -> Result<Vec<Part>, Error> {
    cloud_init::parts(custom, own)
}

/// Nothing but cloud-init reads user data here.
fn own(text: &str) -> Result<Option<&'static str>, Error> {
    if al2023::is_mapping(text) {
        let why = "it is YAML without a first line that says of what kind, and AL2 has no nodeadm; begin it with \
                   `#cloud-config`, or write a script";
        return Err(Error::Unread(why.to_owned()));
    }
    Ok(None)
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
    // The script does not find out the family of the cluster by itself; the address of the DNS shows it.
    if dns.is_some_and(|ip| ip.parse::<Ipv4Addr>().is_err()) {
        lines.push("--ip-family ipv6".to_owned());
    }
    if let Some(ip) = dns {
        lines.push(format!("--dns-cluster-ip '{ip}'"));
    }
    if bootstrap.kubelet.max_pods.is_some() {
        // Otherwise the script passes a number of its own for the type to the kubelet.
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
