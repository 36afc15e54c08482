//! Resolves a path to what it names.

use std::{collections::BTreeMap, sync::Arc};

use super::reviews::Review;
use crate::apiserver::{ApiServer, resource::Resource};

/// Target of a path.
#[derive(Debug)]
pub(super) enum Route {
    /// Objects of a resource.
    Resource(Target),
    /// A review: a question that is posted and answered, never stored.
    Review(Review),
    /// A document about the server.
    Document(Document),
}

/// Objects of a resource, or one object, or a subresource of it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    /// Empty for all namespaces and for cluster-scoped kinds.
    pub(super) namespace: String,
    /// Empty for the collection.
    pub(super) name: String,
    /// Empty for the object itself.
    pub(super) subresource: String,
}

/// Documents about the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document {
    Version,
    Health,
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
    OpenApiIndex,
    OpenApi { group: String, version: String },
}

/// Query parameters.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Self(text.split('&').filter(|p| !p.is_empty()).map(pair).collect())
    }

    /// A parameter, empty when absent.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }
}

/// Returns the target of `path`; `None` when it names nothing.
pub(super) fn route(server: &ApiServer, path: &str) -> Option<Route> {
    let decoded: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(decoded).collect();
    let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let own = |text: &str| text.to_owned();
    let document = match parts.as_slice() {
        ["version"] => Document::Version,
        ["healthz" | "livez" | "readyz", ..] => Document::Health,
        ["api"] => Document::CoreVersions,
        ["apis"] => Document::Groups,
        ["apis", group] => Document::Group(own(group)),
        ["api", version] => Document::Resources { group: String::new(), version: own(version) },
        ["apis", group, version] => Document::Resources { group: own(group), version: own(version) },
        ["openapi", "v3"] => Document::OpenApiIndex,
        ["openapi", "v3", "api", version] => {
            Document::OpenApi { group: String::new(), version: own(version) }
        }
        ["openapi", "v3", "apis", group, version] => {
            Document::OpenApi { group: own(group), version: own(version) }
        }
        ["api", version, rest @ ..] => return target(server, "", version, rest).map(Route::Resource),
        ["apis", group, version, rest @ ..] => {
            if let [plural] = rest
                && let Some(review) = Review::find(group, plural)
            {
                return Some(Route::Review(review));
            }
            return target(server, group, version, rest).map(Route::Resource);
        }
        _ => return None,
    };
    Some(Route::Document(document))
}

fn target(server: &ApiServer, group: &str, version: &str, rest: &[&str]) -> Option<Target> {
    let find = |plural: &str| server.read(|store| store.registry().get(group, version, plural));
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, tail @ ..] if find(plural).is_some_and(|r| r.namespaced) => {
            (*namespace, [&[*plural], tail].concat())
        }
        rest => ("", rest.to_vec()),
    };
    let (plural, name, subresource) = match rest.as_slice() {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return None,
    };
    Some(Target {
        resource: find(plural)?,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    })
}

/// Percent-decoding; `+` is a space, as in forms.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = || u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok();
        let (byte, tail) = match first {
            b'%' => escaped().map_or((first, tail), |byte| (byte, &tail[2..])),
            b'+' => (b' ', tail),
            other => (other, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&x");
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.is_true("watch"));
        assert_eq!(query.get("x"), "");
        assert_eq!(decoded("50%"), "50%");
    }
}
