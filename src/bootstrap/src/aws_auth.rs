//! The `ConfigMap` `kube-system/aws-auth`: the older way to let roles join a cluster, beside access entries.
//!
//! EKS heeds it unless the cluster's authentication mode is `API`. The reference's getting-started maps the node role
//! there, so a cluster made by it is ready without an access entry.

use crate::settings::Platform;

/// Content of the `ConfigMap`, if it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AwsAuth {
    /// It was read; a cluster without one maps nothing.
    Read(Vec<Mapping>),
    /// It could not be read, and why.
    Unread(String),
}

/// An entry of `mapRoles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// ARN of the role; the authenticator takes it without a path.
    pub role: String,
    /// Kubernetes user name.
    pub username: String,
    pub groups: Vec<String>,
}

impl AwsAuth {
    /// Returns whether it lets nodes with this role join; false as well when that is not known.
    pub fn lets_join(&self, principal: &str, platform: Platform) -> bool {
        let Self::Read(mappings) = self else { return false };
        let mut needed = vec!["system:bootstrappers", "system:nodes"];
        if platform == Platform::Windows {
            needed.push("eks:kube-proxy-windows");
        }
        mappings.iter().any(|mapping| {
            mapping.role == without_path(principal)
                && mapping.username.starts_with("system:node:")
                && needed.iter().all(|group| mapping.groups.iter().any(|found| found == group))
        })
    }
}

/// `arn:aws:iam::1:role/team/nodes` is `arn:aws:iam::1:role/nodes` to the authenticator.
fn without_path(principal: &str) -> String {
    match (principal.split_once(":role/"), principal.rsplit_once('/')) {
        (Some((front, _)), Some((_, name))) => format!("{front}:role/{name}"),
        _ => principal.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 2] = ["system:bootstrappers", "system:nodes"];

    fn map(role: &str, username: &str, groups: &[&str]) -> AwsAuth {
        AwsAuth::Read(vec![Mapping {
            role: role.to_owned(),
            username: username.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }])
    }

    #[test]
    fn nodes_join_as_nodes_and_by_the_name_of_their_role() {
        let (role, node) = ("arn:aws:iam::1:role/nodes", "system:node:{{EC2PrivateDNSName}}");
        let windows = [NODES[0], NODES[1], "eks:kube-proxy-windows"];
        for (case, auth, platform, expected) in [
            ("as the getting-started maps it", map(role, node, &NODES), Platform::Linux, true),
            ("another role", map("arn:aws:iam::1:role/other", node, &NODES), Platform::Linux, false),
            ("with its path", map("arn:aws:iam::1:role/team/nodes", node, &NODES), Platform::Linux, false),
            ("an administrator", map(role, "admin", &["system:masters"]), Platform::Linux, false),
            ("one group only", map(role, node, &NODES[..1]), Platform::Linux, false),
            ("Windows without its group", map(role, node, &NODES), Platform::Windows, false),
            ("Windows", map(role, node, &windows), Platform::Windows, true),
            ("not read", AwsAuth::Unread("no kubeconfig".to_owned()), Platform::Linux, false),
        ] {
            assert_eq!(auth.lets_join("arn:aws:iam::1:role/team/nodes", platform), expected, "{case}");
        }
    }
}
