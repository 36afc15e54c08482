//! Devices of new machines, foreseen from what nodes have published.

use karpenter_model::device::{DeviceCapacity, Reach};
use karpenter_model::names::label;
use karpenter_model::{Effect, Quantity, Taint};

use super::*;

const DRIVER: &str = "npu.example.com";

fn qualified(name: &str) -> QualifiedName {
    QualifiedName::within(name, DRIVER)
}

/// `name key=value ...`: a device with these attributes; `memory=` is a capacity.
fn device(text: &str) -> Device {
    let mut words = text.split(' ');
    let mut device = Device {
        name: words.next().unwrap_or_default().into(),
        attributes: BTreeMap::new(),
        capacity: BTreeMap::new(),
        draws: Vec::new(),
        shareable: false,
        taints: vec![Taint::new("sick", "", Effect::NoSchedule)],
        unsupported: None,
    };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        if key == "memory" {
            let value = value.parse::<Quantity>().expect("a quantity");
            device.capacity.insert(qualified(key), DeviceCapacity { value, policy: None });
        } else {
            device.attributes.insert(qualified(key), AttributeValue::Text(value.to_owned()));
        }
    }
    device
}

fn slice(node: &str, devices: &[&str]) -> Arc<ResourceSlice> {
    Arc::new(ResourceSlice {
        name: format!("{node}-slice"),
        owner: Some(node.into()),
        driver: DRIVER.into(),
        pool: node.into(),
        generation: 1,
        slice_count: 1,
        reach: Reach::Node(node.into()),
        counters: Vec::new(),
        devices: devices.iter().map(|text| device(text)).collect(),
    })
}

/// The claim of node `name`, the `age`th, with these conditions.
fn claim(name: &str, age: i64, conditions: &[ConditionType]) -> Claim {
    let at = |seconds| Timestamp::from_second(1_800_000_000 + seconds).expect("in range");
    let mut claim = Claim { pool: Some("web".into()), ..Claim::bare(name, at(age)) };
    claim.labels.insert(label::INSTANCE_TYPE.into(), "inf2.xlarge".into());
    claim.holding(conditions, at(age))
}

fn up(name: &str, age: i64) -> Claim {
    claim(name, age, &[ConditionType::Initialized])
}

fn launched_for(driver: &str, claim: Claim) -> Claim {
    let mut claim = claim;
    claim.annotations.insert(annotation::REQUESTED_DRIVERS.to_owned(), driver.to_owned());
    claim
}

/// What the cloud describes: these devices, and groups of them under one root.
fn described(devices: &[&str], groups: &[&[&str]]) -> Arc<DeviceTemplates> {
    let untainted = |text: &&str| Device { taints: Vec::new(), ..device(text) };
    let slice = SliceTemplate {
        driver: DRIVER.into(),
        pool: "npus".into(),
        counters: Vec::new(),
        devices: devices.iter().map(untainted).collect(),
    };
    let binding = |devices: &&[&str]| AttributeBinding {
        attribute: qualified("root"),
        devices: devices.iter().map(|name| (DRIVER.into(), "npus".into(), (*name).into())).collect(),
    };
    Arc::new(DeviceTemplates { slices: vec![slice], bindings: groups.iter().map(binding).collect() })
}

/// What is foreseen, as text: `device key=value`, then `attribute: devices that share it`.
fn foreseen(brought: &Brought, of_cloud: Option<&Arc<DeviceTemplates>>) -> Vec<String> {
    let Some(templates) = brought.templates(&"web".into(), &"inf2.xlarge".into(), of_cloud) else {
        return Vec::new();
    };
    let devices = templates.slices.iter().flat_map(|slice| {
        slice.devices.iter().map(move |device| {
            assert_eq!(device.taints, [], "a taint is about one device");
            let attributes = device.attributes.iter().map(|(name, value)| match value {
                AttributeValue::Text(text) => format!(" {}={text}", name.parts().1),
                other => panic!("{other:?}"),
            });
            format!("{}/{}{}", slice.pool, device.name, attributes.collect::<String>())
        })
    });
    let bindings = templates.bindings.iter().map(|binding| {
        let names: Vec<&str> = binding.devices.iter().map(|(_, _, name)| name.as_str()).collect();
        format!("{}: {}", binding.attribute.parts().1, names.join(" "))
    });
    devices.chain(bindings).collect()
}

#[test]
fn the_first_node_shows_what_the_next_one_will_have() {
    let mut brought = Brought::default();
    let published = slice("n1", &["a model=x root=1", "b model=x root=2"]);
    brought.look(&claim("n1", 1, &[ConditionType::Registered]), &"n1".into(), [&published].into_iter());
    assert_eq!(foreseen(&brought, None), [""; 0], "it is not initialized");
    let part = Arc::new(ResourceSlice { slice_count: 2, ..(*published).clone() });
    brought.look(&up("n1", 1), &"n1".into(), [&part].into_iter());
    assert_eq!(foreseen(&brought, None), [""; 0], "its pool is not complete");
    brought.look(&up("n1", 1), &"n1".into(), [&published].into_iter());
    let whole = ["node/a model=x root=1", "node/b model=x root=2"];
    assert_eq!(foreseen(&brought, None), whole);
    brought.look(&up("n1", 1), &"n1".into(), std::iter::empty());
    assert_eq!(foreseen(&brought, None), whole, "its driver starts again");
    assert_eq!(brought.templates(&"other".into(), &"inf2.xlarge".into(), None), None);
    assert_eq!(brought.templates(&"web".into(), &"inf2.24xlarge".into(), None), None);
}

#[test]
fn attributes_count_where_nodes_agree_and_bind_devices_where_they_do_not() {
    let mut brought = Brought::default();
    let first = slice("n1", &["a model=x root=1 id=1a", "b model=x root=1 id=1b", "c model=x root=2 id=1c"]);
    let second = slice("n2", &["a model=x root=7 id=2a", "b model=x root=7 id=2b", "c model=y root=8 id=2c"]);
    brought.look(&up("n2", 2), &"n2".into(), [&second].into_iter());
    brought.look(&up("n1", 1), &"n1".into(), [&first].into_iter());
    let expected = [
        "node/a model=x",
        "node/b model=x",
        "node/c",
        "id: a",
        "id: b",
        "id: c",
        "model: c",
        "root: a b",
        "root: c",
    ];
    assert_eq!(foreseen(&brought, None), expected);
    let third = slice("n3", &["a model=x root=1 id=3a"]);
    brought.look(&up("n3", 3), &"n3".into(), [&third].into_iter());
    assert_eq!(foreseen(&brought, None), ["node/a model=x", "id: a", "root: a"], "the youngest has one");
}

#[test]
fn what_nodes_have_shown_goes_with_the_class_and_with_drift() {
    let published = slice("n1", &["a model=x"]);
    let mut brought = Brought::default();
    brought.look(&up("n1", 1), &"n1".into(), [&published].into_iter());
    let drifted = claim("n1", 1, &[ConditionType::Initialized, ConditionType::Drifted]);
    brought.look(&drifted, &"n1".into(), [&published].into_iter());
    assert_eq!(foreseen(&brought, None), [""; 0]);
    brought.look(&up("n1", 1), &"n1".into(), [&published].into_iter());
    brought.forget(&"web".into());
    assert_eq!(foreseen(&brought, None), [""; 0]);
    for number in 0..=NODES {
        let (name, shown) = (format!("n{number}"), if number == 0 { "a model=old" } else { "a model=x" });
        let age = i64::try_from(number).expect("few");
        brought.look(&up(&name, age), &name.as_str().into(), [&slice(&name, &[shown])].into_iter());
    }
    assert_eq!(foreseen(&brought, None), ["node/a model=x"], "only the last nodes are compared");
}

#[test]
fn a_description_counts_until_a_node_that_was_launched_for_it_has_something_else() {
    let promised = described(&["npu-0 model=x memory=8", "npu-1 model=x memory=8"], &[&["npu-0", "npu-1"]]);
    let of_cloud = ["npus/npu-0 model=x", "npus/npu-1 model=x", "root: npu-0 npu-1"];
    let roots = "fewer devices with the same `npu.example.com/root`";
    for (case, published, difference) in [
        ("as described", &["a model=x memory=8 root=1", "b model=x memory=9 root=1"] as &[_], None),
        ("one more", &["a model=x memory=8 root=1", "c", "b model=x memory=8 root=1"], None),
        ("one less", &["a model=x memory=8 root=1"], Some("1 devices instead of 2")),
        (
            "another model",
            &["a model=x memory=8 root=1", "b model=z memory=8 root=1"],
            Some("device `b` with another `npu.example.com/model` instead of `npu-1`"),
        ),
        (
            "less memory",
            &["a model=x memory=8 root=1", "b model=x memory=7 root=1"],
            Some("device `b` with another `npu.example.com/memory` instead of `npu-1`"),
        ),
        ("two roots", &["a model=x memory=8 root=1", "b model=x memory=8 root=2"], Some(roots)),
        ("no root", &["a model=x memory=8", "b model=x memory=8"], Some(roots)),
    ] {
        let keeps = difference.is_none();
        let mut brought = Brought::default();
        let published = slice("n1", published);
        brought.look(&up("n1", 1), &"n1".into(), [&published].into_iter());
        assert_eq!(
            foreseen(&brought, Some(&promised)),
            of_cloud,
            "{case}: it was launched for something else"
        );
        let claim = launched_for("other.example.com,npu.example.com", up("n1", 1));
        brought.look(&claim, &"n1".into(), [&published].into_iter());
        let now = foreseen(&brought, Some(&promised));
        assert_eq!(now == of_cloud, keeps, "{case}: {now:?}");
        let told = brought.contradictions(&"web".into(), &"inf2.xlarge".into(), &promised);
        let told: Vec<&str> = told.iter().map(|one| one.difference.as_str()).collect();
        assert_eq!(told, difference.into_iter().collect::<Vec<_>>(), "{case}");
        if !keeps {
            assert!(now[0].starts_with("node/a"), "{case}: the node counts: {now:?}");
        }
    }
}

#[test]
fn drivers_that_are_described_and_others_are_foreseen_beside_each_other() {
    let mut promised = (*described(&["npu-0 model=x"], &[&["npu-0"]])).clone();
    let driver = DriverName::from("gpu.example.com");
    promised.slices[0].driver = driver.clone();
    promised.bindings[0].devices[0].0 = driver;
    let mut brought = Brought::default();
    brought.look(&up("n1", 1), &"n1".into(), [&slice("n1", &["a"])].into_iter());
    let both = foreseen(&brought, Some(&Arc::new(promised)));
    assert_eq!(both, ["npus/npu-0 model=x", "node/a", "root: npu-0"]);
}
