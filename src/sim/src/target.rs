//! Target of a request to the API server, read from its path as the server would.

use http::Request;
use kube::client::Body;

/// Resource and verb of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) verb: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Target {
    /// Reads it from the path and the method.
    pub(crate) fn of(request: &Request<Body>) -> Self {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let verb = if watches { "WATCH".to_owned() } else { request.method().to_string() };
        let mut parts = request.uri().path().split('/').filter(|part| !part.is_empty());
        let skip = if parts.next() == Some("api") { 1 } else { 2 };
        let mut rest = parts.skip(skip).peekable();
        let namespaced = rest.next_if_eq(&"namespaces").is_some();
        let namespace = if namespaced { rest.next().unwrap_or_default() } else { "" }.to_owned();
        let mut next = || rest.next().unwrap_or_default().to_owned();
        Self { verb, namespace, plural: next(), name: next(), subresource: next() }
    }

    /// Returns whether the request changes anything.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "GET" | "WATCH")
    }

    /// Returns the line of the trace.
    pub(crate) fn text(&self) -> String {
        let Self { verb, namespace, plural, name, subresource } = self;
        format!("{verb} {namespace}/{plural}/{name}/{subresource}")
    }
}
