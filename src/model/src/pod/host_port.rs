//! Ports pods take on their host, and when two of them clash (spec scheduling 9).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use crate::id::PodKey;

/// Transport protocol of a host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Protocol {
    /// The default.
    Tcp,
    Udp,
    Sctp,
}

/// One host port a container requests; `0.0.0.0` when no address is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct HostPort {
    /// Address on the host.
    pub ip: IpAddr,
    /// Port, 1 to 65535.
    pub port: u16,
    pub protocol: Protocol,
}

impl HostPort {
    /// `port` over TCP on every address.
    pub fn tcp(port: u16) -> Self {
        Self { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port, protocol: Protocol::Tcp }
    }

    /// Same protocol and port, and the addresses are equal or one of them means all (v4 or v6).
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.port == other.port
            && (self.ip == other.ip || self.ip.is_unspecified() || other.ip.is_unspecified())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        write!(f, "{}:{}/{protocol}", self.ip, self.port)
    }
}

/// The host ports in use on one machine, by pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostPorts {
    used: Vec<(PodKey, HostPort)>,
}

impl HostPorts {
    /// The first port of `ports` that another pod than `pod` already holds.
    pub fn conflict(&self, pod: &PodKey, ports: &[HostPort]) -> Option<HostPort> {
        let taken =
            |port: &HostPort| self.used.iter().any(|(key, used)| key != pod && used.conflicts_with(port));
        ports.iter().copied().find(taken)
    }

    /// Returns whether no port is in use.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Records the ports of `pod`, replacing what was recorded for it.
    pub fn add(&mut self, pod: &PodKey, ports: &[HostPort]) {
        self.used.retain(|(key, _)| key != pod);
        self.used.extend(ports.iter().map(|port| (pod.clone(), *port)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ip: &str, port: u16, protocol: Protocol) -> HostPort {
        HostPort { ip: ip.parse().unwrap(), port, protocol }
    }

    #[test]
    fn ports_conflict_when_protocol_port_and_address_overlap() {
        let table = [
            (port("0.0.0.0", 80, Protocol::Tcp), port("10.0.0.1", 80, Protocol::Tcp), true),
            (port("10.0.0.1", 80, Protocol::Tcp), port("10.0.0.1", 80, Protocol::Tcp), true),
            (port("10.0.0.1", 80, Protocol::Tcp), port("10.0.0.2", 80, Protocol::Tcp), false),
            (port("::", 80, Protocol::Tcp), port("10.0.0.2", 80, Protocol::Tcp), true),
            (port("0.0.0.0", 80, Protocol::Tcp), port("0.0.0.0", 80, Protocol::Udp), false),
            (port("0.0.0.0", 80, Protocol::Tcp), port("0.0.0.0", 81, Protocol::Tcp), false),
        ];
        for (a, b, expected) in table {
            assert_eq!(a.conflicts_with(&b), expected, "{a} {b}");
            assert_eq!(b.conflicts_with(&a), expected, "{b} {a}");
        }
    }

    #[test]
    fn adding_the_same_pod_again_is_no_conflict() {
        let (first, second) = (PodKey::new("ns", "a"), PodKey::new("ns", "b"));
        let mut ports = HostPorts::default();
        ports.add(&first, &[HostPort::tcp(80)]);
        assert_eq!(ports.conflict(&first, &[HostPort::tcp(80)]), None);
        assert_eq!(ports.conflict(&second, &[HostPort::tcp(79), HostPort::tcp(80)]), Some(HostPort::tcp(80)));
    }
}
