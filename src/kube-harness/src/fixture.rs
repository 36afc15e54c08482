//! An API server in memory, for unit tests.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_kube_sim::VirtualClock;
use karpenter_kube_sim::apiserver::ApiServer;

/// An empty cluster at the epoch.
pub(crate) fn server() -> ApiServer {
    ApiServer::new(Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH)))
}
