//! Settings of Bottlerocket.

use std::collections::BTreeMap;

use karpenter_model::taint::{Effect, Taint};
use toml::{Table, Value};

use super::{Bootstrap, Error, Image};

/// Reads the settings.
pub(super) fn parse(text: &str) -> Result<Bootstrap, Error> {
    let settings: Table =
        text.parse().map_err(|error: toml::de::Error| Error::Bottlerocket { why: error.to_string() })?;
    let kubernetes = settings.get("settings").and_then(|s| s.get("kubernetes")).and_then(Value::as_table);
    let kubernetes = kubernetes.ok_or(Error::NoBootstrap)?;
    let map = |name: &str| kubernetes.get(name).map(texts).unwrap_or_default();
    let number = |name: &str| {
        let value = kubernetes.get(name)?;
        value.as_integer().and_then(|n| u32::try_from(n).ok()).or_else(|| value.as_str()?.parse().ok())
    };
    let dns = match kubernetes.get("cluster-dns-ip") {
        Some(Value::Array(list)) => list.iter().map(shown).collect(),
        Some(one) => vec![shown(one)],
        None => Vec::new(),
    };
    Ok(Bootstrap {
        image: Image::Bottlerocket,
        cluster_name: kubernetes.get("cluster-name").map(shown).unwrap_or_default(),
        labels: map("node-labels"),
        taints: kubernetes.get("node-taints").map(taints).unwrap_or_default(),
        max_pods: number("max-pods"),
        pods_per_core: None,
        kube_reserved: map("kube-reserved"),
        system_reserved: map("system-reserved"),
        reserved_cpus: kubernetes.get("reserved-cpus").and_then(Value::as_str).and_then(super::cpus),
        eviction_hard: map("eviction-hard"),
        cluster_dns: dns,
        local_disks: text.contains("ephemeral-storage"),
    })
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    value.as_table().into_iter().flatten().map(|(name, value)| (name.clone(), shown(value))).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `key = ["value:Effect", ...]`; an empty value gives `:Effect`.
fn taints(value: &Value) -> Vec<Taint> {
    let mut found = Vec::new();
    for (key, entries) in value.as_table().into_iter().flatten() {
        let entries = match entries {
            Value::Array(list) => list.iter().map(shown).collect(),
            one => vec![shown(one)],
        };
        for entry in entries {
            let (value, effect) = entry.split_once(':').unwrap_or(("", &entry));
            found.extend(Effect::parse(effect).map(|effect| Taint::new(key, value, effect)));
        }
    }
    found
}
