//! Resources that the kubelet of a node will keep back, by the class and by the user's own user data.
//!
//! A user may reserve resources in a nodeadm `NodeConfig` or in Bottlerocket's settings instead of `spec.kubelet`
//! (aws#8367, aws#5104). Our own document is last and wins key by key, as nodeadm and Bottlerocket merge them. Scripts
//! cannot be read: what they reserve is learnt from the first node. `maxPods` is not among it: our document always has it.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{AmiFamily, KubeletConfiguration};
use serde_json::Value;

use super::mime;

/// The kubelet block of the class, laid over what the user data of the class sets.
pub fn kubelet(
    family: AmiFamily,
    custom: Option<&str>,
    class: Option<&KubeletConfiguration>,
) -> KubeletConfiguration {
    let mut effective = KubeletConfiguration::default();
    let custom = custom.unwrap_or_default();
    match family {
        AmiFamily::AL2023 | AmiFamily::Custom => {
            for config in node_configs(custom) {
                let Some(config) = config.pointer("/spec/kubelet/config") else { continue };
                lay_over(&mut effective, &read(config, ["systemReserved", "kubeReserved", "evictionHard"]));
            }
        }
        AmiFamily::Bottlerocket => {
            let document = custom.parse::<toml::Table>().ok();
            let document = document.and_then(|table| serde_json::to_value(table).ok()).unwrap_or_default();
            if let Some(config) = document.pointer("/settings/kubernetes") {
                lay_over(
                    &mut effective,
                    &read(config, ["system-reserved", "kube-reserved", "eviction-hard"]),
                );
            }
        }
        AmiFamily::AL2 | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {}
    }
    if let Some(class) = class {
        lay_over(&mut effective, class);
    }
    effective
}

/// Every `NodeConfig` of a text that is one or more YAML documents, or a MIME archive of such texts.
fn node_configs(text: &str) -> Vec<Value> {
    let parts: Vec<String> = if mime::is_mime(text) {
        mime::parse(text).map(|parts| parts.into_iter().map(|part| part.body).collect()).unwrap_or_default()
    } else {
        vec![text.to_owned()]
    };
    let scripts = |part: &String| !part.trim_start().starts_with("#!");
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let mut configs = Vec::new();
    for part in parts.iter().filter(|part| scripts(part)) {
        let mut bytes = part.as_bytes();
        let documents = serde_saphyr::read_with_options::<_, Value>(&mut bytes, options.clone());
        // The first document that is no YAML ends what nodeadm reads too.
        configs.extend(documents.map_while(Result::ok).filter(|document| document["kind"] == "NodeConfig"));
    }
    configs
}

/// The three settings under these names, in the order system, kube, eviction.
fn read(config: &Value, [system, kube, eviction]: [&str; 3]) -> KubeletConfiguration {
    let map = |key: &str| {
        let fields = config.get(key)?.as_object()?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(fields.iter().map(|(name, value)| (name.clone(), text(value))).collect::<BTreeMap<_, _>>())
    };
    KubeletConfiguration {
        system_reserved: map(system),
        kube_reserved: map(kube),
        eviction_hard: map(eviction),
        ..KubeletConfiguration::default()
    }
}

/// Lays `over` on `under`: maps key by key.
fn lay_over(under: &mut KubeletConfiguration, over: &KubeletConfiguration) {
    let maps = |under: Option<BTreeMap<String, String>>, over: &Option<BTreeMap<String, String>>| match over {
        None => under,
        Some(over) => {
            let mut both = under.unwrap_or_default();
            both.extend(over.clone());
            Some(both)
        }
    };
    *under = KubeletConfiguration {
        system_reserved: maps(under.system_reserved.take(), &over.system_reserved),
        kube_reserved: maps(under.kube_reserved.take(), &over.kube_reserved),
        eviction_hard: maps(under.eviction_hard.take(), &over.eviction_hard),
        ..over.clone()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(map: Option<&BTreeMap<String, String>>) -> String {
        let pairs = map.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    }

    /// System, kube and eviction of a user's user data under an empty class.
    fn read_from(family: AmiFamily, custom: &str) -> [String; 3] {
        let kubelet = kubelet(family, Some(custom), None);
        [kubelet.system_reserved, kubelet.kube_reserved, kubelet.eviction_hard].map(|map| pairs(map.as_ref()))
    }

    const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      \
        systemReserved: {memory: 6Gi}\n      kubeReserved: {cpu: 1}\n      evictionHard: {memory.available: 5%}\n";

    #[test]
    fn what_a_node_config_reserves_counts_wherever_it_stands() {
        let expected = ["memory=6Gi", "cpu=1", "memory.available=5%"];
        let archive = format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: \
             text/x-shellscript\n\n#!/bin/sh\necho kind: NodeConfig\n--b\nContent-Type: \
             application/node.eks.aws\n\n{NODE_CONFIG}\n--b--\n"
        );
        let second_document = format!("kind: Other\n---\n{NODE_CONFIG}");
        for custom in [NODE_CONFIG, &archive, &second_document] {
            assert_eq!(read_from(AmiFamily::AL2023, custom), expected, "{custom}");
            assert_eq!(read_from(AmiFamily::Custom, custom), expected, "{custom}");
        }
        let none = ["", "", ""];
        for (family, custom) in [
            (AmiFamily::AL2023, ""),
            (AmiFamily::AL2023, "#!/bin/sh\nkind: NodeConfig\n"),
            (AmiFamily::AL2023, "{not yaml"),
            (AmiFamily::AL2, NODE_CONFIG),
            (AmiFamily::Bottlerocket, NODE_CONFIG),
        ] {
            assert_eq!(read_from(family, custom), none, "{custom}");
        }
    }

    #[test]
    fn what_bottlerocket_settings_reserve_counts() {
        let custom = "[settings.kubernetes.system-reserved]\nmemory = \"6Gi\"\n\
            [settings.kubernetes.eviction-hard]\n\"memory.available\" = \"5%\"\n";
        let expected = ["memory=6Gi", "", "memory.available=5%"];
        assert_eq!(read_from(AmiFamily::Bottlerocket, custom), expected);
    }

    #[test]
    fn the_class_wins_key_by_key() {
        let map = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let class = KubeletConfiguration {
            system_reserved: map(&[("memory", "1Gi"), ("cpu", "2")]),
            ..KubeletConfiguration::default()
        };
        let kubelet = kubelet(AmiFamily::AL2023, Some(NODE_CONFIG), Some(&class));
        assert_eq!(pairs(kubelet.system_reserved.as_ref()), "cpu=2,memory=1Gi");
        assert_eq!(pairs(kubelet.kube_reserved.as_ref()), "cpu=1");
    }
}
