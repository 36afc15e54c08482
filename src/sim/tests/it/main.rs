//! The simulated world, used the way its clients use it: over `kube::Client`, and over kubectl.

mod kubectl;
mod patches;
mod schemas;
mod subresources;
mod verbs;
mod watches;
mod world;
