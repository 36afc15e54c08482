//! Every setting of the controller: names, defaults, and what each value may be (spec disruption 5.1).
//!
//! The binary collects texts from flags and environment; [`Settings::resolve`] turns them into types once. A wrong
//! value is an error that names where it came from, what it was and what is allowed. (The reference silently falls
//! back to the default for unreadable environment variables; a typo must not change behaviour unnoticed.)

mod error;
mod flag;
mod read;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use karpenter_model::repair::WrittenPolicy;
use karpenter_model::requirement::syntax::is_dns_subdomain;
use karpenter_model::settings::{
    Brakes, DefaultSpread, DisruptionSettings, ManyToMany, MinValuesPolicy, PreferencePolicy,
};
use karpenter_telemetry::logging;

pub use error::{SettingError, Source};
pub use flag::{FLAGS, Flag, GATES, Gate, OWN};
pub use read::{Bounds, Reader, gate_list};

/// The settings of one process, resolved and valid.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per setting, named as users write them")]
pub struct Settings {
    /// Settings that decisions depend on.
    pub decisions: Arc<karpenter_model::Settings>,
    pub metrics_port: u16,
    /// Port of `/healthz` and `/readyz`.
    pub health_probe_port: u16,
    /// Address both listen on; an unspecified one is every address.
    pub bind_address: IpAddr,
    /// Sustained Kubernetes requests per second.
    pub kube_client_qps: u32,
    /// Kubernetes requests that may be made at once above the sustained rate.
    pub kube_client_burst: u32,
    /// Election of the one active replica.
    pub leader_election: LeaderElection,
    /// Tell the scheduler which pods a node was launched for.
    pub nominated_node_name: bool,
    /// Longest time for which the nodes of one plan wait for each other before they take pods.
    pub ready_together: Duration,
    /// Start watches before leading, so that a successor has the cluster's state at once.
    pub warm_up: bool,
    /// Delete unhealthy nodes at once instead of replacing them within budgets; only with the gate `NodeRepair`.
    pub legacy_node_repair: bool,
    /// Policies in place of all of the provider for the same condition and status.
    pub repair_policies: Vec<WrittenPolicy>,
    /// Publish a series per pod, node and pool.
    pub cluster_state_observability: bool,
    /// Memory the process should stay below, in bytes; `None` is unlimited.
    pub memory_limit_bytes: Option<u64>,
    /// CPU the process was promised, in thousandths of a core; at least 1.
    pub cpu_requests_millicores: u32,
    pub log_level: logging::Level,
    pub log_format: logging::Format,
    pub log_outputs: Vec<logging::Output>,
    pub log_error_outputs: Vec<logging::Output>,
}

/// Settings of the election of the one active replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    pub enabled: bool,
    /// Name of the Lease.
    pub name: String,
    /// Namespace of the Lease; `None` is the pod's own.
    pub namespace: Option<String>,
}

/// Place where the process runs; it decides who may reach the process unless a setting overrides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a pod: the kubelet probes it and Prometheus scrapes it at the address of the pod.
    Pod,
    /// On a person's machine, which no other host needs to reach.
    Machine,
}

impl Home {
    fn bind_address(self) -> IpAddr {
        match self {
            Self::Pod => Ipv6Addr::UNSPECIFIED.into(),
            Self::Machine => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl Settings {
    /// Resolves every setting. `given` answers with the text and its origin when a flag or variable is set; the
    /// flag wins over the variable, which is the caller's part. All wrong values are reported together.
    pub fn resolve<'a>(
        home: Home,
        given: impl Fn(&Flag) -> Option<(&'a str, Source)>,
    ) -> Result<Self, Vec<SettingError>> {
        let mut reader = Reader::new(&[FLAGS, OWN], given);
        // Nothing follows from it, but a wrong value is one all the same.
        reader.boolean("enable-profiling");
        let settings = Self {
            decisions: Arc::new(karpenter_model::Settings {
                batch_max: reader.duration("batch-max-duration"),
                batch_idle: reader.duration("batch-idle-duration"),
                batch_early_launch: reader.boolean("batch-early-launch"),
                preference_policy: reader.choice(
                    "preference-policy",
                    &[("Respect", PreferencePolicy::Respect), ("Ignore", PreferencePolicy::Ignore)],
                ),
                min_values_policy: reader.choice(
                    "min-values-policy",
                    &[("Strict", MinValuesPolicy::Strict), ("BestEffort", MinValuesPolicy::BestEffort)],
                ),
                ignore_dra_requests: reader.boolean("ignore-dra-requests"),
                gates: reader.gates("feature-gates"),
                pods_per_pass: reader.count("scheduling-pods-per-pass"),
                default_spread: default_spread(&mut reader),
                registration_timeout: reader.duration_from_one_minute("registration-timeout"),
                // Zero, the default, waits without end.
                initialization_timeout: Some(reader.span("initialization-timeout"))
                    .filter(|timeout| !timeout.is_zero()),
                disruption: disruption(&mut reader),
                ..karpenter_model::Settings::default()
            }),
            metrics_port: reader.number("metrics-port"),
            health_probe_port: reader.number("health-probe-port"),
            bind_address: reader.address("bind-address").unwrap_or_else(|| home.bind_address()),
            kube_client_qps: reader.number("kube-client-qps"),
            kube_client_burst: reader.number("kube-client-burst"),
            leader_election: LeaderElection {
                enabled: !reader.boolean("disable-leader-election"),
                name: reader.value("leader-election-name", LEASE, |text| {
                    is_dns_subdomain(text).then(|| text.to_owned())
                }),
                namespace: Some(reader.value("leader-election-namespace", NAMESPACE, namespace))
                    .filter(|name| !name.is_empty()),
            },
            nominated_node_name: reader.boolean("nominated-node-name"),
            ready_together: reader.span("ready-together"),
            warm_up: !reader.boolean("disable-controller-warmup"),
            legacy_node_repair: reader.boolean("legacy-node-repair"),
            repair_policies: reader.repair_policies("repair-policies"),
            cluster_state_observability: !reader.boolean("disable-cluster-state-observability"),
            // The default, -1, is no limit, and neither is zero.
            memory_limit_bytes: u64::try_from(reader.number::<i64>("memory-limit"))
                .ok()
                .filter(|bytes| *bytes > 0),
            // Zero and less count as the default, as in the reference (spec scheduling 31).
            cpu_requests_millicores: u32::try_from(reader.number::<i64>("cpu-requests"))
                .ok()
                .filter(|millicores| *millicores > 0)
                .unwrap_or(flag::CPU_REQUESTS_DEFAULT),
            log_level: reader.log_level("log-level"),
            log_format: reader
                .choice("log-format", &[("json", logging::Format::Json), ("text", logging::Format::Text)]),
            log_outputs: reader.outputs("log-output-paths"),
            log_error_outputs: reader.outputs("log-error-output-paths"),
        };
        reader.finish().map(|()| settings)
    }

    /// Workers for a controller that has `least` on one core and `most` on sixty (spec disruption 0.8).
    pub fn concurrency(&self, least: u32, most: u32) -> usize {
        let cores = self.cpu_requests_millicores.div_ceil(1000).clamp(1, 60);
        let extra = u64::from(most - least) * u64::from(cores - 1) / 59;
        usize::try_from(u64::from(least) + extra).unwrap_or(usize::MAX)
    }
}

const LEASE: &str = "the name of a Lease: lower-case letters, digits, `-` and `.`";
const NAMESPACE: &str = "the name of a namespace: lower-case letters, digits and `-`";

/// The name of a namespace, or nothing.
fn namespace(text: &str) -> Option<String> {
    let named = is_dns_subdomain(text) && !text.contains('.');
    (text.is_empty() || named).then(|| text.to_owned())
}

/// The constraints of the configuration of the scheduler, else those written in the older way.
fn default_spread<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>>(
    reader: &mut Reader<'a, G>,
) -> Vec<DefaultSpread> {
    let (configured, older) =
        (reader.scheduler_config("scheduler-config"), reader.spread("scheduling-default-spread"));
    if configured.is_empty() { older } else { configured }
}

fn disruption<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>>(
    reader: &mut Reader<'a, G>,
) -> DisruptionSettings {
    DisruptionSettings {
        simulations_per_pass: reader.count("disruption-simulations-per-pass"),
        expiry_lead: reader.span("disruption-expiry-lead"),
        on_rebalance: reader.boolean("disruption-on-rebalance"),
        min_saving_percent: reader.percent("disruption-min-saving-percent"),
        many_to_many: ManyToMany {
            enabled: reader.boolean("disruption-many-to-many"),
            min_saving: reader.price("disruption-many-to-many-min-saving"),
            min_saving_percent: reader.percent("disruption-many-to-many-min-saving-percent"),
        },
        brakes: Brakes {
            mass_drift_percent: reader.percent("disruption-mass-drift-percent"),
            mass_drift_least: reader.number("disruption-mass-drift-least"),
            mass_drift_quiet_after_start: reader.span("disruption-mass-drift-quiet-after-start"),
            mass_drift_hold: reader.span("disruption-mass-drift-hold"),
            health_gate_failures: reader.number("disruption-health-gate-failures"),
            health_gate_pause: reader.span("disruption-health-gate-pause"),
            anti_flap_window: reader.span("disruption-anti-flap-window"),
            commands_per_minute: reader.number("disruption-commands-per-minute"),
            launchable_capacity: reader.boolean("disruption-launchable-capacity"),
        },
        ..DisruptionSettings::default()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::resolve(Home::Machine, |_| None).expect("invariant: every default is valid, checked by a test")
    }
}

#[cfg(test)]
mod tests;
