//! Loopback ports for programs that cannot choose one themselves.
//!
//! The kernel hands out free ports; they are given back just before the program binds them, so another
//! process may be faster. Callers therefore start again with new ports when a log
//! [says that a port is taken](says_port_is_taken).

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// `N` different ports that were free on 127.0.0.1 a moment ago.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All listeners live until the end, so the kernel cannot hand out one port twice.
    let listeners = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<std::io::Result<Vec<_>>>()
        .context("find a free port on 127.0.0.1")?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().context("read the port of a listener")?.port();
    }
    Ok(ports)
}

/// Whether the log of a program that ended tells of a port somebody else had bound.
pub fn says_port_is_taken(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_are_distinct_and_can_be_bound() {
        let ports = free_ports::<8>().unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 8);
        TcpListener::bind((Ipv4Addr::LOCALHOST, ports[0])).unwrap();
    }

    #[test]
    fn recognises_the_clash_in_the_words_of_each_program() {
        for line in [
            "listen tcp 127.0.0.1:2379: bind: address already in use",
            "failed to create listener: failed to listen on 127.0.0.1:1: bind: Address already in use",
            "OSError: [Errno 98] Address already in use",
        ] {
            assert!(says_port_is_taken(line), "{line}");
        }
        assert!(!says_port_is_taken("connection refused"));
    }
}
