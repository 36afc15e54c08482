//! Every metric of the controller, one typed handle each.
//!
//! An *area* is a struct whose fields are the metrics and whose table lists their names, labels and meaning
//! (spec disruption 6, spec scheduling 30). The number of label values a handle takes is part of its type,
//! so a call with a missing label does not compile. Names are written out in full to be found by searching.

use std::sync::OnceLock;

use crate::progress::Progress;

mod area;
mod buckets;
mod cloud;
mod disruption;
mod exposition;
mod family;
mod handle;
mod node_families;
mod nodeclaims;
mod nodepools;
mod nodes;
mod operator;
mod pods;
mod registry;
mod scheduler;
mod series;
mod status;
mod summary;
mod table;

pub use area::{Descriptor, Kind, Stability};
pub use cloud::{Aws, AwsSdk, Cloud};
pub use disruption::Disruption;
pub use exposition::Lines;
pub use family::{Collected, Collecting, Family};
pub use handle::{Counter, Gauge, Histogram, Summary};
pub use node_families::NodeFamilies;
pub use nodeclaims::NodeClaims;
pub use nodepools::NodePools;
pub use nodes::Nodes;
pub use operator::{Kube, Operator, Runtime};
pub use pods::Pods;
pub use scheduler::{ClusterState, Scheduler};
pub use series::Series;
pub use status::{StatusFamilies, Statuses, Watched};
pub use table::{GaugeTable, Samples};

/// All metrics of one process, and the registry that renders them.
#[derive(Debug)]
pub struct Metrics {
    registry: registry::Registry,
    node_families: OnceLock<NodeFamilies>,
    statuses: OnceLock<Statuses>,
    /// The work under way, which some of the gauges are read off.
    pub progress: Progress,
    pub nodeclaims: NodeClaims,
    pub nodes: Nodes,
    pub nodepools: NodePools,
    pub pods: Pods,
    pub scheduler: Scheduler,
    pub cluster_state: ClusterState,
    pub disruption: Disruption,
    pub cloud: Cloud,
    pub aws: Aws,
    pub aws_sdk: AwsSdk,
    pub operator: Operator,
    pub runtime: Runtime,
    pub kube: Kube,
}

impl Metrics {
    /// Registers every metric; those without labels are exported at once with the value zero.
    pub fn new() -> Self {
        let registry = registry::Registry::default();
        let metrics = Self {
            nodeclaims: NodeClaims::register(&registry),
            nodes: Nodes::register(&registry),
            nodepools: NodePools::register(&registry),
            pods: Pods::register(&registry),
            scheduler: Scheduler::register(&registry),
            cluster_state: ClusterState::register(&registry),
            disruption: Disruption::register(&registry),
            cloud: Cloud::register(&registry),
            aws: Aws::register(&registry),
            aws_sdk: AwsSdk::register(&registry),
            operator: Operator::register(&registry),
            runtime: Runtime::register(&registry),
            kube: Kube::register(&registry),
            registry,
            node_families: OnceLock::new(),
            statuses: OnceLock::new(),
            progress: Progress::default(),
        };
        metrics.operator.build_info.set(build(), 1.0);
        for consolidation in ["multi", "single"] {
            metrics.disruption.consolidation_timeouts_total.add([consolidation], 0);
        }
        metrics
    }

    /// Adds the families about the process, `process_*`, which are read off `/proc` at each scrape: elsewhere there are none.
    ///
    /// # Panics
    /// They are there already.
    pub fn add_process(&self) {
        #[cfg(target_os = "linux")]
        self.registry
            .kept
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
            .expect("invariant: added once");
    }

    /// The metrics per Node. `well_known` are the names of the labels that machines have; only those of the first
    /// call count.
    pub fn node_families(&self, well_known: &[String]) -> &NodeFamilies {
        self.node_families.get_or_init(|| NodeFamilies::register(&self.registry, well_known))
    }

    /// The metrics about status conditions. `further` names the labels that objects of a kind have in front; only
    /// what the first call says counts.
    pub fn statuses(&self, further: impl Fn(Watched) -> Vec<String>) -> &Statuses {
        self.statuses.get_or_init(|| Statuses::register(&self.registry, further))
    }

    /// Removes every series of a pool that has gone.
    pub fn forget_pool(&self, pool: &str) {
        self.registry.forget_pool(pool);
    }

    /// Writes the text exposition format, families in name order, in pieces of some tens of kilobytes. `pass_on` says
    /// whether more is wanted; it may block.
    pub fn write(&self, mut pass_on: impl FnMut(String) -> bool) {
        self.registry.write(&mut pass_on);
    }

    /// All of [`Metrics::write`] at once.
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.write(|piece| {
            text.push_str(&piece);
            true
        });
        text
    }

    /// The media type of [`Metrics::write`].
    pub const CONTENT_TYPE: &'static str = prometheus::TEXT_FORMAT;
}

/// Version, toolchain, architecture as Go spells it, commit; the label names are the reference's.
fn build() -> [&'static str; 4] {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let toolchain = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
    [env!("CARGO_PKG_VERSION"), toolchain, arch, option_env!("KARPENTER_COMMIT").unwrap_or_default()]
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Every declared metric, area by area: the source of the metrics reference page.
pub fn reference() -> Vec<(&'static str, &'static [Descriptor])> {
    let mut all: Vec<(&'static str, &'static [Descriptor])> = vec![
        ("NodeClaims", NodeClaims::TABLE),
        ("Nodes", Nodes::TABLE),
        ("Each Node", NodeFamilies::TABLE),
        ("NodePools", NodePools::TABLE),
        ("Pods", Pods::TABLE),
        ("Scheduler", Scheduler::TABLE),
        ("Cluster state", ClusterState::TABLE),
        ("Voluntary disruption", Disruption::TABLE),
        ("Cloud provider", Cloud::TABLE),
        ("AWS", Aws::TABLE),
        ("Requests to AWS", AwsSdk::TABLE),
        ("Operator", Operator::TABLE),
        ("Controller runtime", Runtime::TABLE),
        ("Kubernetes client", Kube::TABLE),
    ];
    for kind in Watched::ALL {
        all.push(("Status conditions", kind.table()));
    }
    all.push(("Status conditions of all kinds", status::DEPRECATED));
    all
}

#[cfg(test)]
mod tests;
