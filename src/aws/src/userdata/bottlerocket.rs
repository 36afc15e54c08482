//! Bottlerocket: settings in TOML, ours laid over the `NodeClass`'s (spec aws-provider 6.9).
//!
//! Tables other than `settings.kubernetes` are the user's and pass through untouched. Under
//! `settings.kubernetes` only keys known to the settings API are kept, since one unknown key makes the host
//! refuse the whole document and the node never joins.

use std::collections::BTreeMap;
use std::fmt::Display;

use toml::{Table, Value};

use super::{Bootstrap, Error};

/// Keys of `settings.kubernetes` a user may set; everything else there is dropped.
const KNOWN: [&str; 48] = [
    "allowed-unsafe-sysctls",
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "container-log-max-files",
    "container-log-max-size",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "cpu-cfs-quota-enforced",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "credential-providers",
    "device-ownership-from-security-context",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-max-pod-grace-period",
    "eviction-soft",
    "eviction-soft-grace-period",
    "hostname-override-source",
    "ids-per-pod",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "log-level",
    "max-pods",
    "memory-manager-policy",
    "node-labels",
    "node-taints",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
    "seccomp-default",
    "server-tls-bootstrap",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "single-process-oom-kill",
    "static-pods",
    "system-reserved",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "topology-manager-scope",
];

/// Renders the settings document.
///
/// # Errors
/// [`Error::Toml`] when the `NodeClass`'s user data is not TOML.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut document: Table = match bootstrap.custom.as_deref() {
        None | Some("") => Table::new(),
        Some(text) => text.parse().map_err(|error: toml::de::Error| Error::Toml(error.to_string()))?,
    };
    let settings = table_of(&mut document, "settings", "settings")?;
    let kubernetes = table_of(settings, "kubernetes", "settings.kubernetes")?;
    kubernetes.retain(|key, _| {
        let known = KNOWN.contains(&key);
        if !known {
            tracing::warn!(key = %format!("settings.kubernetes.{key}"), "dropped unknown bottlerocket setting");
        }
        known
    });
    overlay(kubernetes, bootstrap)?;
    if bootstrap.raid0 {
        mount_instance_storage(settings, bootstrap.bottlerocket_binds_directories)?;
    }
    toml::to_string(&document).map_err(|error| Error::Encode { format: "TOML", reason: error.to_string() })
}

fn table_of<'a>(parent: &'a mut Table, key: &str, path: &str) -> Result<&'a mut Table, Error> {
    parent
        .entry(key)
        .or_insert_with(|| Value::Table(Table::new()))
        .as_table_mut()
        .ok_or_else(|| Error::Toml(format!("`{path}` is not a table")))
}

fn overlay(kubernetes: &mut Table, bootstrap: &Bootstrap) -> Result<(), Error> {
    let kubelet = &bootstrap.kubelet;
    set(kubernetes, "api-server", bootstrap.cluster_endpoint.clone());
    set(kubernetes, "cluster-name", bootstrap.cluster_name.clone());
    if let Some(ca) = &bootstrap.ca_bundle {
        set(kubernetes, "cluster-certificate", ca.clone());
    }
    let labels = table_of(kubernetes, "node-labels", "settings.kubernetes.node-labels")?;
    for (key, value) in &bootstrap.labels {
        set(labels, key, value.clone());
    }
    kubernetes.insert("node-taints".to_owned(), Value::Table(taints(bootstrap)));
    if let Some(pods) = kubelet.max_pods {
        set(kubernetes, "max-pods", i64::from(pods));
    }
    if let Some(ip) = kubelet.cluster_dns.as_ref().and_then(|servers| servers.first()) {
        set(kubernetes, "cluster-dns-ip", ip.clone());
    }
    set_map(kubernetes, "system-reserved", kubelet.system_reserved.as_ref());
    set_map(kubernetes, "kube-reserved", kubelet.kube_reserved.as_ref());
    set_map(kubernetes, "eviction-hard", kubelet.eviction_hard.as_ref());
    set_map(kubernetes, "eviction-soft", kubelet.eviction_soft.as_ref());
    set_map(kubernetes, "eviction-soft-grace-period", kubelet.eviction_soft_grace_period.as_ref());
    if let Some(seconds) = kubelet.eviction_max_pod_grace_period {
        set(kubernetes, "eviction-max-pod-grace-period", i64::from(seconds));
    }
    // Bottlerocket wants the percentages as text.
    if let Some(percent) = kubelet.image_gc_high_threshold_percent {
        set(kubernetes, "image-gc-high-threshold-percent", percent.to_string());
    }
    if let Some(percent) = kubelet.image_gc_low_threshold_percent {
        set(kubernetes, "image-gc-low-threshold-percent", percent.to_string());
    }
    if let Some(enforced) = kubelet.cpu_cfs_quota {
        set(kubernetes, "cpu-cfs-quota-enforced", enforced);
    }
    Ok(())
}

fn set(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn set_map<V: Display>(table: &mut Table, key: &str, values: Option<&BTreeMap<String, V>>) {
    if let Some(values) = values.filter(|values| !values.is_empty()) {
        let entries = values.iter().map(|(k, v)| (k.clone(), Value::String(v.to_string()))).collect();
        table.insert(key.to_owned(), Value::Table(entries));
    }
}

/// Taint key to the list of `value:effect`; a taint without value is `:effect`.
fn taints(bootstrap: &Bootstrap) -> Table {
    let mut by_key: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for taint in &bootstrap.taints {
        let text = format!("{}:{}", taint.value, taint.effect);
        by_key.entry(&taint.key).or_default().push(Value::String(text));
    }
    by_key.into_iter().map(|(key, values)| (key.to_owned(), Value::Array(values))).collect()
}

/// Formats and mounts the instance store at boot. Images before 1.46.0 need the directories to bind.
fn mount_instance_storage(settings: &mut Table, binds_directories: bool) -> Result<(), Error> {
    let words = |command: &[&str]| Value::Array(command.iter().map(|w| Value::from(*w)).collect());
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if binds_directories {
        bind.extend(["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]);
    }
    let mut command = Table::new();
    set(&mut command, "mode", "always");
    set(&mut command, "essential", true);
    let commands = vec![words(&["apiclient", "ephemeral-storage", "init"]), words(&bind)];
    command.insert("commands".to_owned(), Value::Array(commands));
    let all = table_of(settings, "bootstrap-commands", "settings.bootstrap-commands")?;
    all.insert("000-mount-instance-storage".to_owned(), Value::Table(command));
    Ok(())
}

/// Whether an image of this version binds only the directories it is given; unknown counts as old.
///
/// `latest` is new. Anything that is not at least three dotted numbers is old.
pub(crate) fn binds_directories(version: Option<&str>) -> bool {
    let Some(version) = version else { return true };
    let version = version.trim_start_matches('v');
    if version == "latest" {
        return false;
    }
    let numbers: Option<Vec<u64>> = version.split('.').take(3).map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some([major, minor, _patch]) => (*major, *minor) < (1, 46),
        _ => true,
    }
}
