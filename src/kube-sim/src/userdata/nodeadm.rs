//! `NodeConfig` of AL2023: YAML or JSON, merged over parts, kubelet settings as configuration and as flags.

use std::collections::BTreeMap;

use karpenter_model::taint::{Effect, Taint};
use serde_json::Value;

use super::{Bootstrap, Error, flags};
use crate::apiserver::{
    object::{list, text},
    patch::merge,
};

/// The configuration in `body`; `None` when it is something else.
pub(super) fn read(body: &str) -> Result<Option<Value>, Error> {
    if !body.contains("node.eks.aws") || body.starts_with("#!") {
        return Ok(None);
    }
    let config: Value =
        serde_saphyr::from_str(body).map_err(|error| Error::Nodeadm { why: error.to_string() })?;
    let is_config =
        text(&config, "/apiVersion").starts_with("node.eks.aws/") && text(&config, "/kind") == "NodeConfig";
    Ok(is_config.then_some(config))
}

/// `before` with `after` merged in; flags of both are kept, those of `after` last.
pub(super) fn merged(before: &Value, after: &Value) -> Value {
    let mut result = merge::merged(before, after);
    let both = [before, after].map(|config| list(config, "/spec/kubelet/flags"));
    if let Some(flags) = result.pointer_mut("/spec/kubelet/flags") {
        *flags = both.concat().into();
    }
    result
}

/// Reads the configuration.
pub(super) fn bootstrap(config: &Value) -> Bootstrap {
    let kubelet = |name: &str| config.pointer(&format!("/spec/kubelet/config/{name}"));
    let number = |name: &str| kubelet(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let map = |name: &str| kubelet(name).map(texts).unwrap_or_default();
    let mut bootstrap = Bootstrap {
        cluster_name: text(config, "/spec/cluster/name").to_owned(),
        max_pods: number("maxPods"),
        pods_per_core: number("podsPerCore"),
        kube_reserved: map("kubeReserved"),
        system_reserved: map("systemReserved"),
        reserved_cpus: kubelet("reservedSystemCPUs").and_then(Value::as_str).and_then(super::cpus),
        eviction_hard: map("evictionHard"),
        taints: list(config, "/spec/kubelet/config/registerWithTaints").iter().filter_map(taint).collect(),
        local_disks: !text(config, "/spec/instance/localStorage/strategy").is_empty(),
        ..Bootstrap::default()
    };
    let dns = list(config, "/spec/kubelet/config/clusterDNS").iter().filter_map(Value::as_str);
    bootstrap.cluster_dns = dns.map(str::to_owned).collect();
    for line in list(config, "/spec/kubelet/flags").iter().filter_map(Value::as_str) {
        flags::apply(&flags::words(line), &mut bootstrap);
    }
    bootstrap
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_owned))).collect()
}

fn taint(entry: &Value) -> Option<Taint> {
    Some(Taint::new(text(entry, "/key"), text(entry, "/value"), Effect::parse(text(entry, "/effect"))?))
}
