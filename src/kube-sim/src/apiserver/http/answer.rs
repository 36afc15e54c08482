//! Responses.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde::Serialize;

use crate::apiserver::refusal::Refusal;

/// The body of every response: whole, or a stream of watch events.
pub(in crate::apiserver) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(super) fn json(code: StatusCode, value: &impl Serialize) -> Response<Body> {
    with_type(code, "application/json", bytes_of(value))
}

/// A value as JSON.
pub(super) fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: what is answered has only text as keys")
}

pub(super) fn text(value: &'static str) -> Response<Body> {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", value.into())
}

pub(super) fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &refusal.to_status());
    if let Some(seconds) = refusal.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn with_type(code: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
