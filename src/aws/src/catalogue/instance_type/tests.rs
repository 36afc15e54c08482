//! Labels, capacity and overhead of whole types, with the numbers users know.

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{
    AmiFamily, BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EnclaveOptions,
    InstanceStorePolicy, InterfaceType, KubeletBlock, KubeletConfiguration, NetworkInterface, Toggle,
};
use karpenter_aws_api::ec2::{Architecture, EbsOptimized, Gpu, InstanceStorage, NetworkCard, NeuronDevice};
use karpenter_model::names::label::{self, aws};

mod families;

use super::compatibility::{Mismatch, mismatch};
use super::*;
use crate::registry::label_registry;
use crate::settings::Gates;
use crate::testing::{class, machine};

fn built_with(info: &InstanceTypeInfo, class: &EC2NodeClass, settings: &Settings) -> InstanceType {
    built_of(info, None, class, settings)
}

/// Builds a type of which a real node reported this `memory`.
fn built_of(
    info: &InstanceTypeInfo,
    memory: Option<Quantity>,
    class: &EC2NodeClass,
    settings: &Settings,
) -> InstanceType {
    let zones = ["a", "b", "c"].map(Zone::from).into();
    let registry = label_registry();
    let view = ClassView::new(class).evaluating(settings.gates.node_class_cel);
    let context = Context { view: &view, settings, region: "us-west-2", registry: &registry };
    build(info, &zones, memory, context)
}

fn built(info: &InstanceTypeInfo, class: &EC2NodeClass) -> InstanceType {
    built_with(info, class, &Settings::new("demo", "https://demo"))
}

fn kubelet(family: AmiFamily, max_pods: Option<i32>) -> EC2NodeClass {
    let mut class = class(family);
    class.spec.kubelet = Some(KubeletConfiguration { max_pods, ..Default::default() }.into());
    class
}

/// Values of one label, as a text; empty when the label does not exist.
fn label(instance_type: &InstanceType, key: &str) -> String {
    let requirement = instance_type.requirements.get(key).expect("every well-known label has a requirement");
    requirement.values().iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
}

fn card(index: u32) -> NetworkCard {
    NetworkCard { index, maximum_network_interfaces: 8, baseline_mbps: Some(25_000) }
}

fn t3_large() -> InstanceTypeInfo {
    machine("t3.large", 2, 8, 3, 12)
}

fn g4dn() -> InstanceTypeInfo {
    InstanceTypeInfo {
        gpus: vec![Gpu { name: "T4".into(), manufacturer: "NVIDIA".into(), count: 1, memory_mib: 16_384 }],
        instance_storage: Some(InstanceStorage { total_gb: 900, nvme_support: "required".into() }),
        ebs_optimized: Some(EbsOptimized { support: "default".into(), maximum_bandwidth_mbps: Some(9_500) }),
        sustained_clock_mhz: Some(2_500),
        ..machine("g4dn.8xlarge", 32, 128, 4, 15)
    }
}

#[test]
fn labels_of_a_gpu_type() {
    let g4dn = built(&g4dn(), &class(AmiFamily::AL2023));
    for (key, value) in [
        (label::INSTANCE_TYPE, "g4dn.8xlarge"),
        (label::ARCH, "amd64"),
        (label::OS, "linux"),
        (label::REGION, "us-west-2"),
        (label::ZONE, "a|b"),
        (label::CAPACITY_TYPE, "on-demand|spot"),
        (label::WINDOWS_BUILD, ""),
        (aws::ZONE_ID, "id-a|id-b"),
        (aws::INSTANCE_CATEGORY, "g"),
        (aws::INSTANCE_GENERATION, "4"),
        (aws::INSTANCE_FAMILY, "g4dn"),
        (aws::INSTANCE_SIZE, "8xlarge"),
        (aws::INSTANCE_HYPERVISOR, "nitro"),
        (aws::INSTANCE_CPU, "32"),
        (aws::INSTANCE_CPU_MANUFACTURER, "intel"),
        (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, "2500"),
        (aws::INSTANCE_MEMORY, "131072"),
        (aws::INSTANCE_EBS_BANDWIDTH, "9500"),
        (aws::INSTANCE_LOCAL_NVME, "900"),
        (aws::INSTANCE_GPU_NAME, "t4"),
        (aws::INSTANCE_GPU_MANUFACTURER, "nvidia"),
        (aws::INSTANCE_GPU_COUNT, "1"),
        (aws::INSTANCE_GPU_MEMORY, "16384"),
        (aws::INSTANCE_ACCELERATOR_NAME, ""),
        (aws::INSTANCE_TENANCY, "dedicated|default"),
        (aws::INSTANCE_CAPABILITY_FLEX, "false"),
        (aws::CAPACITY_RESERVATION_ID, ""),
    ] {
        assert_eq!(label(&g4dn, key), value, "{key}");
    }
    assert!(!g4dn.requirements.contains(label::NODE_POOL), "the pool is not the type's to decide");
}

#[test]
fn labels_of_unusual_types() {
    let neuron = NeuronDevice { name: "Inferentia2".into(), count: 1, cores: 2 };
    let info = InstanceTypeInfo { neuron_devices: vec![neuron], ..machine("inf2.xlarge", 4, 16, 4, 15) };
    let inf2 = built(&info, &class(AmiFamily::AL2023));
    assert_eq!(label(&inf2, aws::INSTANCE_ACCELERATOR_NAME), "inferentia2");
    assert_eq!(label(&inf2, aws::INSTANCE_ACCELERATOR_MANUFACTURER), "aws");
    assert_eq!(inf2.capacity.amount(capacity::NEURON_CORE).as_units_ceil(), 2);
    let info = InstanceTypeInfo { hypervisor: String::new(), bare_metal: true, ..t3_large() };
    let metal = built(&info, &class(AmiFamily::AL2023));
    assert!(metal.requirements.get(aws::INSTANCE_HYPERVISOR).unwrap().allows(""));
    let mac =
        InstanceTypeInfo { architectures: vec![Architecture::Other("x86_64_mac".into())], ..t3_large() };
    assert_eq!(label(&built(&mac, &class(AmiFamily::AL2023)), label::ARCH), "x86_64_mac");
}

#[test]
fn windows_runs_on_amd64_only() {
    let amd = built(&t3_large(), &class(AmiFamily::Windows2022));
    assert_eq!(
        (label(&amd, label::OS), label(&amd, label::WINDOWS_BUILD)),
        ("windows".into(), "10.0.20348".into())
    );
    assert_eq!(amd.capacity.amount(capacity::PRIVATE_IPV4).as_units_ceil(), 11);
    let arm = InstanceTypeInfo { architectures: vec![Architecture::Arm64], ..t3_large() };
    assert_eq!(label(&built(&arm, &class(AmiFamily::Windows2022)), label::OS), "");
    let linux = built(&t3_large(), &class(AmiFamily::AL2023));
    assert_eq!(linux.capacity.get(capacity::PRIVATE_IPV4), None);
}

#[test]
fn memory_is_what_the_hypervisor_leaves_rounded_down() {
    let memory = |info: &InstanceTypeInfo| built(info, &class(AmiFamily::AL2023)).capacity.amount("memory");
    assert_eq!(memory(&t3_large()), capacity::mib(7_577));
    let arm = InstanceTypeInfo { architectures: vec![Architecture::Arm64], ..t3_large() };
    assert_eq!(memory(&arm), capacity::mib(8_128 - 610), "64 MiB of firmware, then ceil(609.6)");
}

/// aws#8367: what the kubelet keeps in percent is a share of what the node really has, more or less than the estimate.
#[test]
fn thresholds_in_percent_are_of_the_memory_a_real_node_reported() {
    let settings = Settings::new("demo", "https://demo");
    let mib = capacity::mib;
    let share = |memory: u64, percent: u64| {
        Quantity::from_bytes(i64::try_from(((memory << 20) * percent).div_ceil(100)).unwrap())
    };
    let node_config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {evictionHard: {memory.available: 5%}}}}\n";
    let toml = "[settings.kubernetes.eviction-hard]\n\"memory.available\" = \"5%\"\n";
    for (family, user_data, hard, expected) in [
        (AmiFamily::AL2023, None, Some("10%"), (share(7_577, 10), share(7_800, 10), share(7_000, 10))),
        (AmiFamily::AL2023, Some(node_config), None, (share(7_577, 5), share(7_800, 5), share(7_000, 5))),
        (AmiFamily::Bottlerocket, Some(toml), None, (share(7_577, 5), share(7_800, 5), share(7_000, 5))),
        (AmiFamily::AL2, None, Some("100%"), (Quantity::ZERO, Quantity::ZERO, Quantity::ZERO)),
        (AmiFamily::Windows2022, None, Some("500Mi"), (mib(500), mib(500), mib(500))),
        (AmiFamily::AL2023, None, None, (mib(100), mib(100), mib(100))),
    ] {
        let mut class = class(family);
        class.spec.user_data = user_data.map(str::to_owned);
        class.spec.kubelet = Some(KubeletBlock::from(KubeletConfiguration {
            eviction_hard: hard.map(|hard| [("memory.available".to_owned(), hard.to_owned())].into()),
            // A soft threshold takes nothing from pods.
            eviction_soft: Some([("memory.available".to_owned(), "50%".to_owned())].into()),
            ..Default::default()
        }));
        let of = |memory: Option<Quantity>| built_of(&t3_large(), memory, &class, &settings);
        let kept = |memory| of(memory).overhead.eviction.amount("memory");
        let all = (kept(None), kept(Some(mib(7_800))), kept(Some(mib(7_000))));
        assert_eq!(all, expected, "{family:?} {user_data:?} {hard:?}");
        assert_eq!(of(Some(mib(7_800))).capacity.amount("memory"), mib(7_800));
        let (seen, guessed) = (of(Some(mib(7_800))).overhead, of(None).overhead);
        assert_eq!(seen.kube_reserved, guessed.kube_reserved);
        assert_eq!(seen.eviction.amount("ephemeral-storage"), guessed.eviction.amount("ephemeral-storage"));
    }
}

#[test]
fn expressions_follow_the_type_and_are_left_out_while_they_are_off() {
    let on = Settings {
        gates: Gates { node_class_cel: true, ..Gates::default() },
        ..Settings::new("demo", "https://demo")
    };
    let off = Settings::new("demo", "https://demo");
    let (large, much_larger) = (machine("m5.large", 2, 8, 3, 10), machine("m5.4xlarge", 16, 64, 8, 30));
    let class_of = |block: serde_json::Value| {
        let mut class = class(AmiFamily::AL2023);
        class.spec.kubelet = Some(serde_json::from_value(block).unwrap());
        class
    };
    let pods = |info: &InstanceTypeInfo, class: &EC2NodeClass, settings: &Settings| {
        built_with(info, class, settings).capacity.amount("pods").as_units_ceil()
    };
    let density = "min(110, default_enis * (ips_per_eni - 1) + 2)";
    let dense = class_of(serde_json::json!({"maxPods": density}));
    assert_eq!((pods(&large, &dense, &on), pods(&much_larger, &dense, &on)), (29, 110));
    assert_eq!((pods(&large, &dense, &off), pods(&much_larger, &dense, &off)), (29, 234), "the default");
    let few = class_of(serde_json::json!({"maxPods": "max_pods / 2 + vcpus", "podsPerCore": 10}));
    // The default of 29 is capped to 20 before the expression sees it.
    assert_eq!((pods(&large, &few, &on), pods(&large, &few, &off)), (12, 20));

    let reserved = class_of(serde_json::json!({
        "maxPods": "20 + 9",
        "kubeReserved": {"cpu": "vcpus * 31 + 1", "memory": "11 * max_pods + 255"},
        "systemReserved": {"pid": "1000 * vcpus", "ephemeral-storage": "vcpus / 2", "memory": "100Mi"},
    }));
    let overhead = built_with(&large, &reserved, &on).overhead;
    let kube = r#"{"cpu":"70m","ephemeral-storage":"1Gi","memory":"576Mi"}"#;
    assert_eq!(overhead.kube_reserved.to_string(), kube);
    let system = r#"{"ephemeral-storage":"1Gi","memory":"100Mi","pid":"2k"}"#;
    assert_eq!(overhead.system_reserved.to_string(), system);
    let without = built_with(&large, &reserved, &off).overhead;
    assert_eq!(without.kube_reserved, built(&large, &class(AmiFamily::AL2023)).overhead.kube_reserved);
    assert_eq!(without.system_reserved.to_string(), r#"{"memory":"100Mi"}"#);
}

/// What a class asks to be explicit is what is planned, key by key, unless the user states another amount.
#[test]
fn explicit_reservations_are_those_that_are_planned() {
    let settings = Settings::new("demo", "https://demo");
    let m5 = machine("m5.xlarge", 4, 16, 4, 15);
    let explicit = |mut class: EC2NodeClass| {
        let annotation = karpenter_model::names::annotation::aws::EXPLICIT_RESERVATIONS.to_owned();
        class.metadata.annotations = Some([(annotation, "true".to_owned())].into());
        class
    };
    let stated = |class: &EC2NodeClass| {
        let evaluated = kubelet::evaluate(&m5, &ClassView::new(class), &settings).unwrap();
        assert_eq!((evaluated.max_pods, evaluated.system_reserved.len()), (None, 0));
        let pairs: Vec<String> =
            evaluated.kube_reserved.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        pairs.join(",")
    };
    for (family, kube_reserved) in [
        (AmiFamily::AL2, "cpu=80m,ephemeral-storage=1Gi,memory=893Mi"),
        (AmiFamily::AL2023, "cpu=80m,ephemeral-storage=1Gi,memory=893Mi"),
        (AmiFamily::Bottlerocket, "cpu=80m,ephemeral-storage=1Gi,memory=365Mi"),
        (AmiFamily::Windows2022, "cpu=80m,ephemeral-storage=1Gi,memory=365Mi"),
        (AmiFamily::Custom, ""),
    ] {
        let plain = kubelet(family, Some(10));
        assert_eq!(stated(&plain), "", "{family:?}");
        let class = explicit(plain.clone());
        assert_eq!(stated(&class), kube_reserved, "{family:?}");
        assert_eq!(built(&m5, &class).overhead, built(&m5, &plain).overhead, "{family:?}");
    }
    let mut partly = explicit(class(AmiFamily::AL2023));
    partly.spec.kubelet =
        Some(serde_json::from_value(serde_json::json!({"kubeReserved": {"cpu": "1"}})).unwrap());
    partly.spec.user_data = Some(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {kubeReserved: {memory: 2Gi}}}}\n"
            .to_owned(),
    );
    assert_eq!(stated(&partly), "ephemeral-storage=1Gi");
    let reserved = built(&m5, &partly).overhead.kube_reserved.to_string();
    assert_eq!(reserved, r#"{"cpu":"1","ephemeral-storage":"1Gi","memory":"2Gi"}"#);
}

#[test]
fn an_expression_without_a_result_says_where_and_why() {
    let settings = Settings::new("demo", "https://demo");
    for (block, error) in [
        (serde_json::json!({"maxPods": "100 / (vcpus - 2)"}), Some("maxPods: Division by zero of ")),
        (
            serde_json::json!({"maxPods": "vcpus - 3"}),
            Some("maxPods: the result is -1 and must be from 0 to 2147483647"),
        ),
        (
            serde_json::json!({"kubeReserved": {"cpu": "1 - vcpus"}}),
            Some("kubeReserved.cpu: the result -1 is negative"),
        ),
        (serde_json::json!({"maxPods": "100 / (vcpus - 1)"}), None),
    ] {
        let mut class = class(AmiFamily::AL2023);
        class.spec.kubelet = Some(serde_json::from_value(block.clone()).unwrap());
        let view = ClassView::new(&class).evaluating(true);
        let found = kubelet::evaluate(&t3_large(), &view, &settings).err().map(|failure| failure.to_string());
        let fits = match (&found, error) {
            (Some(found), Some(error)) => found.starts_with(error),
            (found, error) => found.is_none() && error.is_none(),
        };
        assert!(fits, "{block}: {found:?}");
    }
}

#[test]
fn overhead_of_known_types() {
    let m5_xlarge = machine("m5.xlarge", 4, 16, 4, 15);
    for (class, mib) in [
        (class(AmiFamily::AL2), 993),
        (class(AmiFamily::AL2023), 993),
        (class(AmiFamily::Bottlerocket), 993),
        (kubelet(AmiFamily::Bottlerocket, Some(110)), 1_565),
        (kubelet(AmiFamily::AL2023, Some(110)), 993),
    ] {
        let total = built(&m5_xlarge, &class).overhead.total();
        assert_eq!(total.amount("memory"), capacity::mib(mib), "{:?}", class.spec);
        assert_eq!(total.amount("cpu").as_millis_ceil(), 80);
    }
    for (family, mib) in [
        (AmiFamily::AL2, 640),
        (AmiFamily::AL2023, 640),
        (AmiFamily::Custom, 640),
        (AmiFamily::Bottlerocket, 365),
        (AmiFamily::Windows2022, 365),
    ] {
        let reserved = built(&t3_large(), &kubelet(family, Some(10))).overhead.kube_reserved;
        assert_eq!(reserved.amount("memory"), capacity::mib(mib), "{family:?}");
    }
}

#[test]
fn reserved_interfaces_lower_pods_and_for_some_families_the_overhead() {
    let settings = Settings { reserved_enis: 1, ..Settings::new("demo", "https://demo") };
    for (family, pods, mib) in [
        (AmiFamily::Bottlerocket, 24, 519),
        (AmiFamily::Windows2022, 110, 1_465),
        (AmiFamily::AL2023, 24, 640),
    ] {
        let t3 = built_with(&t3_large(), &class(family), &settings);
        assert_eq!(t3.capacity.amount("pods").as_units_ceil(), pods, "{family:?}");
        assert_eq!(t3.overhead.kube_reserved.amount("memory"), capacity::mib(mib), "{family:?}");
    }
}

#[test]
fn ephemeral_storage_comes_from_the_disk_behind_the_kubelet() {
    use AmiFamily::{AL2023, Bottlerocket, Custom, Windows2022};

    let mapping = |device: &str, size: Option<&str>, root_volume| BlockDeviceMapping {
        device_name: Some(device.to_owned()),
        ebs: Some(BlockDevice { volume_size: size.map(str::to_owned), ..Default::default() }),
        root_volume,
    };
    let storage = |family, mappings: Vec<BlockDeviceMapping>, raid0: bool| {
        let mut class = class(family);
        class.spec.block_device_mappings = (!mappings.is_empty()).then_some(mappings);
        class.spec.instance_store_policy = raid0.then_some(InstanceStorePolicy::RAID0);
        built(&g4dn(), &class).capacity.amount("ephemeral-storage").to_string()
    };
    assert_eq!(storage(AL2023, vec![], false), "20Gi");
    assert_eq!(storage(Bottlerocket, vec![], false), "20Gi");
    assert_eq!(storage(Windows2022, vec![], false), "50Gi");
    assert_eq!(storage(Custom, vec![], false), "20Gi");
    assert_eq!(storage(AL2023, vec![mapping("/dev/xvda", Some("100Gi"), false)], false), "100Gi");
    assert_eq!(storage(AL2023, vec![mapping("/dev/xvdb", Some("100Gi"), false)], false), "20Gi");
    assert_eq!(storage(Bottlerocket, vec![mapping("/dev/xvdb", Some("100G"), false)], false), "100G");
    let root = vec![mapping("/dev/xvda", Some("1Gi"), false), mapping("/dev/xvdz", Some("7Gi"), true)];
    assert_eq!(storage(AL2023, root, false), "7Gi");
    let last = vec![mapping("/dev/a", Some("1Gi"), false), mapping("/dev/b", Some("9Gi"), false)];
    assert_eq!(storage(Custom, last, false), "9Gi");
    assert_eq!(storage(Custom, vec![mapping("/dev/a", None, false)], false), "20Gi");
    assert_eq!(storage(AL2023, vec![mapping("/dev/xvda", None, false)], false), "20Gi", "snapshot only");
    assert_eq!(storage(AL2023, vec![mapping("/dev/xvda", Some("100Gi"), false)], true), "900G");
}

#[test]
fn network_bandwidth_is_what_all_cards_sustain_and_absent_unless_each_says() {
    let of = |network_cards: Vec<NetworkCard>| {
        let info = InstanceTypeInfo { network_cards, ..t3_large() };
        label(&built(&info, &class(AmiFamily::AL2023)), aws::INSTANCE_NETWORK_BANDWIDTH)
    };
    assert_eq!(of(vec![card(0), card(1)]), "50000");
    assert_eq!(of(vec![card(0), NetworkCard { baseline_mbps: None, ..card(1) }]), "");
    assert_eq!(of(Vec::new()), "");
}

#[test]
fn interfaces_of_the_class_decide_pods_and_adapters() {
    let info = InstanceTypeInfo {
        network_cards: (0..2).map(card).collect(),
        maximum_efa_interfaces: 2,
        ..machine("m6idn.32xlarge", 128, 512, 8, 50)
    };
    let nic = |card, device, interface_type| NetworkInterface {
        network_card_index: card,
        device_index: device,
        interface_type,
    };
    let counts = |nics: Option<Vec<NetworkInterface>>| {
        let mut class = class(AmiFamily::AL2023);
        class.spec.network_interfaces = nics;
        let built = built(&info, &class).capacity;
        (built.amount("pods").as_units_ceil(), built.amount(capacity::EFA).as_units_ceil())
    };
    let primary = nic(0, 0, InterfaceType::Interface);
    assert_eq!(counts(None), (394, 2));
    assert_eq!(counts(Some(vec![])), (394, 0));
    assert_eq!(counts(Some(vec![primary.clone(), nic(0, 1, InterfaceType::EfaOnly)])), (345, 1));
    assert_eq!(counts(Some(vec![primary, nic(1, 0, InterfaceType::EfaOnly)])), (394, 1));
}

/// aws PR#5666: EC2 refuses a public address by request on several interfaces.
#[test]
fn adapters_on_several_cards_are_not_offered_with_public_addresses() {
    let type_of = |cards: u32, adapters| InstanceTypeInfo {
        network_cards: (0..cards).map(card).collect(),
        maximum_efa_interfaces: adapters,
        ..machine("p5.48xlarge", 192, 2_048, 8, 50)
    };
    for (cards, adapters, public, offered) in [
        (32, 32, Some(true), 0),
        (32, 32, Some(false), 32),
        (32, 32, None, 32),
        (1, 1, Some(true), 1),
        (17, 16, Some(true), 0),
        (1, 0, Some(true), 0),
    ] {
        let mut class = class(AmiFamily::AL2023);
        class.spec.associate_public_ip_address = public;
        let built = built(&type_of(cards, adapters), &class).capacity;
        assert_eq!(built.amount(capacity::EFA).as_units_ceil(), offered, "{cards} {adapters} {public:?}");
    }
}

#[test]
fn incompatible_types_are_told_apart() {
    let check = |info: &InstanceTypeInfo, edit: &dyn Fn(&mut EC2NodeClass), family| {
        let mut class = class(family);
        edit(&mut class);
        mismatch(info, &ClassView::new(&class))
    };
    let none: &dyn Fn(&mut EC2NodeClass) = &|_| {};
    let a1 = machine("a1.large", 2, 4, 3, 10);
    assert_eq!(check(&a1, none, AmiFamily::AL2023), Some(Mismatch::Family));
    assert_eq!(check(&a1, none, AmiFamily::Bottlerocket), None);
    let tracking: &dyn Fn(&mut EC2NodeClass) =
        &|class| class.spec.connection_tracking = Some(ConnectionTracking::default());
    let metal = InstanceTypeInfo { hypervisor: String::new(), ..t3_large() };
    assert_eq!(check(&t3_large(), tracking, AmiFamily::AL2023), None);
    assert_eq!(check(&metal, tracking, AmiFamily::AL2023), Some(Mismatch::ConnectionTracking));
    let nested = |toggle| {
        move |class: &mut EC2NodeClass| {
            class.spec.cpu_options = Some(CpuOptions { nested_virtualization: Some(toggle) });
        }
    };
    let capable = InstanceTypeInfo { processor_features: vec!["nested-virtualization".into()], ..t3_large() };
    let enabled = nested(Toggle::Enabled);
    assert_eq!(check(&t3_large(), &enabled, AmiFamily::AL2023), Some(Mismatch::NestedVirtualization));
    assert_eq!(check(&capable, &enabled, AmiFamily::AL2023), None);
    assert_eq!(check(&t3_large(), &nested(Toggle::Disabled), AmiFamily::AL2023), None);
    let enclaves = |enabled| {
        move |class: &mut EC2NodeClass| class.spec.enclave_options = Some(EnclaveOptions { enabled })
    };
    let capable = InstanceTypeInfo { nitro_enclaves: true, ..machine("m5.xlarge", 4, 16, 4, 15) };
    let t2 = InstanceTypeInfo { hypervisor: "xen".into(), ..machine("t2.xlarge", 4, 16, 3, 15) };
    assert_eq!(check(&t2, &enclaves(true), AmiFamily::AL2023), Some(Mismatch::Enclaves));
    assert_eq!(check(&t2, &enclaves(false), AmiFamily::AL2023), None);
    assert_eq!(check(&capable, &enclaves(true), AmiFamily::AL2023), None);
    let nics = |card, device| {
        move |class: &mut EC2NodeClass| {
            let nic = NetworkInterface {
                network_card_index: card,
                device_index: device,
                interface_type: InterfaceType::Interface,
            };
            class.spec.network_interfaces = Some(vec![nic]);
        }
    };
    assert_eq!(check(&t3_large(), &nics(0, 2), AmiFamily::AL2023), None);
    assert_eq!(check(&t3_large(), &nics(0, 3), AmiFamily::AL2023), Some(Mismatch::Network), "no such device");
    assert_eq!(check(&t3_large(), &nics(1, 0), AmiFamily::AL2023), Some(Mismatch::Network), "no such card");
    let no_ena = InstanceTypeInfo { ena_support: "unsupported".into(), ..t3_large() };
    assert_eq!(check(&no_ena, &nics(0, 0), AmiFamily::AL2023), Some(Mismatch::Network));
}
