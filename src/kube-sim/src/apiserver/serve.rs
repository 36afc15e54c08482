//! The server on a loopback port, for kubectl and other programs.

use std::net::SocketAddr;

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{ApiServer, http::Service};

/// A server that accepts connections until it is dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ApiServer {
    /// Accepts plain HTTP connections on `listener`.
    pub fn serve(&self, listener: TcpListener) -> std::io::Result<Serving> {
        let address = listener.local_addr()?;
        let service = Service::new(self.clone());
        let task = tokio::spawn(async move {
            // Dropped with this task, so no connection outlives the server.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let service = TowerToHyperService::new(service.clone());
                connections.spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    // A client that hangs up in the middle of a watch is no error.
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "connection ended");
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Serving { address, task })
    }
}

impl Serving {
    /// Returns the address the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for this server.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
             clusters:\n- name: sim\n  cluster:\n    server: {url}\n\
             users:\n- name: sim\n  user: {{}}\n\
             contexts:\n- name: sim\n  context:\n    cluster: sim\n    user: sim\n"
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}
