//! A virtual-time world around the production code.
//!
//! - [`apiserver`]: a Kubernetes API server in memory, spoken to over `kube::Client` or a loopback port;
//! - [`kubelet`]: a node agent that joins a Node for every running instance, from its user data;
//! - [`kube_system`]: stand-ins for the scheduler and the controllers every cluster runs;
//! - [`VirtualClock`]: time that follows tokio's clock, so a paused clock makes days pass in seconds.
//!
//! It is a test double. Nothing in here decides anything for the product, and the product is accepted on a real
//! kube-apiserver.

pub mod apiserver;
mod clock;
pub mod kube_system;
pub mod kubelet;
pub mod userdata;

pub use clock::VirtualClock;
