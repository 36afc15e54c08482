//! Against a server on a socket, because what is tested lies below the places where others are put.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{Event, Pod};
use karpenter_telemetry::metrics::Metrics;
use kube::api::{Api, EvictParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::{Connected, Limits, connect};
use super::*;

/// A server that gives requests these answers, the last one to all that follow; its address and how many requests came.
async fn server(codes: &'static [u16]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut request = vec![0; 65536];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    let number = seen.fetch_add(1, Ordering::Relaxed);
                    let code = codes[number.min(codes.len() - 1)];
                    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": "r", "message": "no"});
                    let body = status.to_string();
                    let head = format!(
                        "HTTP/1.1 {code} Refused\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, count)
}

fn connected(address: &str, metrics: &Arc<Metrics>) -> Connected {
    let config = Config::new(format!("http://{address}").parse().unwrap());
    connect(&config, Limits { per_second: 0, burst: 0 }, Arc::clone(metrics)).unwrap()
}

#[tokio::test]
async fn a_refusal_is_told_at_once_and_asked_for_once() {
    for (code, answers) in [(429, &[429]), (503, &[503]), (504, &[504])] {
        let (address, count) = server(answers).await;
        let metrics = Arc::new(Metrics::new());
        let pods: Api<Pod> = Api::namespaced(connected(&address, &metrics).client, "shop");
        let refused = pods.evict("api", &EvictParams::default()).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == code), "{refused}");
        assert_eq!(count.load(Ordering::Relaxed), 1, "{code}");
        assert_eq!(metrics.kube.request_total.value([&code.to_string(), "POST"]), 1);
    }
}

#[tokio::test]
async fn an_event_is_written_again_when_the_api_server_is_busy() {
    let (address, count) = server(&[503, 429, 403]).await;
    let events: Api<Event> = Api::namespaced(connected(&address, &Arc::default()).events, "default");
    let refused = events.create(&PostParams::default(), &Event::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// The timer of the kernel on the connection to a port of this machine: 2 is that of keep-alive.
#[cfg(target_os = "linux")]
fn timer(port: u16) -> Option<u8> {
    let remote = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Columns: number, local address, remote address, state (1 is established), queues, timer and when it ends.
    let mut rows = rows.filter(|row| row.len() > 5 && row[2].ends_with(&remote) && row[3] == "01");
    rows.find_map(|row| row[5].split(':').next()?.parse().ok())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_quiet_connection_is_asked_whether_the_other_end_is_there() {
    let (address, _) = server(&[404]).await;
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let clients = connected(&address, &Arc::default());
    let pods: Api<Pod> = Api::namespaced(clients.client.clone(), "shop");
    assert!(pods.get("api").await.is_err());
    assert_eq!(timer(port), Some(2));
}
