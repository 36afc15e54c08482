//! Target of a request, read off its path.

use http::Method;

/// The parts of a path that metrics are labelled with; empty where a path has none.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct About {
    pub(super) group: String,
    pub(super) version: String,
    /// Plural resource name; the reference calls the label `kind`.
    pub(super) resource: String,
    pub(super) subresource: String,
    /// True if the path names one object.
    named: bool,
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
        let (resource, more) = match rest.as_slice() {
            // The namespaces themselves have names and subresources too.
            ["namespaces", _namespace, resource, more @ ..] if !["status", "finalize"].contains(resource) => {
                (*resource, more)
            }
            [resource, more @ ..] => (*resource, more),
            [] => ("", [].as_slice()),
        };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: more.get(1).copied().unwrap_or_default().to_owned(),
            named: !more.is_empty(),
        }
    }

    /// The verb as client-go calls it.
    pub(super) fn verb(&self, method: &Method) -> String {
        match *method {
            Method::POST => "CREATE",
            Method::PUT => "UPDATE",
            Method::GET if !self.named => "LIST",
            _ => method.as_str(),
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_those_of_client_go() {
        for (method, path, want) in [
            (Method::GET, "/api/v1/namespaces/web/pods/a", "GET"),
            (Method::GET, "/api/v1/namespaces/web/pods", "LIST"),
            (Method::GET, "/api/v1/nodes", "LIST"),
            (Method::GET, "/api/v1/namespaces/web", "GET"),
            (Method::POST, "/apis/karpenter.sh/v1/nodeclaims", "CREATE"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter", "UPDATE"),
            (Method::PATCH, "/api/v1/nodes/n/status", "PATCH"),
            (Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/a", "DELETE"),
        ] {
            assert_eq!(About::of(path).verb(&method), want, "{method} {path}");
        }
    }

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
            let About { group, version, resource, subresource, .. } = About::of(path);
            assert_eq!([group, version, resource, subresource], want.map(ToOwned::to_owned), "{path}");
        }
    }
}
