//! Settings of a user's user data that have no effect, because ours replace them, and one that replaces ours: a flag of the
//! kubelet wins over all configuration.
//!
//! The number of pods is planned, and taints are those of the NodePool: a node with others would not be what its claim
//! promises. The reference replaces them without a word.

use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, KubeletBlock};
use serde_json::Value;

use super::{al2023, reserved};

/// Setting as its user wrote it, and the field that has an effect.
type Setting = (&'static str, &'static str);

const POINTERS: [(AmiFamily, &str, Setting); 4] = [
    (
        AmiFamily::AL2023,
        "/spec/kubelet/config/maxPods",
        ("spec.kubelet.config.maxPods of the NodeConfig", "spec.kubelet.maxPods"),
    ),
    (
        AmiFamily::AL2023,
        "/spec/kubelet/config/registerWithTaints",
        (
            "spec.kubelet.config.registerWithTaints of the NodeConfig",
            "taints in the template of the NodePool",
        ),
    ),
    (
        AmiFamily::Bottlerocket,
        "/settings/kubernetes/max-pods",
        ("settings.kubernetes.max-pods", "spec.kubelet.maxPods"),
    ),
    (
        AmiFamily::Bottlerocket,
        "/settings/kubernetes/node-taints",
        ("settings.kubernetes.node-taints", "taints in the template of the NodePool"),
    ),
];

/// Places of the name of the cluster that a node is to join, and the names of these places.
const CLUSTERS: [(AmiFamily, &str, &str); 2] = [
    (AmiFamily::AL2023, "/spec/cluster/name", "spec.cluster of the NodeConfig"),
    (AmiFamily::Bottlerocket, "/settings/kubernetes/cluster-name", "settings.kubernetes.cluster-name"),
];

/// Returns what to say of a class whose user data has such settings: the settings, and where to write them instead. `cluster` is
/// the name of the controller's cluster; `None` if that is not known.
pub fn caveat(family: AmiFamily, spec: &Ec2NodeClassSpec, cluster: Option<&str>) -> Option<String> {
    let custom = spec.user_data.as_deref().unwrap_or_default();
    let documents = match family {
        AmiFamily::AL2023 => al2023::node_configs(custom),
        AmiFamily::Bottlerocket => vec![reserved::settings_of_bottlerocket(custom)],
        AmiFamily::AL2
        | AmiFamily::Custom
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022
        | AmiFamily::Windows2025 => Vec::new(),
    };
    let of_class = spec.kubelet.as_ref().map(KubeletBlock::settings).and_then(|kubelet| kubelet.max_pods);
    let said: Vec<String> = POINTERS
        .iter()
        .filter(|(of, ..)| *of == family)
        .filter_map(|(_, pointer, setting)| {
            let value = documents.iter().filter_map(|document| document.pointer(pointer)).next_back()?;
            (!is_same(value, of_class)).then_some(setting)
        })
        .map(|(setting, instead)| format!("{setting} has no effect, write {instead}"))
        .chain(replaces_taints(&documents))
        .chain(other_cluster(family, &documents, cluster))
        .collect();
    (!said.is_empty()).then(|| format!("user data: {}", said.join("; ")))
}

/// Nodes then have other taints than their claims, so pods do not use them, and are ready before they are initialized.
fn replaces_taints(documents: &[Value]) -> Option<String> {
    let flags = documents.iter().filter_map(|document| document.pointer("/spec/kubelet/flags")?.as_array());
    let mut flags = flags.flatten().filter_map(Value::as_str);
    flags.any(|flag| flag.trim_start().starts_with("--register-with-taints")).then(|| {
        "the flag --register-with-taints of the NodeConfig takes off the taints of the NodePool and adds others that no pod \
         is planned for, write taints in the template of the NodePool"
            .to_owned()
    })
}

/// A node that is moved to another cluster by its user data would be one that its claim waits for in vain.
fn other_cluster(family: AmiFamily, documents: &[Value], cluster: Option<&str>) -> Option<String> {
    // A manifest alone does not show which cluster is meant.
    let cluster = cluster?;
    let (_, pointer, setting) = CLUSTERS.iter().find(|(of, ..)| *of == family)?;
    let mut names = documents.iter().filter_map(|document| document.pointer(pointer)?.as_str());
    let name = names.rfind(|name| !name.is_empty() && *name != cluster)?;
    Some(format!("{setting} names the cluster `{name}` and has no effect, nodes join `{cluster}`"))
}

/// Returns whether a value is the number of pods that the class states, too.
fn is_same(value: &Value, max_pods: Option<i32>) -> bool {
    max_pods.is_some_and(|pods| value.as_i64() == Some(pods.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_ours_replace_are_named_with_the_field_that_counts() {
        let node_config = |config: Value| {
            let spec = json!({"kubelet": {"config": config}});
            json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}).to_string()
        };
        let pods = node_config(json!({"maxPods": 20}));
        let (nodeadm, bottlerocket) = (AmiFamily::AL2023, AmiFamily::Bottlerocket);
        for (family, custom, max_pods, expected) in [
            (nodeadm, pods.clone(), None, Some("user data: spec.kubelet.config.maxPods of the NodeConfig has no effect, write spec.kubelet.maxPods")),
            (nodeadm, pods.clone(), Some(30), Some("user data: spec.kubelet.config.maxPods of the NodeConfig has no effect, write spec.kubelet.maxPods")),
            (nodeadm, pods.clone(), Some(20), None),
            (nodeadm, node_config(json!({"podsPerCore": 4, "systemReserved": {"cpu": "1"}})), None, None),
            (
                nodeadm,
                json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
                    "spec": {"kubelet": {"flags": ["--v=2", "--register-with-taints=a=b:NoSchedule"]}}})
                .to_string(),
                None,
                Some(
                    "user data: the flag --register-with-taints of the NodeConfig takes off the taints of the NodePool and \
                     adds others that no pod is planned for, write taints in the template of the NodePool",
                ),
            ),
            (AmiFamily::Custom, pods.clone(), None, None),
            (
                bottlerocket,
                "[settings.kubernetes]\nmax-pods = 20\nlog-level = 3\n[settings.kubernetes.node-taints]\na = [':NoSchedule']\n".to_owned(),
                None,
                Some(
                    "user data: settings.kubernetes.max-pods has no effect, write spec.kubelet.maxPods; \
                     settings.kubernetes.node-taints has no effect, write taints in the template of the NodePool",
                ),
            ),
            (bottlerocket, "not TOML".to_owned(), None, None),
            (bottlerocket, String::new(), None, None),
        ] {
            let kubelet = max_pods.map(|pods| serde_json::from_value(json!({"maxPods": pods})).unwrap());
            let spec = Ec2NodeClassSpec { user_data: Some(custom.clone()), kubelet, ..Default::default() };
            assert_eq!(caveat(family, &spec, None).as_deref(), expected, "{family:?} {custom} {max_pods:?}");
        }
    }

    #[test]
    fn a_cluster_that_is_not_that_of_the_controller_is_named() {
        let node_config = |name: &str| {
            let spec = json!({"cluster": {"name": name, "apiServerEndpoint": "https://example.com"}});
            json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}).to_string()
        };
        let settings = |name: &str| format!("[settings.kubernetes]\ncluster-name = '{name}'\n");
        let nodeadm = "user data: spec.cluster of the NodeConfig names the cluster `other` and has no effect, nodes join ";
        let bottlerocket = "user data: settings.kubernetes.cluster-name names the cluster `other` and has no effect, nodes join ";
        for (family, custom, cluster, expected) in [
            (AmiFamily::AL2023, node_config("other"), Some("shop"), Some(format!("{nodeadm}`shop`"))),
            (AmiFamily::AL2023, node_config("other"), None, None),
            (AmiFamily::AL2023, node_config("shop"), Some("shop"), None),
            (AmiFamily::AL2023, node_config(""), Some("shop"), None),
            (AmiFamily::Bottlerocket, settings("other"), Some("shop"), Some(format!("{bottlerocket}`shop`"))),
            (AmiFamily::Bottlerocket, settings("shop"), Some("shop"), None),
            // It decides by itself how its nodes join.
            (AmiFamily::Custom, node_config("other"), Some("shop"), None),
        ] {
            let spec = Ec2NodeClassSpec { user_data: Some(custom.clone()), ..Default::default() };
            assert_eq!(caveat(family, &spec, cluster), expected, "{family:?} {custom} {cluster:?}");
        }
    }
}
