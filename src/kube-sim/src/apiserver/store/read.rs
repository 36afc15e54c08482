//! The verbs get and list.

use std::{ops::Bound, sync::Arc};

use base64::Engine;
use serde_json::{Value, json};

use super::Store;
use crate::apiserver::{object::Key, refusal::Refusal, resource::Resource, selector::Selectors};

/// Query of a list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Empty for all namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// Selectors of the objects.
    pub selectors: Selectors,
    /// Largest number of objects in one page; 0 for no limit.
    pub limit: usize,
    /// End of the page before; empty for the first one.
    pub resume: String,
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// The objects, in order of namespace and name.
    pub items: Vec<Arc<Value>>,
    /// Revision to watch from: that of the first page.
    pub revision: u64,
    /// Token of the next page; empty on the last one.
    pub resume: String,
    /// Objects after this page, when there are any and no selector hides their number.
    pub remaining: usize,
}

impl Store {
    /// The object under `key`.
    pub fn get(&self, resource: &Resource, key: &Key) -> Result<Arc<Value>, Refusal> {
        self.find(resource, key)
    }

    /// A page of the objects that match.
    pub fn list(&self, resource: &Resource, query: &ListQuery) -> Result<Page, Refusal> {
        let (revision, start) = match query.resume.as_str() {
            "" => (self.revision, Bound::Unbounded),
            token => {
                let (revision, after) = decode(token)?;
                self.log.since(&resource.table(), revision)?;
                (revision, Bound::Excluded(after))
            }
        };
        let inside = |key: &Key| query.namespace.is_empty() || key.namespace == query.namespace;
        let table = self.tables.get(&resource.table());
        let range = table.into_iter().flat_map(|t| t.range((start.clone(), Bound::Unbounded)));
        let mut matching = range.filter(|(key, object)| inside(key) && query.selectors.matches(object));
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let found: Vec<(&Key, &Arc<Value>)> = matching.by_ref().take(limit).collect();
        let remaining = matching.count();
        let last = found.last().filter(|_| remaining > 0);
        let resume = last.map(|(key, _)| encode(revision, key)).unwrap_or_default();
        let items = found.into_iter().map(|(_, object)| object.clone()).collect();
        Ok(Page { items, revision, resume, remaining })
    }
}

fn encode(revision: u64, key: &Key) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "ns": key.namespace, "name": key.name});
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode(token: &str) -> Result<(u64, Key), Refusal> {
    let malformed = || Refusal::bad_request("continue key is not valid");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).map_err(|_| malformed())?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
    let text = |field: &str| token[field].as_str().ok_or_else(malformed);
    let revision = token["rv"].as_u64().ok_or_else(malformed)?;
    Ok((revision, Key::new(text("ns")?, text("name")?)))
}
