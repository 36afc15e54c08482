//! The simulated world, used the way its clients use it: over `kube::Client`, and over kubectl.

mod kube_system;
mod kubectl;
mod kubelet;
mod patches;
mod schemas;
mod subresources;
mod verbs;
mod watches;
mod world;
