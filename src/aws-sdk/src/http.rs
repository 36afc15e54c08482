//! Transport of requests: through the proxy the environment names, trusting the authorities it names.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` mean what they mean to curl and to the reference. `AWS_CA_BUNDLE` takes
//! the place of the system's authorities, as in every AWS SDK. This machine and the addresses that hand out
//! credentials are never asked through a proxy: it would answer with its own role, or not at all.

use std::net::IpAddr;
use std::path::Path;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_types::config_bag::ConfigBag;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use karpenter_aws_api::{Error, Result};

const CA_BUNDLE: &str = "AWS_CA_BUNDLE";

/// The client every service shares.
///
/// # Errors
/// When `AWS_CA_BUNDLE` names a file without a usable certificate.
pub(super) fn client() -> Result<SharedHttpClient> {
    let trusted = match std::env::var_os(CA_BUNDLE).filter(|path| !path.is_empty()) {
        Some(path) => bundle(Path::new(&path))?,
        None => TrustStore::default(),
    };
    let tls = TlsContext::builder().with_trust_store(trusted).build();
    let tls = tls.map_err(|error| Error::invalid("connect", "TLS", error.to_string()))?;
    let provider = || Provider::Rustls(CryptoMode::Ring);
    let direct = Builder::new().tls_provider(provider()).tls_context(tls.clone()).build_https();
    let proxied = Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder()
            .proxy_config(ProxyConfig::from_env())
            .tls_provider(provider())
            .tls_context(tls.clone());
        connector.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.build()
    });
    Ok(SharedHttpClient::new(Routed { direct, proxied }))
}

/// The certificates of a file. One that rustls cannot use is passed over: bundles of systems contain such, and the
/// SDK would panic over it.
fn bundle(path: &Path) -> Result<TrustStore> {
    let wrong = |why: String| {
        let advice = "name a file with PEM certificates, or unset the variable";
        Error::invalid("connect", CA_BUNDLE, format!("cannot use `{}`: {why}; {advice}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut usable = RootCertStore::empty();
    let mut trusted = TrustStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        let text = STANDARD.encode(&certificate);
        if usable.add(certificate).is_ok() {
            let begin = "-----BEGIN CERTIFICATE-----";
            let end = "-----END CERTIFICATE-----";
            trusted.add_pem_certificate(format!("{begin}\n{text}\n{end}\n"));
        }
    }
    if usable.is_empty() { Err(wrong("it has no usable certificate".to_owned())) } else { Ok(trusted) }
}

/// Chooses the way by the address that is asked.
#[derive(Debug)]
struct Routed<T> {
    direct: T,
    proxied: T,
}

impl HttpClient for Routed<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Routed {
            direct: self.direct.http_connector(settings, components),
            proxied: self.proxied.http_connector(settings, components),
        })
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        self.proxied.validate_base_client_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.direct.connector_metadata()
    }
}

impl HttpConnector for Routed<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if is_near(request.uri()) { self.direct.call(request) } else { self.proxied.call(request) }
    }
}

/// Returns whether a URL is on this machine, or one of the addresses that hand out credentials: instance metadata and the
/// endpoints of containers and pods.
fn is_near(url: &str) -> bool {
    let Ok(url) = url.parse::<http::Uri>() else { return false };
    let Some(host) = url.host() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.segments()[..2] == [0xfd00, 0xec2],
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_what_hands_out_credentials_is_near() {
        for near in [
            "http://localhost:4566/",
            "http://127.0.0.1/",
            "http://[::1]:80/",
            "http://169.254.169.254/latest/meta-data",
            "http://[fd00:ec2::254]/latest",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(is_near(near), "{near}");
        }
        for far in ["https://ec2.eu-west-1.amazonaws.com/", "http://10.0.0.1/", "https://[fd00::1]/"] {
            assert!(!is_near(far), "{far}");
        }
    }
}
