//! The harness held to its promises: a control plane that schedules, reconciles and goes away.

mod control_plane;
mod crds;
mod failures;
