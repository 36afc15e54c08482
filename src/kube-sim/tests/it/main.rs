//! The simulated world, used the way its clients use it: over `kube::Client`, and over kubectl.

#![allow(clippy::panic, reason = "a helper that meets the unexpected fails its test")]

mod kube_system;
mod kubectl;
mod kubelet;
mod patches;
mod schemas;
mod subresources;
mod verbs;
mod watches;
mod world;
