//! Resources and pods that the kubelet of a node will allow for, by the class and by the user's own user data.
//!
//! A user may reserve resources in a nodeadm `NodeConfig` or in Bottlerocket's settings instead of `spec.kubelet`
//! (aws#8367, aws#5104). Our own document is last and wins key by key, as nodeadm merges them and we merge settings of
//! Bottlerocket; flags of the kubelet win over all configuration, each with its whole value. Scripts cannot be read: what
//! they reserve is learnt from the first node. `maxPods` of a configuration counts where no document of ours follows.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{
    AmiFamily, Ec2NodeClassSpec, InstanceStorePolicy, KubeletBlock, KubeletConfiguration,
};
use serde_json::Value;

use super::{al2023, mime};

/// Settings of a node that its instance type and its class alone do not decide.
#[derive(Debug)]
pub struct Effective {
    /// Settings of the kubelet that the node is planned with.
    pub kubelet: KubeletConfiguration,
    /// True if the local disks of the node are its ephemeral storage.
    pub stripes_disks: bool,
}

/// Reads the class and its user data.
pub fn effective(family: AmiFamily, spec: &Ec2NodeClassSpec) -> Effective {
    let custom = spec.user_data.as_deref().unwrap_or_default();
    let configs = match family {
        AmiFamily::AL2023 => al2023::node_configs(custom),
        AmiFamily::Custom => verbatim(custom),
        AmiFamily::Bottlerocket
        | AmiFamily::AL2
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022
        | AmiFamily::Windows2025 => Vec::new(),
    };
    let kubelet = kubelet(family, custom, &configs, spec.kubelet.as_ref());
    Effective { kubelet, stripes_disks: stripes_disks(family, &configs, spec.instance_store_policy) }
}

/// A `NodeConfig` of the user may ask for it, too; the bootstrap script of Windows has no such option.
fn stripes_disks(family: AmiFamily, configs: &[Value], policy: Option<InstanceStorePolicy>) -> bool {
    if matches!(family, AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025) {
        return false;
    }
    let strategy = |config: &Value| Some(config.pointer("/spec/instance/localStorage/strategy")? == "RAID0");
    policy == Some(InstanceStorePolicy::RAID0)
        // The last document that has a strategy wins, as nodeadm merges them.
        || configs.iter().filter_map(strategy).next_back() == Some(true)
}

fn kubelet(
    family: AmiFamily,
    custom: &str,
    configs: &[Value],
    class: Option<&KubeletBlock>,
) -> KubeletConfiguration {
    let mut settings = Settings::default();
    for config in configs.iter().filter_map(|config| config.pointer("/spec/kubelet/config")) {
        settings.lay(&Settings::of(config, &KUBELET));
    }
    if matches!(family, AmiFamily::Bottlerocket | AmiFamily::Custom) {
        settings.lay(&bottlerocket(custom));
    }
    if family != AmiFamily::Custom {
        // Our own document comes last and has the planned number, so what the user's says has no effect.
        settings.kubelet.max_pods = None;
    }
    if let Some(class) = class {
        let cpus = class.fields().get(KUBELET.cpus).and_then(Value::as_str).map(str::to_owned);
        settings.lay(&Settings { kubelet: class.settings(), cpus });
    }
    for config in configs {
        settings.take_flags(config.pointer("/spec/kubelet/flags").and_then(Value::as_array));
    }
    settings.resolved()
}

/// Names of the settings in a format.
struct Names {
    system: &'static str,
    kube: &'static str,
    eviction: &'static str,
    cpus: &'static str,
    pods: &'static str,
    /// Bottlerocket has no such setting.
    pods_per_core: Option<&'static str>,
}

const KUBELET: Names = Names {
    system: "systemReserved",
    kube: "kubeReserved",
    eviction: "evictionHard",
    cpus: "reservedSystemCPUs",
    pods: "maxPods",
    pods_per_core: Some("podsPerCore"),
};

const BOTTLEROCKET: Names = Names {
    system: "system-reserved",
    kube: "kube-reserved",
    eviction: "eviction-hard",
    cpus: "reserved-cpus",
    pods: "max-pods",
    pods_per_core: None,
};

#[derive(Default)]
struct Settings {
    kubelet: KubeletConfiguration,
    /// List of CPUs that pods do not get, as `0-1,4`.
    cpus: Option<String>,
}

impl Settings {
    fn of(config: &Value, names: &Names) -> Self {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let map = |key: &str| {
            let fields = config.get(key)?.as_object()?;
            Some(fields.iter().map(|(name, value)| (name.clone(), text(value))).collect())
        };
        let number = |key: &str| text(config.get(key)?).parse().ok();
        let kubelet = KubeletConfiguration {
            system_reserved: map(names.system),
            kube_reserved: map(names.kube),
            eviction_hard: map(names.eviction),
            max_pods: number(names.pods),
            pods_per_core: names.pods_per_core.and_then(number),
            ..KubeletConfiguration::default()
        };
        Self { kubelet, cpus: config.get(names.cpus).map(text) }
    }

    /// Lays `over` on these: maps key by key.
    fn lay(&mut self, over: &Self) {
        let under = std::mem::take(&mut self.kubelet);
        let over_kubelet = over.kubelet.clone();
        self.kubelet = KubeletConfiguration {
            system_reserved: both(under.system_reserved, over_kubelet.system_reserved),
            kube_reserved: both(under.kube_reserved, over_kubelet.kube_reserved),
            eviction_hard: both(under.eviction_hard, over_kubelet.eviction_hard),
            max_pods: over_kubelet.max_pods.or(under.max_pods),
            pods_per_core: over_kubelet.pods_per_core.or(under.pods_per_core),
            ..over_kubelet
        };
        self.cpus = over.cpus.clone().or_else(|| self.cpus.take());
    }

    /// Applies the flags of a command line; a map of one replaces the whole map.
    fn take_flags(&mut self, flags: Option<&Vec<Value>>) {
        let words: Vec<&str> =
            flags.into_iter().flatten().filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
        for (index, word) in words.iter().enumerate() {
            let next = words.get(index + 1).copied().unwrap_or_default();
            let (flag, value) = word.split_once('=').unwrap_or((word, next));
            let value = value.trim_matches(['"', '\'']);
            match flag {
                "--system-reserved" => self.kubelet.system_reserved = Some(pairs(value, '=')),
                "--kube-reserved" => {
                    // What the flag does not name is not reserved: the image's own configuration is replaced, too.
                    let none =
                        ["cpu", "memory", "ephemeral-storage"].map(|name| (name.to_owned(), "0".to_owned()));
                    self.kubelet.kube_reserved = both(Some(none.into()), Some(pairs(value, '=')));
                }
                "--eviction-hard" => self.kubelet.eviction_hard = Some(pairs(value, '<')),
                "--reserved-cpus" => self.cpus = Some(value.to_owned()),
                "--max-pods" => self.kubelet.max_pods = value.parse().ok().or(self.kubelet.max_pods),
                "--pods-per-core" => {
                    self.kubelet.pods_per_core = value.parse().ok().or(self.kubelet.pods_per_core);
                }
                _ => {}
            }
        }
    }

    /// The settings as the kubelet resolves them: a list of CPUs replaces both amounts of `cpu`.
    fn resolved(mut self) -> KubeletConfiguration {
        if let Some(count) = self.cpus.as_deref().and_then(cpus) {
            let cpu = |count: u32| Some([("cpu".to_owned(), count.to_string())].into());
            self.kubelet.system_reserved = both(self.kubelet.system_reserved, cpu(count));
            self.kubelet.kube_reserved = both(self.kubelet.kube_reserved, cpu(0));
        }
        self.kubelet
    }
}

type Texts = BTreeMap<String, String>;

fn both(under: Option<Texts>, over: Option<Texts>) -> Option<Texts> {
    match (under, over) {
        (Some(mut under), Some(over)) => {
            under.extend(over);
            Some(under)
        }
        (under, over) => over.or(under),
    }
}

/// `cpu=100m,memory=1Gi`, or with `<` between signal and threshold.
fn pairs(text: &str, separator: char) -> Texts {
    let entries = text.split(',').filter_map(|entry| entry.split_once(separator));
    entries.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Number of CPUs of a list such as `0-1,4`; `None` for an empty or malformed one.
fn cpus(list: &str) -> Option<u32> {
    let mut all = std::collections::BTreeSet::new();
    for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
        all.extend(first..=last);
    }
    u32::try_from(all.len()).ok().filter(|count| *count > 0)
}

/// Settings of Bottlerocket as JSON; null for what is no TOML.
pub(super) fn settings_of_bottlerocket(custom: &str) -> Value {
    let document = custom.trim_start_matches('\u{feff}').parse::<toml::Table>().ok();
    document.and_then(|table| serde_json::to_value(table).ok()).unwrap_or_default()
}

fn bottlerocket(custom: &str) -> Settings {
    let document = settings_of_bottlerocket(custom);
    let config = document.pointer("/settings/kubernetes");
    config.map(|config| Settings::of(config, &BOTTLEROCKET)).unwrap_or_default()
}

/// Each `NodeConfig` of user data that is sent as it is: of each part, or of the text, nodeadm reads the first document.
fn verbatim(text: &str) -> Vec<Value> {
    let parts: Vec<String> = if mime::is_mime(text) {
        mime::parse(text).map(|parts| parts.into_iter().map(|part| part.body).collect()).unwrap_or_default()
    } else {
        vec![text.to_owned()]
    };
    let texts = parts.iter().filter(|part| !part.trim_start().starts_with("#!"));
    let documents = texts.filter_map(|part| al2023::first_document(part)?.ok());
    documents.filter(|document| document["kind"] == "NodeConfig").collect()
}

#[cfg(test)]
mod tests;
