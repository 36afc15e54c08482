//! Between a controller and the API server: every request and every event of a watch passes here.
//!
//! A request that was sent goes its way in a task of the world, not of its sender: when the sender dies it may be carried
//! out all the same, as a packet that has left its host.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::check::Truth;
use crate::defect::{Defect, Led};
use crate::fault_injector::{Chances, Cut, Fate};
use crate::life::Life;
use crate::target::Target;
use crate::trace::Trace;

/// The connection ended before the answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection was closed before the answer")]
struct Closed;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// The port of one process. Clones are the same port.
#[derive(Clone)]
pub(crate) struct KubePort {
    pub(crate) who: String,
    pub(crate) server: kube::Client,
    pub(crate) life: Life,
    pub(crate) chances: Chances,
    pub(crate) truth: Truth,
    pub(crate) trace: Trace,
    pub(crate) defect: Option<Defect>,
    pub(crate) led: Led,
}

impl KubePort {
    /// One request.
    pub(crate) async fn request(self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let target = Target::of(&request);
        self.life.boundary().await;
        if target.writes() {
            self.truth.sends(&self.who, &target);
        }
        let (port, about) = (self.clone(), target.clone());
        let way = tokio::spawn(async move { port.way(request, about).await });
        let answer = way.await.map_err(|_| Closed)?;
        self.life.boundary().await;
        let watches = target.verb == "WATCH";
        let whole = |answer: Response<Body>| answer.map(|body| body.map_err(Into::into).boxed_unsync());
        answer.map(|answer| if watches { self.watched(answer, &target) } else { whole(answer) })
    }

    /// The way of a request to the server and of its answer back.
    async fn way(self, request: Request<Body>, target: Target) -> Result<Response<Body>, BoxError> {
        let lot = self.chances.of_kube(target.writes());
        tokio::time::sleep(lot.before).await;
        if self.life.is_dead() && !lot.lands {
            return Err(Closed.into());
        }
        if let Fate::Refused(code) = lot.fate {
            self.trace.note(&self.who, &target.text(), &format!("refused {code}"));
            return Ok(refusal(code));
        }
        let (request, unsent) = match self.defect {
            Some(defect) => {
                let request = defect.request(request, &target, &self.who).await?;
                defect.lease(request, &target, &self.led).await?
            }
            None => (request, None),
        };
        if let Some(answer) = unsent {
            return Ok(answer);
        }
        let broken = self.truth.asked(&target, request.method() == Method::DELETE);
        let answer = self.server.send(request).await;
        self.truth.answered(broken, answer.as_ref().ok().map(Response::status));
        if target.plural == "leases"
            && target.writes()
            && answer.as_ref().is_ok_and(|it| it.status().is_success())
        {
            self.truth.lease_written(&self.who);
            self.led.lock().leads = true;
        }
        let outcome = match &answer {
            Ok(answer) => answer.status().as_u16().to_string(),
            Err(error) => error.to_string(),
        };
        self.trace.note(&self.who, &target.text(), &format!("{outcome} {:?}", lot.fate));
        tokio::time::sleep(lot.after).await;
        match (lot.fate, self.defect) {
            (Fate::Lost, _) => Err(Closed.into()),
            (_, Some(defect)) if target.verb != "WATCH" => defect.answer(answer?, &target).await,
            _ => Ok(answer?),
        }
    }

    /// An answer whose events pass here, one by one.
    fn watched(&self, answer: Response<Body>, target: &Target) -> Response<Answer> {
        let (head, body) = answer.into_parts();
        let watch =
            Watch { port: self.clone(), plural: target.plural.clone(), body, again: None, over: false };
        let frames = stream::unfold(watch, |mut watch| async move {
            let frame = watch.next().await?;
            Some((frame.map(Frame::data), watch))
        });
        Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }
}

/// One watch under way.
struct Watch {
    port: KubePort,
    plural: String,
    body: Body,
    again: Option<Bytes>,
    over: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if let Some(again) = self.again.take() {
            return Some(Ok(again));
        }
        loop {
            if self.over {
                return None;
            }
            let bytes = match self.body.frame().await? {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => return Some(Err(error.into())),
            };
            let lot = self.port.chances.of_frame();
            tokio::time::sleep(lot.late).await;
            self.port.life.boundary().await;
            let Some(bytes) = self.seen(bytes, lot.silent) else { continue };
            self.note(&bytes, lot.cut);
            if let Some(cut) = lot.cut {
                self.over = true;
                return (cut == Cut::Within).then(|| Ok(bytes.slice(..bytes.len() / 2)));
            }
            let repeatable =
                bytes.starts_with(b"{\"type\":\"ADDED\"") || bytes.starts_with(b"{\"type\":\"MODIFIED\"");
            self.again = (lot.twice && repeatable).then(|| bytes.clone());
            return Some(Ok(bytes));
        }
    }

    /// The event as the controller gets it, if it does.
    fn seen(&self, bytes: Bytes, silent: bool) -> Option<Bytes> {
        let bookmark = bytes.starts_with(b"{\"type\":\"BOOKMARK\"");
        // The end of the first list is no news of time passing.
        let ends_list = || bytes.windows(18).any(|part| part == b"initial-events-end");
        if silent && bookmark && !ends_list() {
            return None;
        }
        match self.port.defect {
            Some(defect) => defect.frame(bytes, &self.plural),
            None => Some(bytes),
        }
    }

    fn note(&self, bytes: &[u8], cut: Option<Cut>) {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        // Eight bytes at a time: every byte of every event passes here.
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        let kind = bytes.get(9..14).map(String::from_utf8_lossy).unwrap_or_default();
        let what = format!("event {} {kind} {hash:016x}", self.plural);
        self.port.trace.note(&self.port.who, &what, if cut.is_some() { "cut" } else { "" });
    }
}

fn refusal(code: u16) -> Response<Body> {
    let (reason, message) = match code {
        409 => ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        _ => ("InternalError", "an error on the server"),
    };
    let body: Value = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code,
    });
    let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    if code == 429 {
        answer.headers_mut().insert("retry-after", http::HeaderValue::from_static("1"));
    }
    answer
}

/// The clients of one process, made as the program makes them: with its limits, and with its patience.
pub(crate) fn clients(
    port: &KubePort,
    limits: karpenter_kube_harness::client::Limits,
    metrics: Arc<karpenter_telemetry::metrics::Metrics>,
) -> (karpenter_kube_harness::client::Connected, kube::Client) {
    let port = port.clone();
    let service = tower::service_fn(move |request: Request<Body>| port.clone().request(request));
    let leases = kube::Client::new(service.clone(), "default");
    (karpenter_kube_harness::client::over(&service, limits, metrics), leases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_what_they_are_about() {
        let target = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            Target::of(&request).text()
        };
        assert_eq!(target("POST", "/api/v1/namespaces/a/pods/p/eviction"), "POST a/pods/p/eviction");
        assert_eq!(target("GET", "/apis/karpenter.sh/v1/nodeclaims?watch=true"), "WATCH /nodeclaims//");
        assert_eq!(target("PATCH", "/api/v1/nodes/n/status"), "PATCH /nodes/n/status");
    }
}
