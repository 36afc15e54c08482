//! JSON over plain HTTP to a server on this machine.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderName, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wait::PATIENCE;

/// A client of one server.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Http {
    pub(super) fn new(base: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, base: base.trim_end_matches('/').to_owned() }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends `body` as JSON and reads the answer as JSON; any status but 2xx is an error with the body.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T> {
        let what = format!("{method} {}{path}", self.base);
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).with_context(|| format!("write the body of {what}"))?,
            None => Vec::new(),
        };
        let headers = [(http::header::CONTENT_TYPE, "application/json")];
        let bytes = self.exchange(method, path, &headers, bytes).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("read the answer to {what}"))
    }

    /// Sends `body` with `headers`; any status but 2xx is an error with the body.
    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Bytes> {
        let url = format!("{}{path}", self.base);
        let what = format!("{method} {url}");
        let mut request = Request::builder().method(method).uri(&url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).with_context(|| format!("build {what}"))?;
        let exchange = async {
            let answer = self.client.request(request).await?;
            let status = answer.status();
            anyhow::Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        let (status, bytes) = tokio::time::timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("wait for the answer to {what}"))?
            .with_context(|| format!("send {what}"))?;
        if !status.is_success() {
            bail!("{what} was answered with {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }
}
