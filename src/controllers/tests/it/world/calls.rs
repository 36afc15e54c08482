//! Everything the controllers ask of the API server, and crashes at a chosen request.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::watch;

/// When the process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    Never,
    /// Instead of sending write number so much, counted from zero.
    BeforeWrite(usize),
    /// After write number so much was done, before its answer arrives.
    AfterWrite(usize),
}

/// The log of one process.
#[derive(Clone)]
pub(crate) struct Calls {
    state: Arc<Mutex<State>>,
    crashed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// Method and path, with the query cut off.
    seen: BTreeSet<(String, String)>,
    /// Those of them that were answered with what was asked for.
    granted: BTreeSet<(String, String)>,
    writes: usize,
}

impl Calls {
    /// A client that logs and crashes, in front of `inner`.
    pub(crate) fn around(inner: kube::Client, crash: Crash) -> (Self, kube::Client) {
        let calls = Self { state: Arc::default(), crashed: watch::Sender::new(false) };
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
        let answer = inner.send(request).await;
        if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
            self.state.lock().unwrap().granted.insert(asked);
        }
        if write.is_some_and(|write| crash == Crash::AfterWrite(write)) {
            return self.crash().await;
        }
        answer
    }

    /// The number of the write, if it is one.
    fn note(&self, request: &Request<Body>) -> Option<usize> {
        let mut state = self.state.lock().unwrap();
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
        self.state.lock().unwrap().seen.clone()
    }

    /// Method and path of every request that was granted.
    pub(crate) fn granted(&self) -> BTreeSet<(String, String)> {
        self.state.lock().unwrap().granted.clone()
    }
}

fn method_of(request: &Request<Body>) -> String {
    let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    if watches { "WATCH".to_owned() } else { request.method().to_string() }
}
