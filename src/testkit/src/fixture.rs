//! Scenario text to [`Snapshot`]. One object per line, `kind name option=value ...`, `#` starts a comment:
//!
//! ```text
//! now    2026-01-01T12:00:00Z
//! set    preferences=ignore min-values=best-effort
//! type   m5.large cpu=2 mem=8Gi zones=a,b od=0.096 spot=0.035 label=family=m5
//! pool   web types=m5.* weight=10 limit=cpu=10 require=zone:In:a,b taint=team=a:NoSchedule
//! node   n1 pool=web type=m5.large zone=a capacity=spot age=2h
//! daemon logs cpu=100m mem=100Mi
//! repair Ready status=False after=30m grace=10m reason=Kubelet priority=5 action=reboot
//! node   n2 pool=web type=m5.large sick=Ready/False/31m/KubeletStopped
//! pod    api-{1..3} cpu=500m on=n1 volume=data claim=gpus
//! pod    web cpu=500m promised=n2
//! volume data driver=ebs.csi.aws.com at=zone:In:a
//! ```
//!
//! Options repeat where a list makes sense. The short label keys `zone`, `arch`, `os`, `type`, `capacity`,
//! `pool` and `host` stand for the well-known ones, `old-zone` for the name `zone` had before. Quantities,
//! durations and taints are written as Kubernetes writes them. Everything not said has a boring default.

mod device;
mod disruption;
mod line;
mod machine;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::repair::RepairPolicy;
use karpenter_model::settings::{MinValuesPolicy, PreferencePolicy, ReservationPolicy};
use karpenter_model::{Devices, InstanceType, LabelRegistry, Node, Pod, PodKey, Settings, Snapshot, Target};

pub use line::Line;

/// The instant of scenarios that do not say `now`.
pub const NOON: &str = "2026-01-01T12:00:00Z";

/// The snapshot `text` describes.
pub fn snapshot(text: &str) -> Snapshot {
    let mut builder = Builder::default();
    for line in text.lines().filter_map(Line::parse) {
        for line in line.expanded() {
            builder.add(&line);
        }
    }
    builder.finish()
}

struct Builder {
    snapshot: Snapshot,
    settings: Settings,
    types: Vec<Arc<InstanceType>>,
    nodes: Vec<Node>,
    bound: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Machines promised to pods, by the names of their lines; there need not be such a line.
    promised: BTreeMap<PodKey, String>,
    devices: Devices,
    policies: Vec<RepairPolicy>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            snapshot: Snapshot { registry: Arc::new(registry()), ..Snapshot::empty(instant(NOON)) },
            settings: Settings::default(),
            types: Vec::new(),
            nodes: Vec::new(),
            bound: BTreeMap::new(),
            promised: BTreeMap::new(),
            devices: Devices::default(),
            policies: Vec::new(),
        }
    }
}

/// Label key that carries the reservation id of reserved machines.
pub const RESERVATION_ID: &str = "karpenter.test.sh/reservation-id";

/// Returns the labels that every cloud shares, and that of reservations.
fn registry() -> LabelRegistry {
    let mut registry = LabelRegistry::core();
    registry.well_known.insert(RESERVATION_ID.into());
    registry.reservation_id = Some(RESERVATION_ID.into());
    registry
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("instant `{text}`: {error}"))
}

impl Builder {
    fn add(&mut self, line: &Line) {
        match line.kind.as_str() {
            "now" => self.snapshot.now = instant(&line.name),
            "set" => self.set(line),
            "type" => self.types.push(Arc::new(machine::instance_type(line, &self.snapshot.registry))),
            "pool" => self.pool(line),
            "node" => {
                let node = machine::node(line, &self.types, &self.snapshot);
                self.nodes.push(node);
            }
            "daemon" => self.snapshot.daemons.push(Arc::new(workload::daemon(line, self.snapshot.now))),
            "pod" => self.pod(line),
            "volume" => {
                let (key, volume) = workload::volume(line);
                self.snapshot.volumes.insert(key, Arc::new(volume));
            }
            "namespace" => {
                let labels = line.labels("label").into_iter().collect();
                self.snapshot.namespaces.insert(line.name.as_str().into(), labels);
            }
            "service" => {
                let (namespace, selector) = workload::service(line);
                let known = Arc::make_mut(&mut self.snapshot.selections);
                known.set_service(&namespace, &line.name, Some(selector));
            }
            "owner" => {
                let known = Arc::make_mut(&mut self.snapshot.selections);
                known.set_owner(&line.name.as_str().into(), Some(workload::selected_by(line)));
            }
            "repair" => self.policies.push(disruption::policy(line)),
            "pdb" => self.snapshot.budgets.push(Arc::new(workload::disruption_budget(line))),
            _ if device::add(line, &mut self.devices, &self.snapshot.pools) => {}
            kind => panic!("unknown kind `{kind}` in `{line}`"),
        }
    }

    fn set(&mut self, line: &Line) {
        // The first option stands where other lines have their name.
        let options =
            std::iter::once(line.name.as_str()).chain(line.options.iter().map(|(key, _)| key.as_str()));
        for (index, key) in options.enumerate() {
            let (key, value) = if index == 0 {
                key.split_once('=').unwrap_or_else(|| panic!("`{line}` needs key=value"))
            } else {
                (key, line.options[index - 1].1.as_str())
            };
            match (key, value) {
                ("preferences", "ignore") => self.settings.preference_policy = PreferencePolicy::Ignore,
                ("min-values", "best-effort") => {
                    self.settings.min_values_policy = MinValuesPolicy::BestEffort;
                }
                ("reservations", "fallback") => {
                    self.settings.reservation_policy = ReservationPolicy::Fallback;
                }
                ("reservations", "off") => self.settings.gates.reserved_capacity = false,
                ("spread", text) => self.settings.default_spread.push(workload::default_spread(text)),
                ("revision", number) => self.snapshot.revision = number.parse().unwrap_or_default(),
                ("devices", "on") => self.settings.ignore_dra_requests = false,
                ("zones-away", zones) => {
                    self.snapshot.zones_away = zones.split(',').map(Into::into).collect();
                }
                ("terminate-first", "on") => self.settings.gates.terminate_first_drift = true,
                ("terminate-first", "repair") => self.settings.gates.terminate_first_repair = true,
                ("static", "on") => self.settings.gates.static_capacity = true,
                ("spot-to-spot", "on") => self.settings.gates.spot_to_spot_consolidation = true,
                (key, value) if disruption::set(&mut self.settings.disruption, key, value) => {}
                _ => panic!("unknown setting in `{line}`"),
            }
        }
    }

    fn pool(&mut self, line: &Line) {
        let pool = machine::pool(line, &self.snapshot.registry);
        if let Some(pattern) = line.get("types") {
            let wanted = |name: &str| pattern.split(',').any(|pattern| glob(pattern, name));
            let types = self.types.iter().filter(|candidate| wanted(candidate.name.as_str()));
            self.snapshot.instance_types.insert(pool.name.clone(), types.cloned().collect());
        }
        self.snapshot.pools.push(Arc::new(pool));
    }

    fn pod(&mut self, line: &Line) {
        let mut pod = workload::pod(line, self.snapshot.now);
        self.promised.extend(line.get("promised").map(|machine| (pod.key.clone(), machine.to_owned())));
        match line.get("on") {
            Some(node) => {
                workload::bind(&mut pod, node, self.snapshot.now);
                self.bound.entry(node.to_owned()).or_default().push(Arc::new(pod));
            }
            None => self.snapshot.pending.push(Arc::new(pod)),
        }
    }

    fn finish(mut self) -> Snapshot {
        for mut node in self.nodes {
            if let Some(mut pods) = self.bound.remove(node.id.as_str()) {
                pods.sort_by(|a, b| a.key.cmp(&b.key));
                node.pods = pods;
            }
            self.snapshot.nodes.push(Arc::new(node));
        }
        let promised =
            self.promised.iter().map(|(pod, line)| (pod.clone(), target(line, &self.snapshot.nodes)));
        self.snapshot.promises = Arc::new(promised.collect());
        assert!(self.bound.is_empty(), "pods on unknown nodes: {:?}", self.bound.keys());
        self.snapshot.settings = Arc::new(self.settings);
        self.snapshot.devices = Arc::new(self.devices);
        self.snapshot.repair = self.policies.into();
        self.snapshot
    }
}

/// Returns the target by which promises name the machine of the line `name`; a machine that has gone where there is none.
fn target(name: &str, nodes: &[Arc<Node>]) -> Target {
    let node = nodes.iter().find(|node| node.id == *name);
    let claim = node.and_then(|node| node.claim.as_ref());
    claim.map_or_else(|| Target::Node(name.into()), |claim| Target::Claim(claim.name.clone()))
}

/// Matches `name` against a pattern with at most one `*`.
fn glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}
