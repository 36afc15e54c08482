//! A loopback server that answers in order and remembers what it was asked.

use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use mockito::{Matcher, Server, ServerGuard};
use parking_lot::Mutex;

use super::super::{Config, Retries, clients, load};
use karpenter_aws_api::Clients;
use karpenter_aws_api::watch::{Call, Watch};

/// A server and clients of it.
pub(super) struct Wire {
    pub(super) server: ServerGuard,
    pub(super) clients: Clients,
    asked: Arc<Mutex<Vec<String>>>,
    /// Reports about calls.
    pub(super) reported: Arc<Reported>,
}

/// Calls as they were reported: which, with what status, and how often they were repeated.
#[derive(Debug, Default)]
pub(super) struct Reported(pub(super) Mutex<Vec<String>>);

impl Watch for Reported {
    fn attempted(&self, call: Call<'_>, _: Duration) {
        self.0.lock().push(format!("attempt {} {} {:?}", call.service, call.action, call.status));
    }

    fn called(&self, call: Call<'_>, retries: u32, _: Duration) {
        let text = format!("call {} {} {:?} repeated {retries}", call.service, call.action, call.status);
        self.0.lock().push(text);
    }
}

impl Wire {
    pub(super) async fn new(retries: Retries) -> Self {
        let server = Server::new_async().await;
        let config = Config {
            region: Some("us-west-2".to_owned()),
            endpoint_url: Some(server.url()),
            version: "1.14.0".to_owned(),
            retries,
            ..Config::default()
        };
        // The product takes credentials from the environment; a test must not touch it.
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let sdk = load(&config)
            .await
            .unwrap()
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let reported = Arc::new(Reported::default());
        let watch: Arc<dyn Watch> = reported.clone();
        Self { server, clients: clients(&sdk, watch).unwrap(), asked: Arc::default(), reported }
    }

    /// Answers EC2 (or another query-protocol service) for one action, every time it is asked.
    pub(super) async fn answers(&mut self, action: &str, status: usize, xml: &str) -> mockito::Mock {
        let asked = Arc::clone(&self.asked);
        let xml = xml.to_owned();
        self.server
            .mock("POST", "/")
            .match_body(Matcher::Regex(format!("Action={action}&")))
            .with_status(status)
            .with_header("content-type", "text/xml")
            .with_header("x-amzn-requestid", "req-1")
            .with_body_from_request(move |request| {
                let body = request.utf8_lossy_body().unwrap().into_owned();
                asked.lock().push(body);
                xml.clone().into_bytes()
            })
            .create_async()
            .await
    }

    /// Answers a JSON service for one target, every time it is asked.
    pub(super) async fn answers_json(&mut self, target: &str, status: usize, json: &str) -> mockito::Mock {
        self.server
            .mock("POST", "/")
            .match_header("x-amz-target", target)
            .with_status(status)
            .with_header("content-type", "application/x-amz-json-1.1")
            .with_body(json)
            .create_async()
            .await
    }

    /// The last request as sorted `name=value` lines, protocol version and token left out.
    pub(super) fn last_form(&self) -> String {
        let asked = self.asked.lock();
        let mut lines: Vec<String> = asked
            .last()
            .expect("nothing was asked")
            .split('&')
            .map(|pair| pair.replace('+', " "))
            .map(|pair| percent_decode(&pair))
            .filter(|line| !line.starts_with("Version="))
            .collect();
        lines.sort();
        lines.join("\n") + "\n"
    }

    pub(super) fn times_asked(&self) -> usize {
        self.asked.lock().len()
    }
}

/// An EC2 error answer.
pub(super) fn ec2_error(code: &str, message: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors></Response>"
    )
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        if bytes[position] == b'%' {
            decoded.push(u8::from_str_radix(&text[position + 1..position + 3], 16).unwrap());
            position += 3;
        } else {
            decoded.push(bytes[position]);
            position += 1;
        }
    }
    String::from_utf8(decoded).unwrap()
}
