//! A loopback server that answers as STS and IAM Identity Center do, and as the proxy in front of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Account of these credentials, according to STS.
pub(super) const ACCOUNT: &str = "123456789012";

/// An authority that signs certificates.
pub(super) struct Authority {
    /// PEM.
    pub(super) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(parameters, key) }
    }

    fn serving(&self, host: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        config.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

/// The server; it ends with the process.
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    asked: Vec<String>,
    keys: Vec<String>,
}

impl Server {
    /// Answers requests as they come.
    pub(super) fn plain() -> Self {
        Self::start(None)
    }

    /// Opens tunnels and answers inside them, as `host`.
    pub(super) fn intercepting(authority: &Authority, host: &str) -> Self {
        Self::start(Some(Arc::new(authority.serving(host))))
    }

    fn start(inside: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let told = Arc::clone(&seen);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (told, inside) = (Arc::clone(&told), inside.clone());
                // A client that goes away, or does not trust us, is no failure of the server.
                std::thread::spawn(move || serve(connection?, &told, inside));
            }
        });
        Self { address, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// First lines of requests, in order.
    pub(super) fn asked(&self) -> Vec<String> {
        self.seen.lock().asked.clone()
    }

    /// The access keys requests were signed with, in order.
    pub(super) fn keys(&self) -> Vec<String> {
        self.seen.lock().keys.clone()
    }
}

fn serve(
    mut connection: TcpStream,
    seen: &Mutex<Seen>,
    inside: Option<Arc<ServerConfig>>,
) -> std::io::Result<()> {
    let first = request(&mut connection, seen)?;
    if first.starts_with("CONNECT ") {
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        let config = inside.expect("tunnels are asked of intercepting servers only");
        let session = ServerConnection::new(config).map_err(std::io::Error::other)?;
        let mut tunnel = StreamOwned::new(session, connection);
        let first = request(&mut tunnel, seen)?;
        return answer(&mut tunnel, &first);
    }
    answer(&mut connection, &first)
}

/// Reads one request and remembers it.
fn request(connection: &mut impl Read, seen: &Mutex<Seen>) -> std::io::Result<String> {
    let mut reader = BufReader::with_capacity(1, connection);
    let (mut first, mut length, mut key) = (String::new(), 0, None);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(std::io::Error::other)?,
            "authorization" => {
                key = value
                    .split_once("Credential=")
                    .and_then(|(_, rest)| rest.split('/').next())
                    .map(str::to_owned);
            }
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let first = first.trim_end().to_owned();
    let mut seen = seen.lock();
    seen.asked.push(first.clone());
    seen.keys.extend(key);
    Ok(first)
}

fn answer(connection: &mut impl Write, first: &str) -> std::io::Result<()> {
    let body = if first.contains("/federation/credentials") {
        r#"{"roleCredentials": {"accessKeyId": "AKIDCENTER", "secretAccessKey": "secret", "sessionToken": "t", "expiration": 32472144000000}}"#
            .to_owned()
    } else {
        let who = format!(
            "<Arn>arn:aws:iam::{ACCOUNT}:user/demo</Arn><UserId>AIDA</UserId><Account>{ACCOUNT}</Account>"
        );
        format!(
            "<GetCallerIdentityResponse><GetCallerIdentityResult>{who}</GetCallerIdentityResult></GetCallerIdentityResponse>"
        )
    };
    let length = body.len();
    write!(connection, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")?;
    connection.flush()
}
