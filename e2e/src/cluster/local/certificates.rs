//! Certificates and keys of one run: an authority, one serving certificate, clients on demand.
//!
//! All are ECDSA P-256, made in milliseconds and worthless after the run, so validity is rcgen's default.
//! Kubernetes reads the user from the common name and the groups from the organisation.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::cluster::access::write_private;

/// A certificate with its private key, both PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The authority of one run and what it issued at the start.
pub(super) struct Certificates {
    /// The authority's certificate, PEM.
    pub(super) authority: String,
    issuer: Issuer<'static, KeyPair>,
    serving: Pair,
    service_accounts: KeyPair,
}

impl Certificates {
    /// A new authority, a serving certificate for loopback, and the key that signs service-account tokens.
    pub(super) fn generate() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut parameters = named("karpenter-e2e", &[])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);
        let serving = issue(&issuer, &serving_parameters()?)?;
        Ok(Self { authority, issuer, serving, service_accounts: KeyPair::generate()? })
    }

    /// A client certificate for `user` in `groups`.
    pub(super) fn client(&self, user: &str, groups: &[&str]) -> Result<Pair> {
        let mut parameters = named(user, groups)?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        issue(&self.issuer, &parameters)
    }

    /// Writes what the four programs read from files.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        for (name, text) in [
            ("ca.crt", &self.authority),
            ("serving.crt", &self.serving.certificate),
            ("serving.key", &self.serving.key),
            ("service-accounts.key", &self.service_accounts.serialize_pem()),
            ("service-accounts.pub", &self.service_accounts.public_key_pem()),
        ] {
            write_private(&folder.join(name), text).context("write certificates")?;
        }
        Ok(())
    }
}

fn named(user: &str, groups: &[&str]) -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(Vec::<String>::new())?;
    parameters.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        parameters.distinguished_name.push(DnType::OrganizationName, *group);
    }
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

/// etcd's gateway also uses its serving certificate to call itself, hence the client usage.
fn serving_parameters() -> Result<CertificateParams> {
    let mut parameters = named("karpenter-e2e-serving", &[])?;
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    parameters.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
        parameters.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    Ok(parameters)
}

fn issue(issuer: &Issuer<'static, KeyPair>, parameters: &CertificateParams) -> Result<Pair> {
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, issuer)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_own_key_and_certificate() {
        let certificates = Certificates::generate().unwrap();
        let one = certificates.client("system:node:a", &["system:nodes"]).unwrap();
        let two = certificates.client("system:node:a", &["system:nodes"]).unwrap();
        assert_ne!(one.key, two.key);
        assert_ne!(one.certificate, two.certificate);
        assert!(one.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    }

    #[test]
    fn writes_all_files_the_programs_are_pointed_at() {
        let folder = tempfile::tempdir().unwrap();
        Certificates::generate().unwrap().write(folder.path()).unwrap();
        for name in ["ca.crt", "serving.crt", "serving.key", "service-accounts.key", "service-accounts.pub"] {
            assert!(
                std::fs::read_to_string(folder.path().join(name)).unwrap().contains("-----BEGIN"),
                "{name}"
            );
        }
    }
}
