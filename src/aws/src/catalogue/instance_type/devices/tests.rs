//! Devices of whole types, and claims against them.

use super::*;
use crate::testing::machine;

const BOTH: Gates =
    Gates { node_class_cel: false, dra_nvidia_gpu: true, dra_efa: true, reboot_for_repair: false };

fn sold(name: &str, (model, count, memory_mib): (&str, u32, u64), adapters: u32) -> InstanceTypeInfo {
    let gpu = Gpu { name: model.into(), manufacturer: "NVIDIA".into(), count, memory_mib };
    InstanceTypeInfo {
        gpus: if count > 0 { vec![gpu] } else { Vec::new() },
        maximum_efa_interfaces: adapters,
        ..machine(name, 96, 1_024, 8, 30)
    }
}

fn of(info: &InstanceTypeInfo) -> DeviceTemplates {
    devices(info, info.maximum_efa_interfaces, None, BOTH).expect("it has devices")
}

fn names(devices: &[Device]) -> Vec<&str> {
    devices.iter().map(|device| device.name.as_str()).collect()
}

/// Devices under one root, by name.
fn under_one_root(templates: &DeviceTemplates) -> Vec<String> {
    let roots = templates.bindings.iter().filter(|binding| binding.attribute == *ROOT);
    let names = |binding: &AttributeBinding| {
        binding.devices.iter().map(|(_, _, name)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    roots.map(names).collect()
}

#[test]
fn processors_are_described_as_their_driver_does() {
    let templates = of(&sold("g6.12xlarge", ("L4", 4, 22_888), 0));
    let [slice] = templates.slices.as_slice() else { panic!("{templates:?}") };
    assert_eq!((slice.driver.as_str(), slice.pool.as_str()), ("gpu.nvidia.com", "gpus"));
    assert_eq!(names(&slice.devices), ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    let first = &slice.devices[0];
    let attributes: Vec<_> =
        first.attributes.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
    assert_eq!(
        attributes,
        [
            r#"gpu.nvidia.com/architecture Text("Ada Lovelace")"#,
            r#"gpu.nvidia.com/brand Text("Nvidia")"#,
            r#"gpu.nvidia.com/cudaComputeCapability Version("8.9.0")"#,
            r#"gpu.nvidia.com/productName Text("NVIDIA L4")"#,
            r#"gpu.nvidia.com/type Text("gpu")"#,
        ]
    );
    let memory = &first.capacity[&QualifiedName::from("gpu.nvidia.com/memory")];
    assert_eq!((memory.value.to_string().as_str(), &memory.policy), ("23034Mi", &None));
    assert!(!first.shareable);
    let versions: Vec<_> = templates.bindings.iter().filter(|binding| binding.devices.len() == 4).collect();
    let attributes: Vec<&str> = versions.iter().map(|binding| binding.attribute.as_str()).collect();
    assert_eq!(attributes, ["gpu.nvidia.com/driverVersion", "gpu.nvidia.com/cudaDriverVersion"]);
}

#[test]
fn the_memory_is_that_of_the_model_and_of_a_part_what_ec2_says() {
    for (name, gpu, memory, product) in [
        ("g4dn.xlarge", ("T4", 1, 16_384), "15Gi", Some("Tesla T4")),
        ("p4d.24xlarge", ("A100", 8, 40_960), "40Gi", Some("NVIDIA A100-SXM4-40GB")),
        ("p4de.24xlarge", ("A100", 8, 81_920), "80Gi", Some("NVIDIA A100-SXM4-80GB")),
        ("p5.48xlarge", ("H100", 8, 81_920), "81152Mi", Some("NVIDIA H100 80GB HBM3")),
        ("g6f.xlarge", ("L4", 1, 2_861), "2861Mi", None),
        ("gr6f.4xlarge", ("L4", 1, 11_444), "11444Mi", None),
    ] {
        let templates = of(&sold(name, gpu, 0));
        let device = &templates.slices[0].devices[0];
        let amount = device.capacity[&QualifiedName::from("gpu.nvidia.com/memory")].value;
        let called = device.attributes.get(&QualifiedName::from("gpu.nvidia.com/productName"));
        assert_eq!(amount, memory.parse().unwrap(), "{name}");
        assert_eq!(called, product.map(|text| AttributeValue::Text(text.to_owned())).as_ref(), "{name}");
    }
}

#[test]
fn devices_share_a_root_where_it_is_known() {
    let root = |info| under_one_root(&of(&info));
    assert_eq!(root(sold("g5.12xlarge", ("A10G", 4, 22_888), 1)), ["gpu-0 gpu-1 gpu-2 gpu-3", "efa-0"]);
    assert_eq!(
        root(sold("g6.12xlarge", ("L4", 4, 22_888), 1)),
        ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "efa-0"]
    );
    assert_eq!(root(sold("p5.4xlarge", ("H100", 1, 81_920), 1)), ["gpu-0 efa-0"]);
    let large = root(sold("p5.48xlarge", ("H100", 8, 81_920), 32));
    assert_eq!((large.len(), large[7].as_str()), (8, "gpu-7 efa-28 efa-29 efa-30 efa-31"));
    let older = root(sold("p4d.24xlarge", ("A100", 8, 40_960), 4));
    assert_eq!(older, ["gpu-0 gpu-1 efa-0", "gpu-2 gpu-3 efa-1", "gpu-4 gpu-5 efa-2", "gpu-6 gpu-7 efa-3"]);
    assert_eq!(root(sold("c5n.18xlarge", ("", 0, 0), 1)), ["efa-0"]);
}

#[test]
fn half_of_the_adapters_are_at_each_numa_node_where_there_are_two() {
    let nodes = |name, adapters| {
        let templates = of(&sold(name, ("A100", 8, 40_960), adapters));
        let network = templates.slices.iter().filter(|slice| slice.driver == *NETWORK);
        let devices = network.flat_map(|slice| &slice.devices);
        let node =
            |device: &Device| device.attributes.get(&QualifiedName::within("numaNode", NETWORK)).cloned();
        devices.map(node).collect::<Vec<_>>()
    };
    let [zero, one] = [0, 1].map(|node| Some(AttributeValue::Int(node)));
    assert_eq!(nodes("p4d.24xlarge", 4), [zero.clone(), zero.clone(), one.clone(), one.clone()]);
    assert_eq!(nodes("p5.48xlarge", 32), [vec![zero; 16], vec![one; 16]].concat());
    assert_eq!(nodes("p5.4xlarge", 1), [None], "there is one node");
    assert_eq!(nodes("g6e.48xlarge", 4), [None, None, None, None], "it is not known which are where");
}

#[test]
fn each_driver_has_its_gate_and_adapters_are_those_that_can_be_attached() {
    let info = sold("p5.4xlarge", ("H100", 1, 81_920), 1);
    let drivers = |gates: Gates, adapters| {
        let templates = devices(&info, adapters, None, gates).unwrap_or_default();
        let devices =
            templates.slices.iter().map(|slice| format!("{} {}", slice.driver, slice.devices.len()));
        let named = templates.bindings.iter().flat_map(|binding| &binding.devices);
        for (driver, _, _) in named {
            assert!(templates.slices.iter().any(|slice| slice.driver == *driver), "{driver}");
        }
        devices.collect::<Vec<_>>()
    };
    assert_eq!(drivers(BOTH, 1), ["gpu.nvidia.com 1", "dra.net 1"]);
    assert_eq!(drivers(BOTH, 0), ["gpu.nvidia.com 1"], "the class has interfaces of its own");
    assert_eq!(drivers(Gates { dra_efa: false, ..BOTH }, 1), ["gpu.nvidia.com 1"]);
    assert_eq!(drivers(Gates { dra_nvidia_gpu: false, ..BOTH }, 1), ["dra.net 1"]);
    assert_eq!(devices(&info, 1, None, Gates::default()), None);
    assert_eq!(devices(&machine("m5.large", 2, 8, 3, 10), 0, None, BOTH), None);
    let unknown = sold("g9.xlarge", ("X1", 1, 8_192), 0);
    assert_eq!(devices(&unknown, 0, None, BOTH), None, "a model that is not known");
}

#[test]
fn sharing_follows_the_annotation_of_the_class() {
    let info = sold("g6.xlarge", ("L4", 1, 22_888), 0);
    let read = |text: &str| {
        let annotations = BTreeMap::from([(SHARING.to_owned(), text.to_owned())]);
        let templates = devices(&info, 0, Some(&annotations), BOTH).expect("it has devices");
        let device = templates.slices[0].devices[0].clone();
        let policy = |name: &str| device.capacity.get(&QualifiedName::within(name, NVIDIA)).cloned();
        (device.shareable, policy("shares"), policy("memory").and_then(|memory| memory.policy))
    };
    let units = Quantity::from_units;
    let anything = || {
        let values = CapacityValues::Range { min: units(0), max: None, step: None };
        Some(CapacityPolicy { default: Some(units(0)), values })
    };
    for text in ["", "disabled", "0", "-1", "2.5", "many"] {
        assert_eq!(read(text), (false, None, None), "{text}");
    }
    let (shareable, shares, memory) = read("4");
    let values = CapacityValues::Range { min: units(1), max: Some(units(4)), step: Some(units(1)) };
    let policy = Some(CapacityPolicy { default: Some(units(1)), values });
    assert_eq!((shareable, shares), (true, Some(DeviceCapacity { value: units(4), policy })));
    assert_eq!(memory, anything());
    assert_eq!(read("unlimited"), (true, None, anything()));
    let mib = Quantity::from_bytes(1 << 20);
    let values = CapacityValues::Range { min: mib, max: None, step: Some(mib) };
    assert_eq!(read("memory"), (true, None, Some(CapacityPolicy { default: None, values })));
}
