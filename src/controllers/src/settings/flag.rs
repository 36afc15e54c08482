//! The table of flags: the source of the command line, the environment and the settings reference page.

/// One setting as users spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Environment variable with the same meaning; the flag wins.
    pub env: &'static str,
    /// What holds when neither is given.
    pub default: &'static str,
    /// One sentence for `--help`.
    pub help: &'static str,
    /// Takes `true` or `false`, and may stand alone on the command line.
    pub boolean: bool,
}

pub(super) const CPU_REQUESTS_DEFAULT: u32 = 1000;

const fn flag(name: &'static str, env: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, env, default, help, boolean: false }
}

const fn switch(name: &'static str, env: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, env, default, help, boolean: true }
}

/// Every setting, in the order of the reference's documentation.
pub const FLAGS: &[Flag] = &[
    flag("karpenter-service", "KARPENTER_SERVICE", "", "Accepted for compatibility and ignored"),
    flag("metrics-port", "METRICS_PORT", "8080", "Port of the metrics endpoint"),
    flag("health-probe-port", "HEALTH_PROBE_PORT", "8081", "Port of the health probes"),
    flag(
        "bind-address",
        "BIND_ADDRESS",
        "",
        "Address that metrics and health probes listen on; 0.0.0.0 or :: is every address, empty is every \
         address in a pod and loopback elsewhere; not in the reference",
    ),
    flag("kube-client-qps", "KUBE_CLIENT_QPS", "200", "Sustained Kubernetes requests per second"),
    flag("kube-client-burst", "KUBE_CLIENT_BURST", "300", "Kubernetes requests allowed at once"),
    switch("enable-profiling", "ENABLE_PROFILING", "false", "Accepted for compatibility and ignored"),
    switch(
        "disable-controller-warmup",
        "DISABLE_CONTROLLER_WARMUP",
        "true",
        "Do not start watches before this replica leads",
    ),
    switch("disable-leader-election", "DISABLE_LEADER_ELECTION", "false", "Act without holding the lease"),
    switch(
        "disable-cluster-state-observability",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        "false",
        "Publish no series per pod, node and pool",
    ),
    flag("leader-election-name", "LEADER_ELECTION_NAME", "karpenter-leader-election", "Name of the lease"),
    flag(
        "leader-election-namespace",
        "LEADER_ELECTION_NAMESPACE",
        "",
        "Namespace of the lease; empty is the namespace of the pod",
    ),
    flag("memory-limit", "MEMORY_LIMIT", "-1", "Bytes of memory to stay below; -1 is unlimited"),
    flag("cpu-requests", "CPU_REQUESTS", "1000", "Promised CPU in thousandths of a core; scales the workers"),
    flag("log-level", "LOG_LEVEL", "info", "Least severe messages to log"),
    flag("log-output-paths", "LOG_OUTPUT_PATHS", "stdout", "Where logs go, separated by commas"),
    flag("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "stderr", "Where errors of the logger go"),
    flag("batch-max-duration", "BATCH_MAX_DURATION", "10s", "Longest time pending pods are collected"),
    flag("batch-idle-duration", "BATCH_IDLE_DURATION", "1s", "Quiet time that ends the collection"),
    flag("preference-policy", "PREFERENCE_POLICY", "Respect", "Whether preferences of pods count"),
    flag("min-values-policy", "MIN_VALUES_POLICY", "Strict", "Whether minValues may be relaxed"),
    switch("ignore-dra-requests", "IGNORE_DRA_REQUESTS", "true", "Refuse pods with resource claims"),
    flag(
        "feature-gates",
        "FEATURE_GATES",
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,\
         StaticCapacity=false,CapacityBuffer=false",
        "Features to switch on or off",
    ),
];
