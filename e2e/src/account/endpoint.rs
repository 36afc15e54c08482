//! An emulator that runs already: the launcher of `localstack/`, or anything that speaks AWS on loopback.

use anyhow::{Result, bail};

use super::Control;

/// An emulator that was there before us.
pub struct EndpointAccount {
    endpoint: String,
    control: Option<Control>,
}

impl EndpointAccount {
    /// Connects to `url`, which must be on this machine: real AWS is never a target of this harness.
    pub async fn connect(url: &str) -> Result<Self> {
        let uri: http::Uri = match url.parse() {
            Ok(uri) => uri,
            Err(error) => bail!("`{url}` is not a URL: {error}"),
        };
        if !matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]")) {
            bail!(
                "endpoint `{url}` is not on this machine; the harness only speaks to emulators on loopback"
            );
        }
        let control = Control::new(url);
        let control = control.healthy().await.is_ok().then_some(control);
        Ok(Self { endpoint: url.trim_end_matches('/').to_owned(), control })
    }

    /// Returns the value for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The control requests, if it is a launcher.
    pub fn control(&self) -> Option<&Control> {
        self.control.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn refuses_what_is_not_on_this_machine() {
        for url in ["https://ec2.us-west-2.amazonaws.com", "http://10.0.0.1:4566", "nonsense", "http:// x"] {
            assert!(EndpointAccount::connect(url).await.is_err(), "{url}");
        }
    }
}
