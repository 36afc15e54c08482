//! Bottlerocket: settings in TOML, ours laid over the `NodeClass`'s (spec aws-provider 6.9).
//!
//! All that the user sets and we do not is passed on as it is, known to us or not: the set of settings is the
//! image's matter, and a setting that is dropped is one that its user believes in (aws#8126, bottlerocket#4754).

use std::collections::BTreeMap;
use std::fmt::Display;

use toml::{Table, Value};

use super::{Bootstrap, Error, cloud_init, settings_text};

/// Renders the settings document.
///
/// # Errors
/// [`Error::Toml`] when the `NodeClass`'s user data is not TOML, [`Error::Unread`] when it is for cloud-init.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut document: Table = match bootstrap.custom.as_deref() {
        None | Some("") => Table::new(),
        Some(text) => {
            let text = text.trim_start_matches('\u{feff}');
            // Its first line is a comment in TOML, too, and so may be all others.
            if cloud_init::first_line(text).is_some() {
                let why = "it is for cloud-init, which Bottlerocket does not have; write settings in TOML";
                return Err(Error::Unread(why.to_owned()));
            }
            text.parse().map_err(|error: toml::de::Error| Error::Toml(error.to_string()))?
        }
    };
    let settings = table_of(&mut document, "settings", "settings")?;
    let kubernetes = table_of(settings, "kubernetes", "settings.kubernetes")?;
    overlay(kubernetes, bootstrap)?;
    if bootstrap.raid0 {
        mount_instance_storage(settings, bootstrap.bottlerocket_binds_directories)?;
    }
    Ok(settings_text::write(&document))
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
    // Replaced as a whole, unlike the labels: a taint of the user is one that no pod is planned for (spec
    // aws-provider 6.9).
    kubernetes.insert("node-taints".to_owned(), Value::Table(taints(bootstrap)));
    if let Some(pods) = kubelet.max_pods {
        set(kubernetes, "max-pods", i64::from(pods));
    }
    if let Some(ip) = kubelet.cluster_dns.as_ref().and_then(|servers| servers.first()) {
        set(kubernetes, "cluster-dns-ip", ip.clone());
    }
    set_map(kubernetes, "system-reserved", kubelet.system_reserved.as_ref())?;
    set_map(kubernetes, "kube-reserved", kubelet.kube_reserved.as_ref())?;
    set_map(kubernetes, "eviction-hard", kubelet.eviction_hard.as_ref())?;
    set_map(kubernetes, "eviction-soft", kubelet.eviction_soft.as_ref())?;
    set_map(kubernetes, "eviction-soft-grace-period", kubelet.eviction_soft_grace_period.as_ref())?;
    if let Some(seconds) = kubelet.eviction_max_pod_grace_period {
        set(kubernetes, "eviction-max-pod-grace-period", i64::from(seconds));
    }
    // Bottlerocket takes the percentages as text.
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

/// Lays a map over that of the user, key by key, as nodeadm does.
fn set_map<V: Display>(
    kubernetes: &mut Table,
    key: &str,
    values: Option<&BTreeMap<String, V>>,
) -> Result<(), Error> {
    let Some(values) = values.filter(|values| !values.is_empty()) else { return Ok(()) };
    let table = table_of(kubernetes, key, &format!("settings.kubernetes.{key}"))?;
    for (name, value) in values {
        set(table, name, value.to_string());
    }
    Ok(())
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
    // A boot whose commands fail fails: the node must not join without the storage that it is planned with.
    set(&mut command, "essential", true);
    let commands = vec![words(&["apiclient", "ephemeral-storage", "init"]), words(&bind)];
    command.insert("commands".to_owned(), Value::Array(commands));
    let all = table_of(settings, "bootstrap-commands", "settings.bootstrap-commands")?;
    all.insert("000-mount-instance-storage".to_owned(), Value::Table(command));
    Ok(())
}

/// Returns whether an image of this version binds only the directories it is given; unknown counts as old.
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
