//! Golden user data of every family.

use expect_test::expect;

use super::*;

mod formats;

fn bootstrap() -> Bootstrap {
    Bootstrap {
        cluster_name: "demo".to_owned(),
        cluster_endpoint: "https://demo.example".to_owned(),
        ca_bundle: Some("Y2EtYnVuZGxlCg==".to_owned()),
        cluster_cidr: Some("10.100.0.0/16".to_owned()),
        kubelet: KubeletConfiguration {
            cluster_dns: Some(vec!["10.100.0.10".to_owned()]),
            max_pods: Some(110),
            ..KubeletConfiguration::default()
        },
        block: KubeletBlock::default(),
        taints: vec![NodeTaint {
            key: "karpenter.sh/unregistered".to_owned(),
            value: String::new(),
            effect: "NoExecute".to_owned(),
        }],
        labels: text_map([("karpenter.sh/capacity-type", "on-demand"), ("karpenter.sh/nodepool", "default")]),
        custom: None,
        raid0: false,
        bottlerocket_binds_directories: false,
    }
}

/// Every kubelet setting there is.
fn full_kubelet() -> KubeletConfiguration {
    KubeletConfiguration {
        cluster_dns: Some(vec!["10.100.0.10".to_owned()]),
        max_pods: Some(29),
        pods_per_core: Some(4),
        system_reserved: Some(text_map([("memory", "1Gi"), ("cpu", "100m")])),
        kube_reserved: Some(text_map([("memory", "2Gi"), ("cpu", "200m")])),
        eviction_hard: Some(text_map([("nodefs.available", "10%"), ("memory.available", "5%")])),
        eviction_soft: Some(text_map([("memory.available", "10%")])),
        eviction_soft_grace_period: Some([("memory.available".to_owned(), "1m".into())].into()),
        eviction_max_pod_grace_period: Some(60),
        image_gc_high_threshold_percent: Some(80),
        image_gc_low_threshold_percent: Some(70),
        cpu_cfs_quota: Some(false),
    }
}

fn text_map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn check(family: AmiFamily, bootstrap: &Bootstrap, golden: &expect_test::Expect) {
    golden.assert_eq(&render(family, bootstrap).unwrap());
}

#[test]
fn al2_joins_with_the_bootstrap_script() {
    check(
        AmiFamily::AL2,
        &bootstrap(),
        &expect![[r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: text/x-shellscript; charset="us-ascii"

        #!/bin/bash -xe
        exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
        /etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://demo.example' --b64-cluster-ca 'Y2EtYnVuZGxlCg==' \
        --dns-cluster-ip '10.100.0.10' \
        --use-max-pods false \
        --kubelet-extra-args '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110'
        --//--
    "#]],
    );
}

#[test]
fn al2_passes_every_kubelet_setting_in_the_fixed_order_and_maps_sorted() {
    let mut input = Bootstrap { kubelet: full_kubelet(), raid0: true, ..bootstrap() };
    input.custom = Some("echo before".to_owned());
    check(
        AmiFamily::AL2,
        &input,
        &expect![[r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: text/x-shellscript; charset="us-ascii"

        echo before
        --//
        Content-Type: text/x-shellscript; charset="us-ascii"

        #!/bin/bash -xe
        exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
        /etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://demo.example' --b64-cluster-ca 'Y2EtYnVuZGxlCg==' \
        --dns-cluster-ip '10.100.0.10' \
        --use-max-pods false \
        --kubelet-extra-args '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=29 --pods-per-core=4 --system-reserved="cpu=100m,memory=1Gi" --kube-reserved="cpu=200m,memory=2Gi" --eviction-hard="memory.available<5%,nodefs.available<10%" --eviction-soft="memory.available<10%" --eviction-soft-grace-period="memory.available=1m" --eviction-max-pod-grace-period=60 --image-gc-high-threshold=80 --image-gc-low-threshold=70 --cpu-cfs-quota=false' \
        --local-disks raid0
        --//--
    "#]],
    );
}

#[test]
fn al2_keeps_all_headers_of_custom_parts_and_switches_to_ipv6_by_the_dns_address() {
    let mut input = bootstrap();
    input.labels.clear();
    input.kubelet.cluster_dns = Some(vec!["fd97::a".to_owned()]);
    input.custom = Some("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"B\"\r\n\r\n--B\r\nContent-Type: text/cloud-config\r\nMerge-Type: append\r\n\r\n#cloud-config\r\n--B--\r\n".to_owned());
    check(
        AmiFamily::AL2,
        &input,
        &expect![[r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: text/cloud-config
        Merge-Type: append

        #cloud-config
        --//
        Content-Type: text/x-shellscript; charset="us-ascii"

        #!/bin/bash -xe
        exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
        /etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://demo.example' --b64-cluster-ca 'Y2EtYnVuZGxlCg==' \
        --ip-family ipv6 \
        --dns-cluster-ip 'fd97::a' \
        --use-max-pods false \
        --kubelet-extra-args '--register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110'
        --//--
    "#]],
    );
}

#[test]
fn al2023_joins_with_a_node_config() {
    check(
        AmiFamily::AL2023,
        &bootstrap(),
        &expect![[r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: application/node.eks.aws

        # Karpenter Generated NodeConfig
        apiVersion: node.eks.aws/v1alpha1
        kind: NodeConfig
        metadata: {}
        spec:
          cluster:
            apiServerEndpoint: https://demo.example
            certificateAuthority: Y2EtYnVuZGxlCg==
            cidr: 10.100.0.0/16
            name: demo
          containerd: {}
          instance:
            localStorage: {}
          kubelet:
            config:
              clusterDNS:
              - 10.100.0.10
              maxPods: 110
              registerWithTaints:
              - effect: NoExecute
                key: karpenter.sh/unregistered
            flags:
            - --node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default"

        --//--
    "#]],
    );
}

#[test]
fn al2023_passes_every_kubelet_setting_and_stripes_local_disks() {
    let mut input = Bootstrap { kubelet: full_kubelet(), raid0: true, ..bootstrap() };
    input.taints.push(NodeTaint { key: "team".into(), value: "web".into(), effect: "NoSchedule".into() });
    input.labels.clear();
    check(
        AmiFamily::AL2023,
        &input,
        &expect![[r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: application/node.eks.aws

        # Karpenter Generated NodeConfig
        apiVersion: node.eks.aws/v1alpha1
        kind: NodeConfig
        metadata: {}
        spec:
          cluster:
            apiServerEndpoint: https://demo.example
            certificateAuthority: Y2EtYnVuZGxlCg==
            cidr: 10.100.0.0/16
            name: demo
          containerd: {}
          instance:
            localStorage:
              strategy: RAID0
          kubelet:
            config:
              clusterDNS:
              - 10.100.0.10
              cpuCFSQuota: false
              evictionHard:
                memory.available: 5%
                nodefs.available: 10%
              evictionMaxPodGracePeriod: 60
              evictionSoft:
                memory.available: 10%
              evictionSoftGracePeriod:
                memory.available: 1m
              imageGCHighThresholdPercent: 80
              imageGCLowThresholdPercent: 70
              kubeReserved:
                cpu: 200m
                memory: 2Gi
              maxPods: 29
              podsPerCore: 4
              registerWithTaints:
              - effect: NoExecute
                key: karpenter.sh/unregistered
              - effect: NoSchedule
                key: team
                value: web
              systemReserved:
                cpu: 100m
                memory: 1Gi

        --//--
    "#]],
    );
}

#[test]
fn al2023_tells_node_configs_scripts_and_archives_apart() {
    let kinds = |custom: &str| -> Vec<String> {
        let input = Bootstrap { custom: Some(custom.to_owned()), ..bootstrap() };
        let parts = mime::parse(&render(AmiFamily::AL2023, &input).unwrap()).unwrap();
        parts.iter().map(|part| part.content_type().to_owned()).collect()
    };
    let ours = "application/node.eks.aws";
    assert_eq!(kinds("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"), [ours, ours]);
    let json = "{\"apiVersion\": \"node.eks.aws/v1alpha1\", \"kind\": \"NodeConfig\"}";
    assert_eq!(kinds(json), [ours, ours]);
    assert_eq!(kinds("#!/bin/bash\necho hello\n"), [mime::SHELL_SCRIPT, ours]);
    assert_eq!(kinds("echo hello"), [mime::SHELL_SCRIPT, ours]);
    assert_eq!(kinds(""), [ours]);
    let archive = mime::write(&[mime::Part {
        headers: vec![("X".into(), "1".into()), ("Content-Type".into(), "text/cloud-config".into())],
        body: "#cloud-config".into(),
    }]);
    assert_eq!(kinds(&archive), ["text/cloud-config", ours]);
}

#[test]
fn nine_tenths_of_what_ec2_takes_is_nearly_full() {
    assert!(!is_nearly_full(14_745) && is_nearly_full(14_746));
}

#[test]
fn al2023_refuses_a_ca_that_is_not_base64() {
    let input = Bootstrap { ca_bundle: Some("not base64!".to_owned()), ..bootstrap() };
    assert!(matches!(render(AmiFamily::AL2023, &input), Err(Error::CaBundle(_))));
}

#[test]
fn malformed_mime_is_refused_by_both_amazon_linux_families() {
    let input = Bootstrap { custom: Some("MIME-Version: 1.0\n\nnothing".to_owned()), ..bootstrap() };
    for family in [AmiFamily::AL2, AmiFamily::AL2023] {
        assert!(matches!(render(family, &input), Err(Error::Mime(_))));
    }
}

#[test]
fn bottlerocket_joins_with_settings() {
    check(
        AmiFamily::Bottlerocket,
        &bootstrap(),
        &expect![[r#"
            [settings]
            [settings.kubernetes]
            api-server = 'https://demo.example'
            cluster-certificate = 'Y2EtYnVuZGxlCg=='
            cluster-name = 'demo'
            cluster-dns-ip = '10.100.0.10'
            max-pods = 110

            [settings.kubernetes.node-labels]
            'karpenter.sh/capacity-type' = 'on-demand'
            'karpenter.sh/nodepool' = 'default'

            [settings.kubernetes.node-taints]
            'karpenter.sh/unregistered' = [':NoExecute']
        "#]],
    );
}

#[test]
fn bottlerocket_keeps_all_that_is_not_ours_and_ours_wins() {
    let mut input = Bootstrap { kubelet: full_kubelet(), raid0: true, ..bootstrap() };
    input.bottlerocket_binds_directories = true;
    input.taints.push(NodeTaint { key: "team".into(), value: "web".into(), effect: "NoSchedule".into() });
    input.custom = Some(
        "[settings.kubernetes]\ncluster-name = 'other'\nlog-level = 3\nno-such-setting = true\n\
         [settings.kubernetes.node-labels]\n'karpenter.sh/nodepool' = 'other'\nmine = 'kept'\n\
         [settings.kubernetes.node-taints]\ndedicated = ['x:NoSchedule']\n\
         [settings.kernel.sysctl]\n'user.max_user_namespaces' = '16384'\n\
         [settings.bootstrap-commands.mine]\nmode = 'once'\n"
            .to_owned(),
    );
    check(
        AmiFamily::Bottlerocket,
        &input,
        &expect![[r#"
            [settings]
            [settings.bootstrap-commands]
            [settings.bootstrap-commands.000-mount-instance-storage]
            commands = [['apiclient', 'ephemeral-storage', 'init'], ['apiclient', 'ephemeral-storage', 'bind', '--dirs', '/var/lib/containerd', '/var/lib/kubelet', '/var/log/pods']]
            essential = true
            mode = 'always'

            [settings.bootstrap-commands.mine]
            mode = 'once'

            [settings.kernel]
            [settings.kernel.sysctl]
            'user.max_user_namespaces' = '16384'

            [settings.kubernetes]
            api-server = 'https://demo.example'
            cluster-certificate = 'Y2EtYnVuZGxlCg=='
            cluster-name = 'demo'
            cluster-dns-ip = '10.100.0.10'
            max-pods = 29
            cpu-cfs-quota-enforced = false
            eviction-max-pod-grace-period = 60
            image-gc-high-threshold-percent = '80'
            image-gc-low-threshold-percent = '70'
            log-level = 3
            no-such-setting = true

            [settings.kubernetes.node-labels]
            'karpenter.sh/capacity-type' = 'on-demand'
            'karpenter.sh/nodepool' = 'default'
            mine = 'kept'

            [settings.kubernetes.node-taints]
            'karpenter.sh/unregistered' = [':NoExecute']
            team = ['web:NoSchedule']

            [settings.kubernetes.eviction-hard]
            'memory.available' = '5%'
            'nodefs.available' = '10%'

            [settings.kubernetes.eviction-soft]
            'memory.available' = '10%'

            [settings.kubernetes.eviction-soft-grace-period]
            'memory.available' = '1m'

            [settings.kubernetes.kube-reserved]
            cpu = '200m'
            memory = '2Gi'

            [settings.kubernetes.system-reserved]
            cpu = '100m'
            memory = '1Gi'
        "#]],
    );
}

#[test]
fn bottlerocket_refuses_text_that_is_not_toml() {
    let input = Bootstrap { custom: Some("#!/bin/bash\nexit 1".to_owned()), ..bootstrap() };
    assert!(matches!(render(AmiFamily::Bottlerocket, &input), Err(Error::Unread(_))));
    let input = Bootstrap { custom: Some("settings = 1".to_owned()), ..bootstrap() };
    assert!(matches!(render(AmiFamily::Bottlerocket, &input), Err(Error::Toml(_))));
}

#[test]
fn bottlerocket_versions_before_1_46_or_unknown_bind_the_directories_they_are_told() {
    for (version, old) in [
        (None, true),
        (Some("latest"), false),
        (Some("v1.45.9"), true),
        (Some("1.46.0"), false),
        (Some("v1.46.0-abcdef"), true),
        (Some("2.0.0"), false),
        (Some("1.46"), true),
        (Some("new"), true),
    ] {
        assert_eq!(bottlerocket::binds_directories(version), old, "{version:?}");
    }
}

#[test]
fn windows_joins_with_powershell_after_the_users_commands() {
    let input = Bootstrap { custom: Some("Write-Host 'hi'".to_owned()), ..bootstrap() };
    check(
        AmiFamily::Windows2022,
        &input,
        &expect![[r#"
        <powershell>
        Write-Host 'hi'
        [string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
        & $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://demo.example' -Base64ClusterCA 'Y2EtYnVuZGxlCg==' -KubeletExtraArgs '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110' -DNSClusterIP '10.100.0.10'
        </powershell>"#]],
    );
}

#[test]
fn windows_of_every_year_passes_every_kubelet_setting_in_the_fixed_order() {
    let input = Bootstrap { kubelet: full_kubelet(), ..bootstrap() };
    for family in [AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        check(
            family,
            &input,
            &expect![[r#"
            <powershell>
            [string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
            & $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://demo.example' -Base64ClusterCA 'Y2EtYnVuZGxlCg==' -KubeletExtraArgs '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=29 --pods-per-core=4 --system-reserved="cpu=100m,memory=1Gi" --kube-reserved="cpu=200m,memory=2Gi" --eviction-hard="memory.available<5%,nodefs.available<10%" --eviction-soft="memory.available<10%" --eviction-soft-grace-period="memory.available=1m" --eviction-max-pod-grace-period=60 --image-gc-high-threshold=80 --image-gc-low-threshold=70 --cpu-cfs-quota=false' -DNSClusterIP '10.100.0.10'
            </powershell>"#]],
        );
    }
}

#[test]
fn custom_user_data_is_left_alone() {
    let input = Bootstrap { custom: Some("anything\r\n".to_owned()), ..bootstrap() };
    assert_eq!(render(AmiFamily::Custom, &input).unwrap(), "anything\r\n");
    assert_eq!(encode("anything"), "YW55dGhpbmc=");
}

#[test]
fn kubelets_are_not_given_labels_of_the_kubernetes_domains() {
    let labels = text_map([
        ("karpenter.sh/nodepool", "default"),
        ("kubernetes.io/arch", "amd64"),
        ("topology.kubernetes.io/zone", "a"),
        ("node-restriction.kubernetes.io/x", "1"),
        ("x.node-restriction.kubernetes.io/x", "1"),
        ("k8s.io/x", "1"),
        ("deep.sub.k8s.io/x", "1"),
        ("notk8s.io/x", "1"),
        ("topology.k8s.aws/zone-id", "use1-az1"),
        ("plain", "1"),
    ]);
    let kept: Vec<_> = kubelet_labels(&labels).into_keys().collect();
    assert_eq!(kept, ["karpenter.sh/nodepool", "notk8s.io/x", "plain", "topology.k8s.aws/zone-id"]);
}
