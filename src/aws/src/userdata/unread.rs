//! Parts of a user's user data that are sent as they are, and that their reader on the node passes over or ends at: the
//! node joins without them, or does not join.
//!
//! nodeadm drops fields that it does not have without a word (<https://github.com/awslabs/amazon-eks-ami/issues/2553>,
//! <https://github.com/awslabs/amazon-eks-ami/issues/2123>); cloud-init does so with parts of a type that it does not handle.

use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, KubeletBlock};
use serde_json::Value;

use super::mime::Part;
use super::{al2, al2023, reserved};

/// Type of a field of a `NodeConfig`.
#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Switch,
    List,
    Object,
}

use Type::{List, Object, Switch, Text};

const VERSION: &str = "node.eks.aws/v1alpha1";

/// Objects of a `NodeConfig`, and the fields of each
/// (<https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/>).
const NODE_CONFIG: [(&str, &[(&str, Type)]); 7] = [
    ("", &[("apiVersion", Text), ("kind", Text), ("metadata", Object), ("spec", Object)]),
    (
        "/spec",
        &[
            ("cluster", Object),
            ("containerd", Object),
            ("featureGates", Object),
            ("instance", Object),
            ("kubelet", Object),
        ],
    ),
    (
        "/spec/cluster",
        &[
            ("apiServerEndpoint", Text),
            ("certificateAuthority", Text),
            ("cidr", Text),
            ("enableOutpost", Switch),
            ("id", Text),
            ("name", Text),
        ],
    ),
    ("/spec/containerd", &[("baseRuntimeSpec", Object), ("config", Text)]),
    ("/spec/instance", &[("environment", Object), ("localStorage", Object)]),
    ("/spec/instance/localStorage", &[("disabledMounts", List), ("mountPath", Text), ("strategy", Text)]),
    ("/spec/kubelet", &[("config", Object), ("flags", List), ("maxPodsExpression", Text)]),
];

/// Types of parts that cloud-init and nodeadm handle, besides compressed ones and archives.
const HANDLED: [&str; 14] = [
    "application/node.eks.aws",
    "text/cloud-boothook",
    "text/cloud-config",
    "text/cloud-config-archive",
    "text/cloud-config-jsonp",
    "text/jinja2",
    "text/part-handler",
    "text/plain",
    "text/upstart-job",
    "text/x-include-once-url",
    "text/x-include-url",
    "text/x-not-multipart",
    "text/x-shellscript",
    "",
];

/// Maps of Bottlerocket whose values are texts; settings with a value of another type are refused, all of them.
const TEXTS: [&str; 6] = [
    "node-labels",
    "kube-reserved",
    "system-reserved",
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
];

/// Returns what to say of a class whose user data has such parts; `None` of user data that is refused as a whole.
pub fn caveat(family: AmiFamily, spec: &Ec2NodeClassSpec) -> Option<String> {
    let custom = spec.user_data.as_deref();
    let said: Vec<String> = match family {
        AmiFamily::AL2 => of_parts(&al2::parts(custom).unwrap_or_default()),
        AmiFamily::AL2023 => {
            let configs = al2023::node_configs(custom.unwrap_or_default());
            let parts = of_parts(&al2023::parts(custom).unwrap_or_default());
            parts.into_iter().chain(configs.iter().flat_map(of_node_config)).collect()
        }
        AmiFamily::Bottlerocket => {
            of_settings(&reserved::settings_of_bottlerocket(custom.unwrap_or_default()))
        }
        AmiFamily::Custom | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            Vec::new()
        }
    };
    (!said.is_empty()).then(|| format!("user data: {}", said.join("; ")))
}

fn of_parts(parts: &[Part]) -> Vec<String> {
    // It may take parts of any type.
    let handles_all = parts.iter().any(|part| part.media_type() == "text/part-handler");
    parts.iter().filter_map(|part| of_part(part, handles_all)).collect()
}

fn of_part(part: &Part, handles_all: bool) -> Option<String> {
    if part.is_binary() {
        return None;
    }
    match part.media_type().as_str() {
        "text/x-shellscript" => (!part.body.trim_start().starts_with("#!"))
            .then(|| "a script has no first line `#!`, without which cloud-init does not run it".to_owned()),
        "text/cloud-config" => match al2023::first_document(&part.body)? {
            Ok(document) if document.is_object() || document.is_null() => None,
            Ok(_) => Some("`#cloud-config` has no fields, and cloud-init passes over it".to_owned()),
            Err(error) => {
                let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(format!("`#cloud-config` is no YAML, and cloud-init passes over it: {error}"))
            }
        },
        media => {
            let handled = handles_all || media.starts_with("multipart/") || HANDLED.contains(&media);
            (!handled).then(|| format!("cloud-init passes over a part of the type `{media}`"))
        }
    }
}

fn of_node_config(document: &Value) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(version) = document["apiVersion"].as_str().filter(|version| *version != VERSION) {
        said.push(format!("nodeadm ends at the apiVersion `{version}` of the NodeConfig, write {VERSION}"));
    }
    for (pointer, fields) in NODE_CONFIG {
        let object = document.pointer(pointer).and_then(Value::as_object);
        for (field, value) in object.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            let path = format!("{pointer}/{field}").trim_start_matches('/').replace('/', ".");
            match fields.iter().find(|(known, _)| known == field) {
                None => said.push(format!(
                    "nodeadm passes over `{path}` of the NodeConfig, a field that it does not have"
                )),
                Some((_, kind)) if !kind.holds(value) => {
                    said.push(format!(
                        "nodeadm ends at `{path}` of the NodeConfig, which has to be {}",
                        kind.text()
                    ));
                }
                Some(_) => {}
            }
        }
    }
    let config = document.pointer("/spec/kubelet/config").filter(|config| config.is_object());
    let config = config.and_then(|config| serde_json::from_value::<KubeletBlock>(config.clone()).ok());
    let unreadable = config.map(|config| config.unreadable()).unwrap_or_default();
    said.extend(unreadable.into_iter().map(|why| format!("spec.kubelet.config of the NodeConfig: {why}")));
    said
}

impl Type {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Switch => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Switch => "true or false",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

fn of_settings(document: &Value) -> Vec<String> {
    let others =
        document.as_object().into_iter().flatten().map(|(key, _)| key).filter(|key| *key != "settings");
    let mut said: Vec<String> =
        others.map(|key| format!("Bottlerocket passes over `{key}`, which is not in `settings`")).collect();
    let kubernetes = &document["settings"]["kubernetes"];
    for map in TEXTS {
        let entries = kubernetes[map].as_object().into_iter().flatten();
        said.extend(entries.filter(|(_, value)| !value.is_string()).map(|(key, value)| {
            format!(
                "Bottlerocket does not boot with settings.kubernetes.{map}.{key}, write \"{value}\" as a text"
            )
        }));
    }
    if kubernetes["standalone-mode"] == Value::Bool(true) {
        said.push("settings.kubernetes.standalone-mode keeps nodes from joining the cluster".to_owned());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n";

    fn said(family: AmiFamily, custom: &str) -> String {
        let spec = Ec2NodeClassSpec { user_data: Some(custom.to_owned()), ..Default::default() };
        caveat(family, &spec).unwrap_or_default()
    }

    /// awslabs/amazon-eks-ami#2553, #2123
    #[test]
    fn fields_of_a_node_config_that_nodeadm_does_not_read_are_named() {
        for (spec, expected) in [
            (
                "  kubelet: {config: {podsPerCore: 3, evictionSoft: {memory.available: 1Gi}}, flags: [--v=2]}\n",
                "",
            ),
            ("  instance: {localStorage: {strategy: RAID0, disabledMounts: [PodLogs]}}\n", ""),
            ("  cluster: {name: a, apiServerEndpoint: b, certificateAuthority: c, cidr: d}\n", ""),
            ("  featureGates: {FastImagePull: true}\n  containerd: {config: '[plugins]'}\n", ""),
            (
                "  kubelet:\n    config: {kind: KubeletConfiguration, apiVersion: kubelet.config.k8s.io/v1beta1}\n",
                "",
            ),
            (
                "  unknownattr: true\n",
                "nodeadm passes over `spec.unknownattr` of the NodeConfig, a field that it does not have",
            ),
            ("  kubelet: {confg: {maxPods: 3}}\n", "nodeadm passes over `spec.kubelet.confg` of"),
            (
                "  kubelet: {flags: --v=2}\n",
                "nodeadm ends at `spec.kubelet.flags` of the NodeConfig, which has to be a list",
            ),
            (
                "  kubelet: {config: {maxPod: 3}}\n",
                "spec.kubelet.config of the NodeConfig: unknown field \"maxPod\"",
            ),
            (
                "  kubelet: {config: {kubeReserved: {cpu: 1}}}\n",
                "spec.kubelet.config of the NodeConfig: kubeReserved",
            ),
            ("Spec: {}\n", "nodeadm passes over `Spec` of"),
        ] {
            let said = said(AmiFamily::AL2023, &format!("{CONFIG}{spec}"));
            assert_eq!(said.is_empty(), expected.is_empty(), "{spec}: {said}");
            assert!(said.contains(expected), "{spec}: {said}");
        }
        let newer = said(AmiFamily::AL2023, &CONFIG.replace("v1alpha1", "v1"));
        assert!(newer.contains("nodeadm ends at the apiVersion `node.eks.aws/v1`"), "{newer}");
    }

    #[test]
    fn parts_that_cloud_init_passes_over_are_named() {
        let part = |kind: &str, text: &str| {
            format!(
                "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: {kind}\n\n{text}\n--B--\n"
            )
        };
        for family in [AmiFamily::AL2, AmiFamily::AL2023] {
            for (custom, expected) in [
                ("#!/bin/bash\necho a\n".to_owned(), ""),
                (String::new(), ""),
                ("#cloud-config\nruncmd: [echo]\n".to_owned(), ""),
                ("#cloud-config\n".to_owned(), ""),
                (part("text/plain", "#!/bin/bash"), ""),
                (part("text/x-shellscript", "#!/bin/bash"), ""),
                ("echo a\n".to_owned(), "no first line `#!`"),
                ("#cloud-config\nruncmd: [echo\n".to_owned(), "is no YAML"),
                ("#cloud-config\n- a\n".to_owned(), "has no fields"),
                (part("text/x-shell-script", "#!/bin/bash"), "of the type `text/x-shell-script`"),
            ] {
                let said = said(family, &custom);
                assert_eq!(said.is_empty(), expected.is_empty(), "{family:?} {custom}: {said}");
                assert!(said.contains(expected), "{family:?} {custom}: {said}");
            }
        }
    }

    #[test]
    fn settings_that_bottlerocket_does_not_take_are_named() {
        for (custom, expected) in [
            ("[settings.kubernetes.node-labels]\nteam = 'a'\n", ""),
            ("[settings.kubernetes]\nlog-level = 2\n", ""),
            ("not TOML", ""),
            ("[setting.kubernetes]\nlog-level = 2\n", "`setting`, which is not in `settings`"),
            ("[settings.kubernetes.node-labels]\nteam = 1\n", "node-labels.team, write \"1\" as a text"),
            ("[settings.kubernetes.kube-reserved]\ncpu = 1\n", "kube-reserved.cpu, write"),
            ("[settings.kubernetes]\nstandalone-mode = true\n", "standalone-mode keeps nodes from joining"),
        ] {
            let said = said(AmiFamily::Bottlerocket, custom);
            assert_eq!(said.is_empty(), expected.is_empty(), "{custom}: {said}");
            assert!(said.contains(expected), "{custom}: {said}");
        }
    }
}
