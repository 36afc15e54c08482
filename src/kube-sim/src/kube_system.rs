//! Stand-ins for what every cluster runs: the scheduler and the controllers of kube-controller-manager that a node
//! autoscaler meets.
//!
//! They work on the store of the [`ApiServer`] directly, not over HTTP: a pass reads a consistent state and writes
//! without waiting, so no stand-in needs expectations, and equal runs stay equal. A stand-in is looked at only after one
//! of its tables changed, at most once per [`Options::tick`]; those that would look at every node or pod read from the
//! log what has changed instead.
//!
//! Each file names what its stand-in leaves out.

mod cluster;
mod daemonset;
mod deployment;
mod disruption;
mod ephemeral;
mod job;
mod node_lifecycle;
mod pod;
mod pods;
mod replicaset;
mod requests;
pub mod scheduler;
mod service_account;
mod statefulset;
mod taint_eviction;
mod template;
mod unread;
mod volumes;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::cluster::Cluster;
use self::pods::Pods;
use crate::apiserver::{ApiServer, TableName};

/// The driver of every volume.
pub(crate) const VOLUME_DRIVER: &str = "ebs.csi.aws.com";

/// Time settings of the stand-ins.
#[derive(Debug, Clone)]
pub struct Options {
    /// Shortest time between two passes; changes in between are seen together.
    pub tick: Duration,
    /// Longest time between two passes: for what only time changes, such as heartbeats that stay away.
    pub poll: Duration,
    /// Age of a heartbeat from which its node counts as unreachable.
    pub heartbeat_grace: Duration,
    /// Time for which a volume stays attached to a node after the last pod there that used it.
    pub detach: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(100),
            poll: Duration::from_secs(5),
            heartbeat_grace: Duration::from_secs(50),
            detach: Duration::from_secs(5),
        }
    }
}

/// One stand-in.
trait StandIn: Send {
    /// Core group and plural names of what it reads.
    fn tables(&self) -> &[(&'static str, &'static str)];

    /// Returns whether time alone can make a pass necessary.
    fn watches_time(&self) -> bool {
        false
    }

    /// One step towards what should be.
    fn pass(&mut self, cluster: &mut Cluster<'_>);
}

/// Plays all stand-ins until `shutdown`.
pub async fn run(server: &ApiServer, options: Options, shutdown: CancellationToken) {
    let mut stand_ins: Vec<(u64, Box<dyn StandIn>)> = all(&options).into_iter().map(|s| (0, s)).collect();
    let tables = stand_ins.iter().flat_map(|(_, stand_in)| stand_in.tables());
    let mut changes = server.subscribe_any(
        tables.map(|(group, plural)| TableName::new(group, plural)).collect::<BTreeSet<TableName>>(),
    );
    let mut pods = Pods::default();
    loop {
        changes.mark_seen();
        let timer = pass(server, &mut pods, &mut stand_ins);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(options.tick) => {}
        }
        let pause = if timer { options.poll } else { Duration::MAX };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _changed = changes.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Returns all of them in the order in which the work of one makes that of the next.
fn all(options: &Options) -> Vec<Box<dyn StandIn>> {
    vec![
        Box::new(service_account::ServiceAccounts),
        Box::new(taint_eviction::TaintEviction::default()),
        Box::new(deployment::Deployments),
        Box::new(replicaset::ReplicaSets::default()),
        Box::new(statefulset::StatefulSets),
        Box::new(job::Jobs::default()),
        Box::new(daemonset::DaemonSets),
        Box::new(ephemeral::EphemeralClaims),
        Box::new(scheduler::Scheduler::default()),
        Box::new(volumes::Volumes::new(options.detach)),
        Box::new(disruption::Disruption::default()),
        // After the scheduler, which a node's last taint leaves a moment after it has become ready, as over a watch.
        Box::new(node_lifecycle::NodeLifecycle::new(options.heartbeat_grace)),
    ]
}

/// Lets every stand-in look whose tables have changed since it last looked.
fn pass(server: &ApiServer, pods: &mut Pods, stand_ins: &mut [(u64, Box<dyn StandIn>)]) -> bool {
    for (seen, stand_in) in &mut *stand_ins {
        let newest = server.read(|store| {
            let tables = stand_in.tables().iter();
            tables
                .map(|(group, plural)| store.table_revision(&TableName::new(group, plural)))
                .max()
                .unwrap_or(0)
        });
        if newest > *seen || stand_in.watches_time() {
            // Taken before the pass, so that whatever the pass itself writes is looked at again.
            *seen = newest;
            pods.refresh(server);
            stand_in.pass(&mut Cluster::new(server, pods));
        }
    }
    stand_ins.iter().any(|(_, stand_in)| stand_in.watches_time())
}
