//! Places of fields below each other, for the kinds whose layout can be restored.
//!
//! Versions are not kept apart: a field has one place in all of them, or each place has another name.

/// Content of a field.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    Value,
    /// Keys of the operator, such as labels.
    Texts,
    /// A list of values.
    Values,
    Fields(&'static [Field]),
    /// A list of maps with these fields.
    Items(&'static [Field]),
}

pub(super) type Field = (&'static str, Holds);

use Holds::{Fields, Items, Texts, Value, Values};

/// The fields of the kind that a line names.
pub(super) fn of_kind(line: &str) -> Option<&'static [Field]> {
    // Not below a key: a ConfigMap may hold a manifest as text.
    let kind = line.strip_prefix("kind:")?.trim().trim_matches(['"', '\'']);
    match kind {
        "Provisioner" => Some(PROVISIONER),
        "AWSNodeTemplate" => Some(TEMPLATE),
        "NodePool" => Some(POOL),
        "EC2NodeClass" => Some(CLASS),
        _ => None,
    }
}

const METADATA: Field =
    ("metadata", Fields(&[("name", Value), ("namespace", Value), ("labels", Texts), ("annotations", Texts)]));
const TAINT: &[Field] = &[("key", Value), ("value", Value), ("effect", Value)];
const REQUIREMENT: &[Field] =
    &[("key", Value), ("operator", Value), ("values", Values), ("minValues", Value)];
const KUBELET: &[Field] = &[
    ("clusterDNS", Values),
    ("containerRuntime", Value),
    ("maxPods", Value),
    ("podsPerCore", Value),
    ("systemReserved", Texts),
    ("kubeReserved", Texts),
    ("evictionHard", Texts),
    ("evictionSoft", Texts),
    ("evictionSoftGracePeriod", Texts),
    ("evictionMaxPodGracePeriod", Value),
    ("imageGCHighThresholdPercent", Value),
    ("imageGCLowThresholdPercent", Value),
    ("cpuCFSQuota", Value),
];
const VOLUME: &[Field] = &[
    ("deviceName", Value),
    ("rootVolume", Value),
    (
        "ebs",
        Fields(&[
            ("volumeSize", Value),
            ("volumeType", Value),
            ("iops", Value),
            ("throughput", Value),
            ("encrypted", Value),
            ("kmsKeyID", Value),
            ("deleteOnTermination", Value),
            ("snapshotID", Value),
        ]),
    ),
];
const METADATA_OPTIONS: &[Field] = &[
    ("httpEndpoint", Value),
    ("httpProtocolIPv6", Value),
    ("httpPutResponseHopLimit", Value),
    ("httpTokens", Value),
];
const PROVIDER: &[Field] = &[
    ("amiFamily", Value),
    ("amiSelector", Texts),
    ("instanceProfile", Value),
    ("subnetSelector", Texts),
    ("securityGroupSelector", Texts),
    ("launchTemplate", Value),
    ("tags", Texts),
    ("metadataOptions", Fields(METADATA_OPTIONS)),
    ("blockDeviceMappings", Items(VOLUME)),
    ("userData", Value),
    ("detailedMonitoring", Value),
    ("context", Value),
];
const PROVISIONER: &[Field] = &[
    ("apiVersion", Value),
    ("kind", Value),
    METADATA,
    (
        "spec",
        Fields(&[
            ("annotations", Texts),
            ("labels", Texts),
            ("taints", Items(TAINT)),
            ("startupTaints", Items(TAINT)),
            ("requirements", Items(REQUIREMENT)),
            ("kubeletConfiguration", Fields(KUBELET)),
            ("provider", Fields(PROVIDER)),
            ("providerRef", Fields(&[("apiVersion", Value), ("kind", Value), ("name", Value)])),
            ("ttlSecondsAfterEmpty", Value),
            ("ttlSecondsUntilExpired", Value),
            ("consolidation", Fields(&[("enabled", Value)])),
            ("limits", Fields(&[("resources", Texts)])),
            ("weight", Value),
        ]),
    ),
];
const TEMPLATE: &[Field] = &[("apiVersion", Value), ("kind", Value), METADATA, ("spec", Fields(PROVIDER))];
const POOL: &[Field] = &[
    ("apiVersion", Value),
    ("kind", Value),
    METADATA,
    (
        "spec",
        Fields(&[
            (
                "template",
                Fields(&[
                    ("metadata", Fields(&[("labels", Texts), ("annotations", Texts)])),
                    (
                        "spec",
                        Fields(&[
                            ("taints", Items(TAINT)),
                            ("startupTaints", Items(TAINT)),
                            ("requirements", Items(REQUIREMENT)),
                            ("kubelet", Fields(KUBELET)),
                            ("terminationGracePeriod", Value),
                            (
                                "nodeClassRef",
                                Fields(&[
                                    ("apiVersion", Value),
                                    ("group", Value),
                                    ("kind", Value),
                                    ("name", Value),
                                ]),
                            ),
                        ]),
                    ),
                ]),
            ),
            (
                "disruption",
                Fields(&[
                    ("consolidationPolicy", Value),
                    ("consolidateAfter", Value),
                    (
                        "budgets",
                        Items(&[
                            ("nodes", Value),
                            ("schedule", Value),
                            ("duration", Value),
                            ("reasons", Values),
                        ]),
                    ),
                ]),
            ),
            ("limits", Texts),
            ("weight", Value),
        ]),
    ),
];
const TERM: &[Field] = &[
    ("id", Value),
    ("name", Value),
    ("owner", Value),
    ("alias", Value),
    ("ssmParameter", Value),
    ("tags", Texts),
];
const CLASS: &[Field] = &[
    ("apiVersion", Value),
    ("kind", Value),
    METADATA,
    (
        "spec",
        Fields(&[
            ("amiFamily", Value),
            ("amiSelectorTerms", Items(TERM)),
            ("subnetSelectorTerms", Items(TERM)),
            ("securityGroupSelectorTerms", Items(TERM)),
            ("role", Value),
            ("instanceProfile", Value),
            ("tags", Texts),
            ("kubelet", Fields(KUBELET)),
            ("metadataOptions", Fields(METADATA_OPTIONS)),
            ("blockDeviceMappings", Items(VOLUME)),
            ("userData", Value),
            ("detailedMonitoring", Value),
            ("associatePublicIPAddress", Value),
            ("instanceStorePolicy", Value),
            ("context", Value),
        ]),
    ),
];
