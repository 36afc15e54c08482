//! Kubelet settings, which were part of the pool and are part of the class in v1.
//!
//! A class that pools with different settings use is copied, once for each of the further settings. That happens
//! when all objects have been read; here they are only read.

use std::collections::BTreeMap;

use karpenter_api::Duration;
use karpenter_api::ec2nodeclass::KubeletConfiguration;

use crate::fields::{Fields, Found};
use crate::log::{Kind, Log};

/// The settings in field `name`; `None` if it sets nothing that v1 has.
pub(crate) fn read(
    fields: &mut Fields,
    name: &'static str,
    log: &Log,
) -> Option<Found<KubeletConfiguration>> {
    let found = fields.take(name)?;
    let (path, line) = (found.path.clone(), found.line);
    let mut fields = Fields::of(found, log);
    if let Some(runtime) = fields.read::<String>("containerRuntime") {
        let (kind, text) = match runtime.value.as_str() {
            "containerd" => (Kind::Noted, "left out: containerd is the only runtime".to_owned()),
            other => (Kind::Dropped, format!("`{other}` is gone: every image runs containerd")),
        };
        log.at(kind, &runtime.path, runtime.line, text);
    }
    let configuration = KubeletConfiguration {
        cluster_dns: value(&mut fields, "clusterDNS"),
        max_pods: value(&mut fields, "maxPods"),
        pods_per_core: value(&mut fields, "podsPerCore"),
        system_reserved: texts(&mut fields, "systemReserved"),
        kube_reserved: texts(&mut fields, "kubeReserved"),
        eviction_hard: texts(&mut fields, "evictionHard"),
        eviction_soft: texts(&mut fields, "evictionSoft"),
        eviction_soft_grace_period: texts(&mut fields, "evictionSoftGracePeriod").map(durations),
        eviction_max_pod_grace_period: value(&mut fields, "evictionMaxPodGracePeriod"),
        image_gc_high_threshold_percent: value(&mut fields, "imageGCHighThresholdPercent"),
        image_gc_low_threshold_percent: value(&mut fields, "imageGCLowThresholdPercent"),
        cpu_cfs_quota: value(&mut fields, "cpuCFSQuota"),
    };
    fields.finish();
    let is_set = configuration != KubeletConfiguration::default();
    is_set.then_some(Found { path, line, value: configuration })
}

fn value<T>(fields: &mut Fields, name: &'static str) -> Option<T>
where
    T: serde::de::DeserializeOwned + serde::Serialize,
{
    fields.read::<T>(name).map(|found| found.value)
}

/// Amounts, which v1 wants as texts.
fn texts(fields: &mut Fields, name: &'static str) -> Option<BTreeMap<String, String>> {
    let found = fields.texts(name)?;
    Some(found.value.into_iter().map(|(key, value)| (key, value.value)).collect())
}

fn durations(texts: BTreeMap<String, String>) -> BTreeMap<String, Duration> {
    texts.into_iter().map(|(signal, text)| (signal, Duration::from(text.as_str()))).collect()
}
