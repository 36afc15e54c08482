//! HTTP over the store: a tower service that is the same for the in-process client and for the loopback port.

mod answer;
mod call;
mod discovery;
mod openapi;
mod reviews;
mod route;
mod view;
mod watch;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use ::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;

use self::{
    answer::Body,
    route::{Query, Route},
};
use super::{ApiServer, faults::HungUp, refusal::Refusal};

/// The service.
#[derive(Clone)]
pub(super) struct Service {
    server: ApiServer,
}

/// A request with its body read.
pub(super) struct Incoming {
    method: Method,
    query: Query,
    accept: String,
    content_type: String,
    manager: String,
    body: Bytes,
}

impl Service {
    pub(super) fn new(server: ApiServer) -> Self {
        Self { server }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = HungUp;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, HungUp>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HungUp>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        Box::pin(async move { respond(&server, request).await })
    }
}

async fn respond<B>(server: &ApiServer, request: Request<B>) -> Result<Response<Body>, HungUp>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    let (head, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            return Ok(answer::refused(&Refusal::bad_request(format!("cannot read the body: {error}"))));
        }
    };
    let header =
        |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let agent = header("user-agent");
    let manager = match query.get("fieldManager") {
        "" => agent.split('/').next().unwrap_or_default().to_owned(),
        given => given.to_owned(),
    };
    let incoming = Incoming {
        method: head.method,
        accept: header("accept"),
        content_type: header("content-type"),
        query,
        manager,
        body,
    };
    let path = head.uri.path();
    let answered = match route::route(server, path) {
        Some(Route::Resource(target)) => call::answer(server, &target, &incoming).await?,
        Some(Route::Review(kind)) => {
            reviews::answer(kind, &incoming).map(|review| answer::json(StatusCode::CREATED, &review))
        }
        Some(Route::Document(document)) => Ok(discovery::answer(server, &document)),
        None => Err(Refusal::no_such_path()),
    };
    Ok(answered.unwrap_or_else(|refusal| answer::refused(&refusal)))
}
