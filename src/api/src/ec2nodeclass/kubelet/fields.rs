//! The fields of the kubelet's own configuration, `kubelet.config.k8s.io/v1beta1` of Kubernetes 1.35, and whether a block
//! holds these alone.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::duration::parse_go_duration;

/// Kind of value in a field.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Switch,
    Int32,
    Int64,
    Uint32,
    Number,
    Text,
    Time,
    Duration,
    /// A duration, or nanoseconds.
    DurationOrNumber,
    /// An amount, as number or as text.
    Amount,
    List(&'static Kind),
    Map(&'static Kind),
    Fields(&'static [(&'static str, Kind)]),
}

use Kind::{
    Amount, Duration, DurationOrNumber, Fields, Int32, Int64, List, Map as MapOf, Number, Switch, Text, Time,
    Uint32,
};

const TEXTS: Kind = List(&Text);
const PAIRS: Kind = MapOf(&Text);

const CONFIGURATION: &[(&str, Kind)] = &[
    ("address", Text),
    ("allowedUnsafeSysctls", TEXTS),
    ("apiVersion", Text),
    (
        "authentication",
        Fields(&[
            ("x509", Fields(&[("clientCAFile", Text)])),
            ("webhook", Fields(&[("enabled", Switch), ("cacheTTL", Duration)])),
            ("anonymous", Fields(&[("enabled", Switch)])),
        ]),
    ),
    (
        "authorization",
        Fields(&[
            ("mode", Text),
            ("webhook", Fields(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)])),
        ]),
    ),
    ("cgroupDriver", Text),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Switch),
    ("clusterDNS", TEXTS),
    ("clusterDomain", Text),
    ("configMapAndSecretChangeDetectionStrategy", Text),
    ("containerLogMaxFiles", Int32),
    ("containerLogMaxSize", Text),
    ("containerLogMaxWorkers", Int32),
    ("containerLogMonitorInterval", Duration),
    ("containerRuntimeEndpoint", Text),
    ("contentType", Text),
    ("cpuCFSQuota", Switch),
    ("cpuCFSQuotaPeriod", Duration),
    ("cpuManagerPolicy", Text),
    ("cpuManagerPolicyOptions", PAIRS),
    ("cpuManagerReconcilePeriod", Duration),
    ("crashLoopBackOff", Fields(&[("maxContainerRestartPeriod", Duration)])),
    ("enableContentionProfiling", Switch),
    ("enableControllerAttachDetach", Switch),
    ("enableDebugFlagsHandler", Switch),
    ("enableDebuggingHandlers", Switch),
    ("enableProfilingHandler", Switch),
    ("enableServer", Switch),
    ("enableSystemLogHandler", Switch),
    ("enableSystemLogQuery", Switch),
    ("enforceNodeAllocatable", TEXTS),
    ("eventBurst", Int32),
    ("eventRecordQPS", Int32),
    ("evictionHard", PAIRS),
    ("evictionMaxPodGracePeriod", Int32),
    ("evictionMinimumReclaim", PAIRS),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionSoft", PAIRS),
    ("evictionSoftGracePeriod", PAIRS),
    ("failCgroupV1", Switch),
    ("failSwapOn", Switch),
    ("featureGates", MapOf(&Switch)),
    ("fileCheckFrequency", Duration),
    ("hairpinMode", Text),
    ("healthzBindAddress", Text),
    ("healthzPort", Int32),
    ("httpCheckFrequency", Duration),
    ("imageGCHighThresholdPercent", Int32),
    ("imageGCLowThresholdPercent", Int32),
    ("imageMaximumGCAge", Duration),
    ("imageMinimumGCAge", Duration),
    ("imagePullCredentialsVerificationPolicy", Text),
    ("imageServiceEndpoint", Text),
    ("iptablesDropBit", Int32),
    ("iptablesMasqueradeBit", Int32),
    ("kernelMemcgNotification", Switch),
    ("kind", Text),
    ("kubeAPIBurst", Int32),
    ("kubeAPIQPS", Int32),
    ("kubeReserved", PAIRS),
    ("kubeReservedCgroup", Text),
    ("kubeletCgroups", Text),
    ("localStorageCapacityIsolation", Switch),
    (
        "logging",
        Fields(&[
            ("format", Text),
            ("flushFrequency", DurationOrNumber),
            ("verbosity", Uint32),
            ("vmodule", List(&Fields(&[("filePattern", Text), ("verbosity", Uint32)]))),
            (
                "options",
                Fields(&[
                    ("text", Fields(&[("splitStream", Switch), ("infoBufferSize", Amount)])),
                    ("json", Fields(&[("splitStream", Switch), ("infoBufferSize", Amount)])),
                ]),
            ),
        ]),
    ),
    ("makeIPTablesUtilChains", Switch),
    ("maxOpenFiles", Int64),
    ("maxParallelImagePulls", Int32),
    ("maxPods", Int32),
    ("memoryManagerPolicy", Text),
    ("memorySwap", Fields(&[("swapBehavior", Text)])),
    ("memoryThrottlingFactor", Number),
    ("mergeDefaultEvictionSettings", Switch),
    ("nodeLeaseDurationSeconds", Int32),
    ("nodeStatusMaxImages", Int32),
    ("nodeStatusReportFrequency", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("oomScoreAdj", Int32),
    ("podCIDR", Text),
    ("podLogsDir", Text),
    ("podPidsLimit", Int64),
    ("podsPerCore", Int32),
    ("port", Int32),
    ("preloadedImagesVerificationAllowlist", TEXTS),
    ("protectKernelDefaults", Switch),
    ("providerID", Text),
    ("qosReserved", PAIRS),
    ("readOnlyPort", Int32),
    ("registerNode", Switch),
    (
        "registerWithTaints",
        List(&Fields(&[("key", Text), ("value", Text), ("effect", Text), ("timeAdded", Time)])),
    ),
    ("registryBurst", Int32),
    ("registryPullQPS", Int32),
    ("reservedMemory", List(&Fields(&[("numaNode", Int32), ("limits", MapOf(&Amount))]))),
    ("reservedSystemCPUs", Text),
    ("resolvConf", Text),
    ("rotateCertificates", Switch),
    ("runOnce", Switch),
    ("runtimeRequestTimeout", Duration),
    ("seccompDefault", Switch),
    ("serializeImagePulls", Switch),
    ("serverTLSBootstrap", Switch),
    ("showHiddenMetricsForVersion", Text),
    ("shutdownGracePeriod", Duration),
    (
        "shutdownGracePeriodByPodPriority",
        List(&Fields(&[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)])),
    ),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("singleProcessOOMKill", Switch),
    ("staticPodPath", Text),
    ("staticPodURL", Text),
    ("staticPodURLHeader", MapOf(&TEXTS)),
    ("streamingConnectionIdleTimeout", Duration),
    ("syncFrequency", Duration),
    ("systemCgroups", Text),
    ("systemReserved", PAIRS),
    ("systemReservedCgroup", Text),
    ("tlsCertFile", Text),
    ("tlsCipherSuites", TEXTS),
    ("tlsMinVersion", Text),
    ("tlsPrivateKeyFile", Text),
    ("topologyManagerPolicy", Text),
    ("topologyManagerPolicyOptions", PAIRS),
    ("topologyManagerScope", Text),
    ("tracing", Fields(&[("endpoint", Text), ("samplingRatePerMillion", Int32)])),
    ("userNamespaces", Fields(&[("idsPerPod", Int64)])),
    ("volumePluginDir", Text),
    ("volumeStatsAggPeriod", Duration),
];

/// Problems of a block, each with the path to its field; fields in order of their names. A field that is null is unset.
pub(super) fn unreadable(block: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    check_fields(CONFIGURATION, block, "", &mut problems);
    problems
}

fn check_fields(known: &[(&str, Kind)], fields: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
    for (name, value) in sorted {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match known.iter().find(|(known, _)| known == name) {
            Some((_, kind)) => check(*kind, value, &path, problems),
            None => problems.push(format!("unknown field \"{path}\"")),
        }
    }
}

fn check(kind: Kind, value: &Value, path: &str, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (kind, value) {
        (List(inner), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                check(*inner, item, &format!("{path}[{index}]"), problems);
            }
        }
        (MapOf(inner), Value::Object(fields)) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            for (name, value) in sorted {
                check(*inner, value, &format!("{path}.{name}"), problems);
            }
        }
        (Fields(known), Value::Object(fields)) => check_fields(known, fields, path, problems),
        (kind, value) if fits(kind, value) => {}
        (kind, _) => problems.push(format!("{path} must be {}", wanted(kind))),
    }
}

fn fits(kind: Kind, value: &Value) -> bool {
    let text = |read: fn(&str) -> bool| value.as_str().is_some_and(read);
    let go_duration = |text: &str| parse_go_duration(text.strip_prefix('-').unwrap_or(text)).is_ok();
    match kind {
        Switch => value.is_boolean(),
        Int32 => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        Int64 => value.is_i64(),
        Uint32 => value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
        Number => value.is_number(),
        Text => value.is_string(),
        Time => text(|text| text.parse::<jiff::Timestamp>().is_ok()),
        Duration => text(go_duration),
        DurationOrNumber => text(go_duration) || value.is_i64(),
        Amount => value.is_number() || text(|text| text.parse::<karpenter_model::Quantity>().is_ok()),
        List(_) | MapOf(_) | Fields(_) => false,
    }
}

const fn wanted(kind: Kind) -> &'static str {
    match kind {
        Switch => "true or false",
        Int32 => "a whole number of 32 bits",
        Int64 => "a whole number",
        Uint32 => "a whole number that is not negative",
        Number => "a number",
        Text => "a text",
        Time => "a time such as 2026-01-01T00:00:00Z",
        Duration | DurationOrNumber => "a duration such as 1m30s",
        Amount => "a quantity",
        List(_) => "a list",
        MapOf(_) | Fields(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_types_of_every_depth_are_checked() {
        let table: Vec<(Value, &[&str])> = vec![
            (json!({}), &[]),
            (
                json!({"maxPods": 110, "cpuManagerPolicy": "static", "memorySwap": {"swapBehavior": "LimitedSwap"}}),
                &[],
            ),
            (json!({"maxPods": null, "featureGates": {"A": true}, "shutdownGracePeriod": "1m30s"}), &[]),
            (
                json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": 1}}]}),
                &[],
            ),
            (
                json!({"logging": {"verbosity": 2, "flushFrequency": 5, "options": {"json": {"infoBufferSize": "1Mi"}}}}),
                &[],
            ),
            (json!({"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}), &[]),
            (
                json!({"maxPod": 1, "clusterDns": []}),
                &["unknown field \"clusterDns\"", "unknown field \"maxPod\""],
            ),
            (
                json!({"authentication": {"anonymous": {"enable": true}}}),
                &["unknown field \"authentication.anonymous.enable\""],
            ),
            (json!({"reservedMemory": [{"numa": 0}]}), &["unknown field \"reservedMemory[0].numa\""]),
            (json!({"maxPods": 1.5}), &["maxPods must be a whole number of 32 bits"]),
            (json!({"podsPerCore": 2_147_483_648_i64}), &["podsPerCore must be a whole number of 32 bits"]),
            (json!({"kubeReserved": {"cpu": 1}}), &["kubeReserved.cpu must be a text"]),
            (json!({"cpuCFSQuotaPeriod": "5 ms"}), &["cpuCFSQuotaPeriod must be a duration such as 1m30s"]),
            (json!({"featureGates": {"A": "true"}}), &["featureGates.A must be true or false"]),
            (json!({"clusterDNS": "10.0.0.10"}), &["clusterDNS must be a list"]),
            (json!({"tlsCipherSuites": [1]}), &["tlsCipherSuites[0] must be a text"]),
            (json!({"evictionHard": []}), &["evictionHard must be an object"]),
        ];
        for (block, problems) in table {
            assert_eq!(unreadable(block.as_object().unwrap()), problems, "{block}");
        }
    }

    #[test]
    fn no_field_is_listed_twice() {
        let names: std::collections::BTreeSet<&str> = CONFIGURATION.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), CONFIGURATION.len());
    }
}
