//! The kubelet block of an EC2NodeClass (spec aws-provider 1.4).

use super::super::pattern;
use super::super::schema::Schema;

const SIGNALS: &str = "['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available']";

pub(super) fn kubelet() -> Schema {
    let percent = || Schema::int32().within(0..=100);
    Schema::object()
        .describe("Kubelet settings; anything else goes through userData.")
        .optional("clusterDNS", Schema::list(Schema::string()))
        .optional("cpuCFSQuota", Schema::boolean())
        .optional("evictionHard", thresholds("evictionHard"))
        .optional(
            "evictionMaxPodGracePeriod",
            Schema::int32().describe("Seconds a pod gets at most when a soft threshold evicts it."),
        )
        .optional("evictionSoft", thresholds("evictionSoft"))
        .optional("evictionSoftGracePeriod", signals("evictionSoftGracePeriod", Schema::string()))
        .optional("imageGCHighThresholdPercent", percent())
        .optional("imageGCLowThresholdPercent", percent())
        .optional("kubeReserved", reserved("kubeReserved"))
        .optional("maxPods", Schema::int32().within(0..))
        .optional("podsPerCore", Schema::int32().within(0..))
        .optional("systemReserved", reserved("systemReserved"))
        .rule(
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        )
        .rule(
            "has(self.evictionSoft) ? self.evictionSoft.all(e, e in self.evictionSoftGracePeriod) : true",
            "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod",
        )
        .rule(
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, e in self.evictionSoft) : true",
            "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft",
        )
}

fn reserved(field: &str) -> Schema {
    Schema::map(Schema::string().pattern(pattern::QUANTITY))
        .rule(
            "self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",
            &format!("valid keys for {field} are ['cpu','memory','ephemeral-storage','pid']"),
        )
        .rule(
            "self.all(x, !self[x].startsWith('-'))",
            &format!("{field} value cannot be a negative resource quantity"),
        )
}

fn thresholds(field: &str) -> Schema {
    signals(field, Schema::string().pattern(pattern::EVICTION_THRESHOLD))
}

fn signals(field: &str, value: Schema) -> Schema {
    Schema::map(value).rule(
        &format!("self.all(x, x in {SIGNALS})"),
        &format!("valid keys for {field} are {}", SIGNALS.replace(", ", ",")),
    )
}
