//! The way into a pod that a kubelet offers: port-forwards, as the API server passes them on.
//!
//! It is a kubelet in no other respect. Every stream carries one HTTP request, which is recorded and answered.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Channel of data and channel of errors of the first port.
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// Requests: the path at the kubelet, and the first line of the request in the stream.
pub(crate) type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// A kubelet that listens until it is dropped.
pub(crate) struct Kubelet {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Asked,
    _tasks: JoinSet<()>,
}

impl Kubelet {
    /// Answers every request in a stream with this JSON.
    pub(crate) async fn answering(json: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["kubelet".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, mut tasks) = (Asked::default(), JoinSet::new());
        let (log, answer) = (Arc::clone(&asked), json.to_owned());
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                served.spawn(serve(stream, acceptor.clone(), Arc::clone(&log), answer.clone()));
            }
        });
        Self { address, asked, _tasks: tasks }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, asked: Asked, answer: String) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let mut path = String::new();
    let choose = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        path = request.uri().to_string();
        response
            .headers_mut()
            .insert("sec-websocket-protocol", "v4.channel.k8s.io".parse().expect("it is a value"));
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, choose).await else { return };
    let port: u16 = path
        .rsplit("port")
        .next()
        .and_then(|rest| rest.trim_start_matches("s=").trim_start_matches('=').parse().ok())
        .unwrap_or(0);
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERROR] {
        let _gone = socket.send(Message::binary(vec![channel, low, high])).await;
    }
    let mut request = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(bytes) = message else { continue };
        request.extend_from_slice(bytes.get(1..).unwrap_or_default());
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    let first = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    asked.lock().push((path, first));
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
    let _gone = socket.send(Message::binary([&[DATA], text.as_bytes()].concat())).await;
    // Until the other side has read it and goes.
    while let Some(Ok(_)) = socket.next().await {}
}
