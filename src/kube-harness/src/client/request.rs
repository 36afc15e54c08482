//! What a request is about, read off its path.

/// The parts of a path that metrics are labelled with; empty where a path has none.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct About {
    pub(super) group: String,
    pub(super) version: String,
    /// Plural resource name; the reference calls the label `kind`.
    pub(super) resource: String,
    pub(super) subresource: String,
}

impl About {
    /// Reads `/api/v1/...` and `/apis/<group>/<version>/...`.
    pub(super) fn of(path: &str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return Self::default(),
        };
        let version = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let (resource, subresource) = match rest.as_slice() {
            // The namespaces themselves have names and subresources too.
            ["namespaces", _namespace, resource, more @ ..] if !["status", "finalize"].contains(resource) => {
                (*resource, more.get(1))
            }
            [resource, more @ ..] => (*resource, more.get(1)),
            [] => ("", None),
        };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.copied().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        for (path, want) in [
            ("/api/v1/pods", ["", "v1", "pods", ""]),
            ("/api/v1/nodes/n/status", ["", "v1", "nodes", "status"]),
            ("/api/v1/namespaces/web", ["", "v1", "namespaces", ""]),
            ("/api/v1/namespaces/web/pods/a", ["", "v1", "pods", ""]),
            ("/api/v1/namespaces/web/pods/a/eviction", ["", "v1", "pods", "eviction"]),
            ("/apis/karpenter.sh/v1/nodeclaims/a/status", ["karpenter.sh", "v1", "nodeclaims", "status"]),
            ("/apis/karpenter.sh/v1", ["karpenter.sh", "v1", "", ""]),
            ("/version", ["", "", "", ""]),
        ] {
            let About { group, version, resource, subresource } = About::of(path);
            assert_eq!([group, version, resource, subresource], want.map(ToOwned::to_owned), "{path}");
        }
    }
}
