//! Names that kube-apiserver accepts.

use crate::apiserver::Cause;
use serde_json::json;

/// The cause to refuse `name`, if any. Kinds whose names are path segments (roles, bindings) may use
/// characters that DNS does not allow.
pub(super) fn check(group: &str, name: &str) -> Option<Cause> {
    if name.is_empty() {
        return Some(Cause::required("metadata.name", "name or generateName is required"));
    }
    let valid = if group == "rbac.authorization.k8s.io" { is_path_segment(name) } else { is_subdomain(name) };
    let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
               and must start and end with an alphanumeric character";
    (!valid).then(|| Cause::invalid("metadata.name", &json!(name), why))
}

fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}

fn is_subdomain(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
        alphanumeric(first) && alphanumeric(last) && bytes.iter().all(|&b| alphanumeric(b) || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
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
