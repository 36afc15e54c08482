//! Reservations in every format of user data, and how they are combined with those of the class.

use serde_json::json;

use super::*;

fn pairs_of(map: Option<&Texts>) -> String {
    let pairs = map.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

fn told(family: AmiFamily, custom: &str, class: Value) -> Effective {
    let kubelet = Some(serde_json::from_value(class).unwrap());
    let spec = Ec2NodeClassSpec { user_data: Some(custom.to_owned()), kubelet, ..Default::default() };
    effective(family, &spec)
}

fn read(family: AmiFamily, custom: &str, class: Value) -> [String; 3] {
    let kubelet = told(family, custom, class).kubelet;
    [kubelet.system_reserved, kubelet.kube_reserved, kubelet.eviction_hard].map(|map| pairs_of(map.as_ref()))
}

/// System, kube and eviction of a user's user data under an empty class.
fn read_from(family: AmiFamily, custom: &str) -> [String; 3] {
    read(family, custom, json!({}))
}

const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      \
    systemReserved: {memory: 6Gi}\n      kubeReserved: {cpu: 1}\n      evictionHard: {memory.available: 5%}\n";

fn node_config(kubelet: &Value) -> String {
    json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": kubelet}})
        .to_string()
}

#[test]
fn what_a_node_config_reserves_counts_wherever_it_stands() {
    let expected = ["memory=6Gi", "cpu=1", "memory.available=5%"];
    let archive = |headers: &str, body: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: \
             text/x-shellscript\n\n#!/bin/sh\necho kind: NodeConfig\n--b\n{headers}\n\n{body}\n--b--\n"
        )
    };
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, NODE_CONFIG);
    let inner = format!("--i\nContent-Type: application/node.eks.aws\n\n{NODE_CONFIG}\n--i--");
    for custom in [
        NODE_CONFIG.to_owned(),
        NODE_CONFIG.replace('\n', "\r\n"),
        format!("# of the team\n---\n{NODE_CONFIG}"),
        archive("Content-Type: application/node.eks.aws", NODE_CONFIG),
        archive("content-type: Application/Node.EKS.AWS; charset=utf-8", NODE_CONFIG),
        archive("Content-Type: text/plain", NODE_CONFIG),
        archive("Content-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64", &encoded),
        archive("Content-Type: multipart/mixed; boundary=i", &inner),
    ] {
        assert_eq!(read_from(AmiFamily::AL2023, &custom), expected, "{custom}");
        assert_eq!(read_from(AmiFamily::Custom, &custom), expected, "{custom}");
    }
    // Our renderer makes a part of each document; nodeadm, given the text as it is, reads the first one.
    let empty = node_config(&json!({}));
    let second = format!("{empty}\n---\n{NODE_CONFIG}");
    assert_eq!(read_from(AmiFamily::AL2023, &second), expected);
    let none = ["", "", ""];
    assert_eq!(read_from(AmiFamily::Custom, &second), none);
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
    let expected = ["memory=6Gi", "", "memory.available=5%"];
    for custom in [
        "[settings.kubernetes.system-reserved]\nmemory = \"6Gi\"\n\
            [settings.kubernetes.eviction-hard]\n\"memory.available\" = \"5%\"\n",
        "settings.kubernetes.system-reserved.memory = '6Gi'\nsettings.kubernetes.eviction-hard.'memory.available' = '5%'\n",
        "[\"settings\".kubernetes]\r\nsystem-reserved = {memory = '6Gi'}\r\n'eviction-hard' = {\"memory.available\" = '5%'}\r\n",
    ] {
        assert_eq!(read_from(AmiFamily::Bottlerocket, custom), expected, "{custom}");
        assert_eq!(read_from(AmiFamily::Custom, custom), expected, "{custom}");
    }
}

#[test]
fn the_class_wins_key_by_key() {
    let class = json!({"systemReserved": {"memory": "1Gi", "cpu": "2"}});
    let found = read(AmiFamily::AL2023, NODE_CONFIG, class.clone());
    assert_eq!(found, ["cpu=2,memory=1Gi", "cpu=1", "memory.available=5%"]);
    let toml = "[settings.kubernetes.system-reserved]\nmemory = '6Gi'\npid = '10'\n";
    let found = read(AmiFamily::Bottlerocket, toml, class);
    assert_eq!(found, ["cpu=2,memory=1Gi,pid=10", "", ""]);
}

/// The kubelet applies its flags after all of its configuration; a map is replaced.
#[test]
fn flags_win_over_the_class_with_their_whole_value() {
    let class =
        json!({"systemReserved": {"memory": "1Gi", "cpu": "2"}, "evictionHard": {"nodefs.available": "20%"}});
    for flags in [
        json!([
            "--system-reserved=memory=6Gi",
            "--kube-reserved=memory=1Gi",
            "--eviction-hard=memory.available<500Mi"
        ]),
        json!([
            "--system-reserved=\"memory=6Gi\" --kube-reserved='memory=1Gi'",
            "--eviction-hard memory.available<500Mi"
        ]),
        json!([
            "--system-reserved",
            "memory=6Gi",
            "--kube-reserved",
            "memory=1Gi",
            "--eviction-hard",
            "memory.available<500Mi"
        ]),
    ] {
        let custom = node_config(&json!({"flags": flags}));
        let expected = ["memory=6Gi", "cpu=0,ephemeral-storage=0,memory=1Gi", "memory.available=500Mi"];
        assert_eq!(read(AmiFamily::AL2023, &custom, class.clone()), expected, "{custom}");
    }
}

/// `reservedSystemCPUs` replaces the amounts of `cpu` that are reserved for the system and for Kubernetes.
#[test]
fn a_list_of_cpus_is_what_is_reserved_of_them() {
    let both = json!({"systemReserved": {"cpu": "100m", "memory": "1Gi"}, "kubeReserved": {"cpu": "200m"}});
    let expected = ["cpu=3,memory=1Gi", "cpu=0", ""];
    let config = node_config(&json!({"config": {"reservedSystemCPUs": "0-1,4"}}));
    assert_eq!(read(AmiFamily::AL2023, &config, both.clone()), expected);
    let flag = node_config(&json!({"flags": ["--reserved-cpus=0,2-3"]}));
    assert_eq!(read(AmiFamily::AL2023, &flag, both.clone()), expected);
    let toml = "[settings.kubernetes]\nreserved-cpus = '0-2'\n";
    assert_eq!(read(AmiFamily::Bottlerocket, toml, both.clone()), expected);
    let mut class = both.clone();
    class["reservedSystemCPUs"] = "5,6,7".into();
    assert_eq!(read(AmiFamily::AL2023, "", class), expected);
    let malformed = node_config(&json!({"config": {"reservedSystemCPUs": "all"}}));
    assert_eq!(read(AmiFamily::AL2023, &malformed, both), ["cpu=100m,memory=1Gi", "cpu=200m", ""]);
}

#[test]
fn pods_are_bounded_as_the_node_will_bound_them() {
    let bounds = |family, kubelet_of_user: &Value, class: Value| {
        let kubelet = told(family, &node_config(kubelet_of_user), class).kubelet;
        (kubelet.max_pods, kubelet.pods_per_core)
    };
    let config = json!({"config": {"maxPods": 20, "podsPerCore": 4}});
    let flags = json!({"flags": ["--max-pods=20", "--pods-per-core=4"]});
    let class = json!({"maxPods": 30});
    for (family, user, class, expected) in [
        // Our document has `maxPods` and is last.
        (AmiFamily::AL2023, &config, json!({}), (None, Some(4))),
        (AmiFamily::AL2023, &config, class.clone(), (Some(30), Some(4))),
        (AmiFamily::AL2023, &config, json!({"podsPerCore": 9}), (None, Some(9))),
        (AmiFamily::AL2023, &flags, class.clone(), (Some(20), Some(4))),
        (AmiFamily::Custom, &config, json!({}), (Some(20), Some(4))),
        (AmiFamily::Custom, &config, class, (Some(30), Some(4))),
    ] {
        assert_eq!(bounds(family, user, class.clone()), expected, "{family:?} {user} {class}");
    }
    let toml = "[settings.kubernetes]\nmax-pods = 20\n";
    assert_eq!(told(AmiFamily::Bottlerocket, toml, json!({})).kubelet.max_pods, None);
    assert_eq!(told(AmiFamily::Custom, toml, json!({})).kubelet.max_pods, Some(20));
}

#[test]
fn local_disks_are_striped_by_the_class_or_by_a_node_config() {
    let config = |strategy: &str| {
        let spec = json!({"instance": {"localStorage": {"strategy": strategy}}});
        json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}).to_string()
    };
    for (family, custom, policy, expected) in [
        (AmiFamily::AL2023, String::new(), false, false),
        (AmiFamily::AL2023, String::new(), true, true),
        (AmiFamily::AL2023, config("RAID0"), false, true),
        (AmiFamily::AL2023, config("Mount"), false, false),
        (AmiFamily::AL2023, format!("{}\n---\n{}", config("RAID0"), config("Mount")), false, false),
        (AmiFamily::Custom, config("RAID0"), false, true),
        (AmiFamily::AL2, config("RAID0"), false, false),
        (AmiFamily::Bottlerocket, String::new(), true, true),
        (AmiFamily::Windows2022, String::new(), true, false),
    ] {
        let spec = Ec2NodeClassSpec {
            user_data: Some(custom.clone()),
            instance_store_policy: policy.then_some(InstanceStorePolicy::RAID0),
            ..Default::default()
        };
        assert_eq!(effective(family, &spec).stripes_disks, expected, "{family:?} {custom} {policy}");
    }
}
