//! Loopback ports for programs that cannot choose one themselves.
//!
//! They come from below the range the kernel takes the near ends of connections from: a port of that range that is
//! free now may be one of thousands of passing connections a moment later. Another process may still bind the
//! port before the program does, so callers start again with new ports when a log [says that a port is
//! taken](says_port_is_taken).

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Context, Result, bail};

/// Below the ephemeral ports of Linux (from 32768) and of the IANA (from 49152).
const PORTS: Range<u16> = 20_000..32_000;

/// Number of ports that may be found taken; a machine with none free among this many has none.
const ATTEMPTS: usize = 1_000;

/// `N` different ports that were free on 127.0.0.1 a moment ago.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All listeners live until the end, so no port is found twice.
    let mut listeners = Vec::with_capacity(N);
    for _ in 0..ATTEMPTS {
        if listeners.len() == N {
            break;
        }
        match TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS))) {
            Ok(listener) => listeners.push(listener),
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(error).context("look for a free port on 127.0.0.1"),
        }
    }
    if listeners.len() < N {
        bail!("127.0.0.1 has no {N} free ports in {PORTS:?}; close programs that listen there");
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().context("read the port of a listener")?.port();
    }
    Ok(ports)
}

/// Returns whether the log of a program that ended reports a port that another process had bound.
pub(super) fn says_port_is_taken(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_are_distinct_and_never_those_of_passing_connections() {
        let ports = free_ports::<8>().unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 8);
        assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
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
