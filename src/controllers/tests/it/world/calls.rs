//! Everything the controllers ask of the API server, what they are not allowed to, and crashes at a chosen request.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::permissions::needed;

/// Time of the crash of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    Never,
    /// Before the write of this number is sent, counted from zero.
    BeforeWrite(usize),
    /// After the write of this number is done, before its answer arrives.
    AfterWrite(usize),
}

/// Resources that the controllers alone may do nothing with.
#[derive(Clone, Default)]
pub(crate) struct Forbidden(Arc<Mutex<BTreeSet<String>>>);

impl Forbidden {
    /// Forbids writes of a resource, with a subresource as `pods/eviction`.
    pub(crate) fn add(&self, resource: &str) {
        self.0.lock().insert(resource.to_owned());
    }

    /// Forbids nothing any longer.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    fn answer(&self, method: &str, path: &str) -> Option<Response<Body>> {
        let forbidden = self.0.lock();
        if forbidden.is_empty() {
            return None;
        }
        let (_, resource, _) = needed(method, path);
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": format!("{resource} is forbidden"),
        });
        let answer = Response::builder().status(403).header("Content-Type", "application/json");
        forbidden.contains(&resource).then(|| answer.body(status.to_string().into_bytes().into()).unwrap())
    }
}

/// The log of one process.
#[derive(Clone)]
pub(crate) struct Calls {
    state: Arc<Mutex<State>>,
    forbidden: Forbidden,
    crashed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// Method and path, with the query cut off.
    seen: BTreeSet<(String, String)>,
    /// Requests that were answered with success.
    granted: BTreeSet<(String, String)>,
    writes: usize,
}

impl Calls {
    /// A client that logs and crashes, in front of `inner`.
    pub(crate) fn around(inner: kube::Client, forbidden: Forbidden, crash: Crash) -> (Self, kube::Client) {
        let calls = Self { state: Arc::default(), forbidden, crashed: watch::Sender::new(false) };
        let seen = calls.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (calls, inner) = (seen.clone(), inner.clone());
            async move { calls.pass_on(inner, request, crash).await }
        });
        (calls, kube::Client::new(service, "default"))
    }

    async fn pass_on(
        &self,
        inner: kube::Client,
        request: Request<Body>,
        crash: Crash,
    ) -> Result<Response<Body>, kube::Error> {
        let asked = (method_of(&request), request.uri().path().to_owned());
        let write = self.note(&request);
        if write.is_some_and(|write| crash == Crash::BeforeWrite(write)) {
            return self.crash().await;
        }
        if let Some(refusal) = self.forbidden.answer(&asked.0, &asked.1) {
            return Ok(refusal);
        }
        let answer = inner.send(request).await;
        if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
            self.state.lock().granted.insert(asked);
        }
        if write.is_some_and(|write| crash == Crash::AfterWrite(write)) {
            return self.crash().await;
        }
        answer
    }

    /// The number of the write, if it is one.
    fn note(&self, request: &Request<Body>) -> Option<usize> {
        let mut state = self.state.lock();
        state.seen.insert((method_of(request), request.uri().path().to_owned()));
        if request.method() == "GET" {
            return None;
        }
        state.writes += 1;
        Some(state.writes - 1)
    }

    async fn crash<T>(&self) -> T {
        self.crashed.send_replace(true);
        std::future::pending().await
    }

    /// Returns when the process has crashed.
    pub(crate) async fn crashed(&self) {
        self.crashed.subscribe().wait_for(|crashed| *crashed).await.unwrap();
    }

    /// Method and path of every request.
    pub(crate) fn seen(&self) -> BTreeSet<(String, String)> {
        self.state.lock().seen.clone()
    }

    /// Method and path of every request that was granted.
    pub(crate) fn granted(&self) -> BTreeSet<(String, String)> {
        self.state.lock().granted.clone()
    }
}

fn method_of(request: &Request<Body>) -> String {
    let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    if watches { "WATCH".to_owned() } else { request.method().to_string() }
}
