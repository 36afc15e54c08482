//! The tables of flags: the source of the command line, the environment and the settings reference page.

use karpenter_model::settings::FeatureGates;

/// One setting as users spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Environment variable with the same meaning; the flag wins.
    pub env: &'static str,
    /// Value that holds when neither is given.
    pub default: &'static str,
    /// One sentence for `--help`.
    pub help: &'static str,
    /// Takes `true` or `false`, and may stand alone on the command line.
    pub boolean: bool,
    /// Reason why it changes nothing, for settings that are accepted for compatibility only.
    pub without_effect: Option<&'static str>,
}

impl Flag {
    /// A setting with a value.
    pub const fn new(
        name: &'static str,
        env: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, env, default, help, boolean: false, without_effect: None }
    }

    /// A setting that is on or off.
    pub const fn switch(
        name: &'static str,
        env: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { boolean: true, ..Self::new(name, env, default, help) }
    }

    /// Marks a setting as accepted for compatibility only, with the reason.
    #[must_use]
    pub const fn without_effect(self, why: &'static str) -> Self {
        Self { without_effect: Some(why), ..self }
    }
}

pub(super) const CPU_REQUESTS_DEFAULT: u32 = 1000;

/// The settings of the reference, in the order of its documentation, and where to listen.
pub const FLAGS: &[Flag] = &[
    Flag::new("karpenter-service", "KARPENTER_SERVICE", "", "Name of the service in front of the controller")
        .without_effect("it was the name of the webhook's service, and there are no webhooks"),
    Flag::new("metrics-port", "METRICS_PORT", "8080", "Port of the metrics endpoint"),
    Flag::new("health-probe-port", "HEALTH_PROBE_PORT", "8081", "Port of the health probes"),
    Flag::new(
        "bind-address",
        "BIND_ADDRESS",
        "",
        "Address that metrics and health probes listen on; 0.0.0.0 or :: is every address, empty is every \
         address in a pod and loopback elsewhere; not in the reference",
    ),
    Flag::new("kube-client-qps", "KUBE_CLIENT_QPS", "200", "Sustained Kubernetes requests per second"),
    Flag::new("kube-client-burst", "KUBE_CLIENT_BURST", "300", "Kubernetes requests allowed at once"),
    Flag::switch("enable-profiling", "ENABLE_PROFILING", "false", "Serve profiles on the metrics port")
        .without_effect("the profiles of the reference are those of the Go runtime; use perf on the process"),
    Flag::switch(
        "disable-controller-warmup",
        "DISABLE_CONTROLLER_WARMUP",
        "true",
        "Do not start watches before this replica leads",
    ),
    Flag::switch(
        "disable-leader-election",
        "DISABLE_LEADER_ELECTION",
        "false",
        "Act without holding the lease",
    ),
    Flag::switch(
        "disable-cluster-state-observability",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        "false",
        "Publish no series per pod, node and pool",
    ),
    Flag::new(
        "leader-election-name",
        "LEADER_ELECTION_NAME",
        "karpenter-leader-election",
        "Name of the lease",
    ),
    Flag::new(
        "leader-election-namespace",
        "LEADER_ELECTION_NAMESPACE",
        "",
        "Namespace of the lease; empty is the namespace of the pod",
    ),
    Flag::new(
        "memory-limit",
        "MEMORY_LIMIT",
        "-1",
        "Bytes of memory the container has; the log warns at 90 %; -1 is unlimited",
    ),
    Flag::new(
        "cpu-requests",
        "CPU_REQUESTS",
        "1000",
        "Promised CPU in thousandths of a core; scales the workers",
    ),
    Flag::new("log-level", "LOG_LEVEL", "info", "Least severe messages to log: debug, info, warn or error"),
    Flag::new("log-output-paths", "LOG_OUTPUT_PATHS", "stdout", "Where logs go, separated by commas"),
    Flag::new("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "stderr", "Where errors of the logger go"),
    Flag::new("batch-max-duration", "BATCH_MAX_DURATION", "10s", "Longest time pending pods are collected"),
    Flag::new("batch-idle-duration", "BATCH_IDLE_DURATION", "1s", "Quiet time that ends the collection"),
    Flag::new(
        "preference-policy",
        "PREFERENCE_POLICY",
        "Respect",
        "Whether preferences of pods count: Respect or Ignore",
    ),
    Flag::new(
        "min-values-policy",
        "MIN_VALUES_POLICY",
        "Strict",
        "Whether minValues may be relaxed: Strict or BestEffort",
    ),
    Flag::switch(
        "ignore-dra-requests",
        "IGNORE_DRA_REQUESTS",
        "true",
        "Refuse pods with resource claims; otherwise they are placed where their devices are. Gates about devices of the provider count before it",
    ),
    Flag::switch(
        "legacy-node-repair",
        "LEGACY_NODE_REPAIR",
        "false",
        "With the gate NodeRepair, delete unhealthy nodes at once and outside budgets, as v1.14 did, instead of replacing them first",
    ),
    Flag::new(
        "scheduler-config",
        "SCHEDULER_CONFIG",
        "",
        "What the cluster's scheduler does by default, as YAML or JSON: podTopologySpread.defaultConstraints, which pods \
         without a constraint of their own get over what their Services and owner select; empty plans without",
    ),
    Flag::new(
        "feature-gates",
        "FEATURE_GATES",
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,\
         StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,\
         TerminateFirstRepair=false,PodDeletionCostManagement=false",
        "Features to switch on or off",
    ),
];

/// Settings the reference does not have. Most are off, or are limits and brakes that are not felt in normal operation;
/// `nominated-node-name` and `batch-early-launch` are on.
pub const OWN: &[Flag] = &[
    Flag::new("log-format", "LOG_FORMAT", "json", "How log lines look: json for collectors, text for people"),
    Flag::switch(
        "nominated-node-name",
        "NOMINATED_NODE_NAME",
        "true",
        "Name a new node in the status of the pods it was launched for, which the scheduler then tries first",
    ),
    Flag::new(
        "ready-together",
        "READY_TOGETHER",
        "0s",
        "Longest time for which a ready node waits for the others of its plan before it takes pods; 0s does not wait",
    ),
    Flag::switch(
        "batch-early-launch",
        "BATCH_EARLY_LAUNCH",
        "true",
        "Launch full nodes while pending pods are still collected, where pods that come later could hardly make them \
         cheaper",
    ),
    Flag::new(
        "scheduling-default-spread",
        "SCHEDULING_DEFAULT_SPREAD",
        "",
        "Older way to write the constraints of scheduler-config, which counts if both are set: \
         topologyKey:maxSkew:whenUnsatisfiable, separated by commas",
    ),
    Flag::new(
        "repair-policies",
        "REPAIR_POLICIES",
        "",
        "Repair policies, as YAML or JSON, in place of all built-in ones for the same condition and status: a list of condition, \
         status, reason, toleration, terminationGracePeriod, priority and action",
    ),
    Flag::new(
        "scheduling-pods-per-pass",
        "SCHEDULING_PODS_PER_PASS",
        "50000",
        "Most pending pods one pass plans for; the next pass continues with those it left out",
    ),
    Flag::new(
        "registration-timeout",
        "REGISTRATION_TIMEOUT",
        "15m",
        "Longest time until the node of an instance has registered; the instance is ended then and its pods are planned for \
         again; at least 1m",
    ),
    Flag::new(
        "initialization-timeout",
        "INITIALIZATION_TIMEOUT",
        "0s",
        "Longest time from the registration of a node until it is initialized; its instance is ended then, whatever pods \
         wait for it; 0s waits",
    ),
    Flag::new(
        "disruption-simulations-per-pass",
        "DISRUPTION_SIMULATIONS_PER_PASS",
        "2000",
        "Most simulations within a disruption pass, shared by its methods; the next pass continues where it \
         stopped",
    ),
    Flag::new(
        "disruption-commands-per-minute",
        "DISRUPTION_COMMANDS_PER_MINUTE",
        "300",
        "Most disruption commands started within a minute; 0 is no limit",
    ),
    Flag::new(
        "disruption-expiry-lead",
        "DISRUPTION_EXPIRY_LEAD",
        "0s",
        "How long before it expires a node is replaced like a drifted one, within budgets; at most half of its expireAfter counts; 0s waits for expiry",
    ),
    Flag::switch(
        "disruption-on-rebalance",
        "DISRUPTION_ON_REBALANCE",
        "false",
        "Replace a spot node that EC2 recommends to rebalance like a drifted one, within budgets; false only publishes an event",
    ),
    Flag::new(
        "disruption-min-saving-percent",
        "DISRUPTION_MIN_SAVING_PERCENT",
        "5",
        "Least saving of a replacement that consolidates, in percent of what the nodes cost; 0 takes whatever is cheaper",
    ),
    Flag::switch(
        "disruption-many-to-many",
        "DISRUPTION_MANY_TO_MANY",
        "false",
        "Try to replace several nodes by several cheaper ones",
    ),
    Flag::new(
        "disruption-many-to-many-min-saving",
        "DISRUPTION_MANY_TO_MANY_MIN_SAVING",
        "0.05",
        "Least saving of such a replacement, in dollars per hour",
    ),
    Flag::new(
        "disruption-many-to-many-min-saving-percent",
        "DISRUPTION_MANY_TO_MANY_MIN_SAVING_PERCENT",
        "10",
        "Least saving of such a replacement, in percent of what the nodes cost",
    ),
    Flag::new(
        "disruption-mass-drift-percent",
        "DISRUPTION_MASS_DRIFT_PERCENT",
        "50",
        "Share of nodes that may turn drifted at once before drift is held until it has lasted; 100 never holds it",
    ),
    Flag::new(
        "disruption-mass-drift-least",
        "DISRUPTION_MASS_DRIFT_LEAST",
        "10",
        "Number of drifted nodes below which there is no mass drift",
    ),
    Flag::new(
        "disruption-mass-drift-quiet-after-start",
        "DISRUPTION_MASS_DRIFT_QUIET_AFTER_START",
        "15m",
        "How long after the start any mass drift is suspicious",
    ),
    Flag::new(
        "disruption-mass-drift-hold",
        "DISRUPTION_MASS_DRIFT_HOLD",
        "11m",
        "How long a suspicious drift must last to be believed",
    ),
    Flag::new(
        "disruption-health-gate-failures",
        "DISRUPTION_HEALTH_GATE_FAILURES",
        "3",
        "Failed replacements in a row that stop further replacements in a NodePool; 0 never stops them",
    ),
    Flag::new(
        "disruption-health-gate-pause",
        "DISRUPTION_HEALTH_GATE_PAUSE",
        "30m",
        "Time after which such a NodePool tries one more replacement",
    ),
    Flag::new(
        "disruption-anti-flap-window",
        "DISRUPTION_ANTI_FLAP_WINDOW",
        "15m",
        "Time for which a replacement is not replaced by a node like its predecessor, and a node that a removal made necessary is not removed; 0s allows both at once",
    ),
    Flag::switch(
        "disruption-launchable-capacity",
        "DISRUPTION_LAUNCHABLE_CAPACITY",
        "true",
        "Keep nodes of static NodePools while nothing that could take their place can be launched",
    ),
];

/// One feature gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Name as users write it.
    pub name: &'static str,
    /// True if it is on by default.
    pub default: bool,
    /// One sentence.
    pub help: &'static str,
    /// Field of the decisions' gates.
    pub(super) place: fn(&mut FeatureGates) -> &mut bool,
}

/// The feature gates of the reference.
pub const GATES: &[Gate] = &[
    Gate {
        name: "ReservedCapacity",
        default: true,
        help: "Use capacity reservations",
        place: |gates| &mut gates.reserved_capacity,
    },
    Gate {
        name: "SpotToSpotConsolidation",
        default: false,
        help: "Replace spot nodes by cheaper spot nodes",
        place: |gates| &mut gates.spot_to_spot_consolidation,
    },
    Gate {
        name: "NodeRepair",
        default: false,
        help: "Replace unhealthy nodes",
        place: |gates| &mut gates.node_repair,
    },
    Gate {
        name: "NodeOverlay",
        default: false,
        help: "Change prices and capacities with NodeOverlay objects",
        place: |gates| &mut gates.node_overlay,
    },
    Gate {
        name: "StaticCapacity",
        default: false,
        help: "NodePools with a fixed number of nodes",
        place: |gates| &mut gates.static_capacity,
    },
    Gate {
        name: "CapacityBuffer",
        default: false,
        help: "Keep room free with CapacityBuffer objects",
        place: |gates| &mut gates.capacity_buffer,
    },
    Gate {
        name: "TerminateFirstDrift",
        default: false,
        help: "Delete drifted nodes before their replacement where none can be staged: in a full reservation or a static \
               NodePool at its limit",
        place: |gates| &mut gates.terminate_first_drift,
    },
    Gate {
        name: "TerminateFirstRepair",
        default: false,
        help: "The same for unhealthy nodes, with NodeRepair",
        place: |gates| &mut gates.terminate_first_repair,
    },
    Gate {
        name: "PodDeletionCostManagement",
        default: false,
        help: "Write deletion costs of pods, so that ReplicaSets scale in on the nodes that go next",
        place: |gates| &mut gates.pod_deletion_cost_management,
    },
];
