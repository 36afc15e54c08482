//! Connections from one network to the other, for an engine of our own.
//!
//! Nothing in its network reaches further than this machine, and nothing here routes for it. What is built in a container
//! may fetch packages through [`Relay::outward`], an HTTP proxy that supports `CONNECT` only and lives as long as the build.
//! What listens in a container is reached through [`Relay::inward`]: a port on loopback, because the AWS SDKs take
//! credentials over plain HTTP from there only, or on the address that pods reach this machine at.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A port whose connections are passed on; closed on drop.
pub(crate) struct Relay {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Relay {
    /// A port on `address` of this machine that leads to `target`.
    pub(crate) async fn inward(address: Ipv4Addr, target: SocketAddrV4) -> Result<Self> {
        Self::start(address, move |stream| pass_on(stream, target)).await
    }

    /// A proxy on an address of this machine that only containers of ours can reach.
    pub(super) async fn outward(address: Ipv4Addr) -> Result<Self> {
        Self::start(address, connect).await
    }

    async fn start<F>(address: Ipv4Addr, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Self>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let listener =
            TcpListener::bind((address, 0)).await.with_context(|| format!("listen on {address}"))?;
        let address = listener.local_addr().context("read the port of a listener")?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = serve(stream);
                tokio::spawn(async move {
                    // Either end may close a connection at any time.
                    if let Err(error) = served.await {
                        tracing::debug!("a relayed connection ended: {error:#}");
                    }
                });
            }
        });
        Ok(Self { address, task })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut near: TcpStream, target: SocketAddrV4) -> Result<()> {
    let mut far = TcpStream::connect(target).await.with_context(|| format!("connect to {target}"))?;
    copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// One `CONNECT host:port` (RFC 9110 9.3.6) and what follows it.
async fn connect(near: TcpStream) -> Result<()> {
    let mut near = BufReader::new(near);
    let mut request = String::new();
    near.read_line(&mut request).await?;
    let mut header = String::new();
    while near.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let Some(target) = request.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return Ok(near.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n").await?);
    };
    let Ok(mut far) = TcpStream::connect(target).await else {
        return Ok(near.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await?);
    };
    near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// Answers each connection with what it reads, in capitals.
    async fn shout() -> SocketAddrV4 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("not IPv4") };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut word = [0; 5];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(&word.to_ascii_uppercase()).await.unwrap();
            }
        });
        address
    }

    async fn said(relay: &Relay, words: &str) -> String {
        let mut stream = TcpStream::connect(relay.address()).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_port_leads_to_its_target() {
        for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)] {
            let relay = Relay::inward(address, shout().await).await.unwrap();
            assert_eq!(relay.address().ip(), address);
            assert_eq!(said(&relay, "hello").await, "HELLO");
        }
    }

    #[tokio::test]
    async fn the_proxy_connects_and_does_nothing_else() {
        let relay = Relay::outward(Ipv4Addr::LOCALHOST).await.unwrap();
        let target = shout().await;
        let answer = said(&relay, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nhello")).await;
        assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nHELLO");
        assert!(said(&relay, "GET http://a/ HTTP/1.1\r\n\r\n").await.contains(" 405 "));
        assert!(said(&relay, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").await.contains(" 502 "));
    }
}
