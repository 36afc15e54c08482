//! Every image family's user data, as the images would read it.

use karpenter_model::taint::{Effect, Taint};

use super::*;

fn expected() -> Bootstrap {
    let map =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Bootstrap {
        image: Image::Nodeadm,
        cluster_name: "prod".to_owned(),
        labels: map(&[("karpenter.sh/capacity-type", "spot"), ("team", "a")]),
        taints: vec![Taint::new("dedicated", "x", Effect::NoSchedule), Taint::unregistered()],
        max_pods: Some(58),
        pods_per_core: None,
        kube_reserved: map(&[("cpu", "80m"), ("memory", "893Mi")]),
        system_reserved: map(&[("cpu", "100m")]),
        reserved_cpus: None,
        eviction_hard: map(&[("memory.available", "5%")]),
        cluster_dns: vec!["10.100.0.10".to_owned()],
        local_disks: false,
    }
}

const NODE_CONFIG: &str = r#"# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://example
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
    name: prod
  containerd: {}
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS:
      - 10.100.0.10
      evictionHard:
        memory.available: 5%
      kubeReserved:
        cpu: 80m
        memory: 893Mi
      maxPods: 58
      registerWithTaints:
      - effect: NoSchedule
        key: dedicated
        value: x
      - effect: NoExecute
        key: karpenter.sh/unregistered
      systemReserved:
        cpu: 100m
    flags:
    - --node-labels="karpenter.sh/capacity-type=spot,team=a"
"#;

fn archive(parts: &[(&str, &str)]) -> String {
    let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n";
    let part = |(kind, body): &(&str, &str)| format!("--//\nContent-Type: {kind}\n\n{body}\n");
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("{head}\n{}--//--\n", parts.concat())
}

const SCRIPT: &str = "#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'prod' --apiserver-endpoint 'https://example' --b64-cluster-ca 'Y2E=' \\
--dns-cluster-ip '10.100.0.10' \\
--use-max-pods false \\
--kubelet-extra-args '--node-labels=\"karpenter.sh/capacity-type=spot,team=a\" --register-with-taints=\"dedicated=x:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=58 --system-reserved=\"cpu=100m\" --kube-reserved=\"cpu=80m,memory=893Mi\" --eviction-hard=\"memory.available<5%\"'";

const SETTINGS: &str = "
[settings]
[settings.kubernetes]
api-server = 'https://example'
cluster-name = 'prod'
cluster-dns-ip = '10.100.0.10'
max-pods = 58
[settings.kubernetes.node-labels]
'karpenter.sh/capacity-type' = 'spot'
team = 'a'
[settings.kubernetes.node-taints]
dedicated = ['x:NoSchedule']
'karpenter.sh/unregistered' = [':NoExecute']
[settings.kubernetes.kube-reserved]
cpu = '80m'
memory = '893Mi'
[settings.kubernetes.system-reserved]
cpu = '100m'
[settings.kubernetes.eviction-hard]
'memory.available' = '5%'
[settings.host-containers.admin]
enabled = true
";

const POWERSHELL: &str = r#"<powershell>
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'prod' -APIServerEndpoint 'https://example' -KubeletExtraArgs '--node-labels="team=a" --max-pods=58' -DNSClusterIP '10.100.0.10'
</powershell>"#;

#[test]
fn every_family_says_the_same() {
    let families = [
        ("nodeadm in an archive", Image::Nodeadm, archive(&[("application/node.eks.aws", NODE_CONFIG)])),
        ("bare nodeadm", Image::Nodeadm, NODE_CONFIG.to_owned()),
        (
            "bootstrap script in an archive",
            Image::Script,
            archive(&[("text/x-shellscript; charset=\"us-ascii\"", SCRIPT)]),
        ),
        ("bare bootstrap script", Image::Script, SCRIPT.to_owned()),
        ("Bottlerocket", Image::Bottlerocket, SETTINGS.to_owned()),
    ];
    for (name, image, text) in families {
        let mut expected = Bootstrap { image, ..expected() };
        if image == Image::Script {
            // Resources that the flag leaves out are not reserved.
            expected.kube_reserved.insert("ephemeral-storage".to_owned(), "0".to_owned());
        }
        assert_eq!(parse(text.as_bytes()), Ok(expected), "{name}");
    }
}

#[test]
fn windows_takes_kubelet_arguments_from_the_call() {
    let found = parse(POWERSHELL.as_bytes()).expect("a bootstrap call");
    assert_eq!((found.cluster_name.as_str(), found.max_pods), ("prod", Some(58)));
    assert_eq!(found.labels.get("team").map(String::as_str), Some("a"));
}

#[test]
fn later_node_configs_win_and_scripts_beside_them_do_not_matter() {
    let user = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config: {maxPods: 5, podsPerCore: 3}\n    flags: ['--node-labels=mine=1']\n";
    let text = archive(&[
        ("text/x-shellscript", "#!/bin/bash\necho hello"),
        ("application/node.eks.aws", user),
        ("application/node.eks.aws", NODE_CONFIG),
    ]);
    let found = parse(text.as_bytes()).expect("a node config");
    assert_eq!((found.max_pods, found.pods_per_core), (Some(58), Some(3)));
    assert_eq!(found.labels.len(), 3);
}

#[test]
fn a_machine_that_cannot_join_says_why() {
    let cases: [(&[u8], Error); 5] = [
        (b" \n", Error::Empty),
        (b"\xff\xfe", Error::NotText),
        (b"#!/bin/bash\necho hello", Error::NoBootstrap),
        (
            b"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx",
            Error::Mime { why: "no boundary in the content type" },
        ),
        (
            b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\n\nx",
            Error::Mime { why: "the closing boundary is missing" },
        ),
    ];
    for (text, error) in cases {
        assert_eq!(parse(text), Err(error), "{}", String::from_utf8_lossy(text));
    }
    assert!(matches!(parse(b"[settings\nx"), Err(Error::Bottlerocket { .. })));
    assert!(matches!(parse(b"apiVersion: node.eks.aws/v1\n  : ["), Err(Error::Nodeadm { .. })));
}
