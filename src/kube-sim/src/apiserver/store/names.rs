//! Names that kube-apiserver accepts.

use crate::apiserver::Cause;
use karpenter_model::requirement::syntax::is_dns_subdomain;
use serde_json::json;

/// The cause to refuse `name`, if any. Kinds whose names are path segments (roles, bindings) may use
/// characters that DNS does not allow.
pub(super) fn check(group: &str, name: &str) -> Option<Cause> {
    if name.is_empty() {
        return Some(Cause::required("metadata.name", "name or generateName is required"));
    }
    let valid =
        if group == "rbac.authorization.k8s.io" { is_path_segment(name) } else { is_dns_subdomain(name) };
    let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
               and must start and end with an alphanumeric character";
    (!valid).then(|| Cause::invalid("metadata.name", &json!(name), why))
}

fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_subdomains_except_in_rbac() {
        for (group, name, accepted) in [
            ("", "ip-10-0-0-1.ec2.internal", true),
            ("", "Upper", false),
            ("", "-dash", false),
            ("", "two..dots", false),
            ("", "", false),
            ("rbac.authorization.k8s.io", "system:node", true),
            ("rbac.authorization.k8s.io", "a/b", false),
        ] {
            assert_eq!(check(group, name).is_none(), accepted, "{group} {name}");
        }
    }
}
