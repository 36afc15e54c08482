//! Everything the controllers ask the API server to change.

use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) method: String,
    /// Path without the query: `/apis/karpenter.sh/v1/nodeclaims/web-1/status`.
    pub(crate) path: String,
    /// Body of the request, for messages of failed tests; null for an empty body.
    pub(crate) body: Value,
}

/// The log of one process.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<Vec<Write>>>);

impl Writes {
    /// A client that logs writes, in front of `inner`.
    pub(crate) fn around(inner: kube::Client) -> (Self, kube::Client) {
        let writes = Self::default();
        let log = writes.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, inner) = (log.clone(), inner.clone());
            async move { log.pass_on(inner, request).await }
        });
        (writes, kube::Client::new(service, "default"))
    }

    async fn pass_on(
        &self,
        inner: kube::Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        if request.method() == "GET" {
            return inner.send(request).await;
        }
        let (head, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let write = Write {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        };
        self.0.lock().push(write);
        inner.send(Request::from_parts(head, Body::from(bytes))).await
    }

    /// All writes since the last time, in order.
    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.lock())
    }
}
