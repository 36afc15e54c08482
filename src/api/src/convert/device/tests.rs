//! Slices and claims as the API server shows them.
#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are handed over")]

use karpenter_model::Expression;
use karpenter_model::Operator;
use karpenter_model::device::{AllocatedDevice, Consumer, DeviceConstraint, DeviceCount, RequestKind};
use karpenter_model::{PodKey, PodUid};
use serde_json::{Value, json};

use super::*;

fn slice(spec: Value) -> Result<ResourceSlice, Error> {
    let object = json!({
        "metadata": {"name": "slice-1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u"}]},
        "spec": spec,
    });
    resource_slice(&serde_json::from_value(object).unwrap())
}

#[test]
fn slices_say_what_devices_there_are_and_where() {
    let read = slice(json!({
        "driver": "gpu.example.com",
        "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 2},
        "nodeName": "node-1",
        "sharedCounters": [{"name": "chip", "counters": {"memory": {"value": "40Gi"}}}],
        "devices": [{
            "name": "gpu-0",
            "allowMultipleAllocations": true,
            "attributes": {
                "model": {"string": "a100"},
                "index": {"int": 0},
                "gpu.example.com/fast": {"bool": true},
                "other.example.com/driver": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "40Gi", "requestPolicy": {
                "default": "1Gi", "validRange": {"min": "1Gi", "max": "20Gi", "step": "1Gi"}}}},
            "consumesCounters": [{"counterSet": "chip", "counters": {"memory": {"value": "10Gi"}}}],
        }],
    }))
    .unwrap();
    assert_eq!((read.name.as_str(), read.generation, read.slice_count), ("slice-1", 3, 2));
    assert_eq!(
        (read.owner.as_ref().map(NodeName::as_str), &read.reach),
        (Some("node-1"), &Reach::Node("node-1".into()))
    );
    let gib = |count: i64| Quantity::from_bytes(count << 30);
    let device = &read.devices[0];
    assert!(device.shareable);
    let attributes: Vec<_> =
        device.attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    assert_eq!(
        attributes,
        [
            ("gpu.example.com/fast", AttributeValue::Bool(true)),
            ("gpu.example.com/index", AttributeValue::Int(0)),
            ("gpu.example.com/model", AttributeValue::Text("a100".to_owned())),
            ("other.example.com/driver", AttributeValue::Version("1.2.3".to_owned())),
        ]
    );
    let capacity = &device.capacity["gpu.example.com/memory"];
    let values = CapacityValues::Range { min: gib(1), max: Some(gib(20)), step: Some(gib(1)) };
    assert_eq!(capacity.value, gib(40));
    assert_eq!(capacity.policy, Some(CapacityPolicy { default: Some(gib(1)), values }));
    assert_eq!((device.draws[0].counters["memory"], read.counters[0].counters["memory"]), (gib(10), gib(40)));
}

#[test]
fn slices_are_reached_as_they_say() {
    let reach = |more: Value| {
        let mut spec =
            json!({"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        slice(spec).map(|slice| slice.reach)
    };
    assert_eq!(reach(json!({"allNodes": true})), Ok(Reach::Everywhere));
    assert_eq!(reach(json!({"perDeviceNodeSelection": true})), Ok(Reach::Unknown));
    let selector = json!({"nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {"matchFields": [{"key": "metadata.namespace", "operator": "In", "values": ["n1"]}]},
        {},
    ]}});
    let Ok(Reach::Selected(terms)) = reach(selector) else { panic!("a selector") };
    assert_eq!(terms[0].expressions, [Expression::new("zone", Operator::In, &["a"])]);
    assert_eq!(terms[1].names, Some(vec!["n1".into()]));
    assert_eq!(terms.iter().map(|term| term.unsupported).collect::<Vec<_>>(), [false, false, true, true]);
    let odd = json!({"nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}]}});
    let error = reach(odd).unwrap_err().to_string();
    assert!(error.contains("spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator"), "{error}");
}

/// A claim with every kind of request and constraint, allocated and in use.
fn claim_of_every_kind() -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "gpus"},
        "spec": {"devices": {
            "requests": [
                {"name": "two", "exactly": {"deviceClassName": "gpu", "count": 2,
                    "selectors": [{"cel": {"expression": "true"}}],
                    "capacity": {"requests": {"memory": "5"}}}},
                {"name": "one", "exactly": {"deviceClassName": "gpu"}},
                {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
                {"name": "some", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}},
                {"name": "first", "firstAvailable": [
                    {"name": "x", "deviceClassName": "gpu", "count": 4},
                    {"name": "y", "deviceClassName": "gpu", "allocationMode": "All"},
                    {"name": "z", "deviceClassName": "gpu", "allocationMode": "Some"}]},
                {"name": "neither"},
            ],
            "constraints": [
                {"requests": ["two"], "matchAttribute": "gpu.example.com/numa"},
                {"distinctAttribute": "gpu.example.com/numa"},
            ],
        }},
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "two", "driver": "gpu.example.com", "pool": "p",
                    "device": "gpu-0", "consumedCapacity": {"memory": "5"}}]},
                "nodeSelector": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
            },
            "reservedFor": [
                {"resource": "pods", "name": "here", "uid": "u1"},
                {"resource": "pods", "name": "here", "uid": "another"},
                {"apiGroup": "example.com", "resource": "pods", "name": "here", "uid": "u1"},
            ],
        },
    })
}

#[test]
fn claims_say_what_they_ask_for_what_they_have_and_who_uses_them() {
    let exists = |key: &PodKey, uid: &PodUid| key.to_string() == "ml/here" && *uid == "u1";
    let claim = resource_claim(&serde_json::from_value(claim_of_every_kind()).unwrap(), exists).unwrap();
    assert_eq!(claim.key.to_string(), "ml/gpus");
    let ways: Vec<_> =
        claim.requests.iter().flat_map(karpenter_model::device::DeviceRequest::alternatives).collect();
    let kinds: Vec<_> = ways
        .iter()
        .map(|(name, kind)| match kind {
            RequestKind::Exactly(exact) => {
                (name.as_str(), Ok((exact.count, exact.selectors.len(), exact.capacity.len())))
            }
            RequestKind::Unsupported(field) => (name.as_str(), Err(field.as_str())),
            RequestKind::FirstAvailable(_) => panic!("alternatives have none of their own"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("two", Ok((DeviceCount::Exactly(2), 1, 1))),
            ("one", Ok((DeviceCount::Exactly(1), 0, 0))),
            ("all", Ok((DeviceCount::All, 0, 0))),
            ("some", Err("allocationMode: Some")),
            ("first/x", Ok((DeviceCount::Exactly(4), 0, 0))),
            ("first/y", Ok((DeviceCount::All, 0, 0))),
            ("first/z", Err("allocationMode: Some")),
            ("neither", Err("neither")),
        ]
    );
    assert_eq!(
        claim.constraints,
        [
            DeviceConstraint::MatchAttribute {
                requests: vec!["two".into()],
                attribute: "gpu.example.com/numa".into()
            },
            DeviceConstraint::Unsupported("distinctAttribute".to_owned()),
        ]
    );
    let allocation = claim.allocation.unwrap();
    assert_eq!(
        allocation.devices,
        [AllocatedDevice {
            driver: "gpu.example.com".into(),
            pool: "p".into(),
            device: "gpu-0".into(),
            consumed: BTreeMap::from([("gpu.example.com/memory".into(), Quantity::from_units(5))]),
        }]
    );
    assert_eq!(allocation.places.unwrap()[0].names, Some(vec!["n1".into()]));
    assert_eq!(
        claim.reserved_for,
        [Consumer::Pod("u1".into()), Consumer::Gone("another".into()), Consumer::Other]
    );
}

#[test]
fn what_keeps_claims_from_devices_is_read() {
    let read = slice(json!({
        "driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": true,
        "devices": [
            {"name": "tainted", "taints": [
                {"key": "d/unhealthy", "value": "yes", "effect": "NoExecute"},
                {"key": "d/noted", "effect": "None"}]},
            {"name": "bound", "bindsToNode": true, "bindingConditions": ["d/attached"]},
            {"name": "plain", "bindingConditions": []},
        ],
    }))
    .unwrap();
    let kept: Vec<_> = read
        .devices
        .iter()
        .map(|device| {
            let taints: Vec<String> = device.taints.iter().map(ToString::to_string).collect();
            (device.name.as_str(), taints, device.unsupported.as_deref())
        })
        .collect();
    assert_eq!(
        kept,
        [
            ("tainted", vec!["d/unhealthy=yes:NoExecute".to_owned()], None),
            ("bound", vec![], Some("bindingConditions")),
            ("plain", vec![], None),
        ]
    );
}

#[test]
fn requests_say_what_they_tolerate_and_whether_they_take_anything() {
    let claim = json!({
        "metadata": {"namespace": "ml", "name": "gpus"},
        "spec": {"devices": {"requests": [
            {"name": "patient", "exactly": {"deviceClassName": "gpu", "tolerations": [
                {"key": "d/unhealthy", "operator": "Exists", "effect": "NoExecute"},
                {"key": "d/unhealthy", "operator": "Never"},
                {"key": "d/noted", "value": "x"}]}},
            {"name": "looks", "exactly": {"deviceClassName": "gpu", "adminAccess": true}},
        ]}},
        "status": {"allocation": {"devices": {"results": [
            {"request": "patient", "driver": "d", "pool": "p", "device": "taken"},
            {"request": "looks", "driver": "d", "pool": "p", "device": "watched", "adminAccess": true},
        ]}}},
    });
    let claim = resource_claim(&serde_json::from_value(claim).unwrap(), |_, _| true).unwrap();
    let RequestKind::Exactly(patient) = &claim.requests[0].kind else { panic!("{claim:?}") };
    let tolerated = |text: (&str, &str, Effect)| {
        let taint = Taint::new(text.0, text.1, text.2);
        patient.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    };
    assert_eq!(patient.tolerations.len(), 2, "an operator that is not known tolerates nothing");
    assert!(tolerated(("d/unhealthy", "any", Effect::NoExecute)));
    assert!(!tolerated(("d/unhealthy", "any", Effect::NoSchedule)));
    assert!(
        tolerated(("d/noted", "x", Effect::NoSchedule)) && !tolerated(("d/noted", "y", Effect::NoSchedule))
    );
    let RequestKind::Exactly(looks) = &claim.requests[1].kind else { panic!("{claim:?}") };
    assert!(looks.admin && !patient.admin);
    let taken: Vec<_> = claim.allocation.unwrap().devices.into_iter().map(|one| one.device).collect();
    assert_eq!(taken, ["taken"], "who only looks takes nothing");
}

#[test]
fn rules_about_taints_select_by_what_they_name() {
    let on = |spec: Value| {
        let object = json!({"metadata": {"name": "rule"}, "spec": spec});
        let rule = device_taint_rule(&serde_json::from_value(object).unwrap())?;
        let devices = [("d", "p", "gpu-0"), ("d", "p", "gpu-1"), ("d", "q", "gpu-0"), ("e", "p", "gpu-0")];
        let tainted = devices.iter().filter(|(driver, pool, name)| {
            let slice = slice(json!({
                "driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "allNodes": true, "devices": [{"name": name}],
            }));
            let tainted = rule.on(&slice.unwrap());
            tainted.is_some_and(|slice| slice.devices[0].taints[0].to_string() == "sick=yes:NoExecute")
        });
        Some(tainted.map(|(driver, pool, name)| format!("{driver}/{pool}/{name}")).collect::<Vec<_>>())
    };
    let taint = json!({"key": "sick", "value": "yes", "effect": "NoExecute"});
    let selecting = |selector: Value| on(json!({"deviceSelector": selector, "taint": taint}));
    assert_eq!(selecting(json!({})).unwrap().len(), 4, "an empty selector is about all devices");
    assert_eq!(selecting(json!({"driver": "e"})).unwrap(), ["e/p/gpu-0"]);
    assert_eq!(selecting(json!({"driver": "d", "pool": "p"})).unwrap(), ["d/p/gpu-0", "d/p/gpu-1"]);
    assert_eq!(selecting(json!({"pool": "q", "device": "gpu-0"})).unwrap(), ["d/q/gpu-0"]);
    assert_eq!(selecting(json!({"device": "gpu-9"})).unwrap(), [""; 0]);
    assert_eq!(on(json!({"taint": taint})), None, "without a selector it is about none");
    assert_eq!(on(json!({"deviceSelector": {}, "taint": {"key": "seen", "effect": "None"}})), None);
}

#[test]
fn a_class_says_which_resource_it_stands_for_and_since_when() {
    let class = |spec: Value| {
        let metadata = json!({"name": "gpu", "creationTimestamp": "2026-01-01T00:00:00Z"});
        device_class(&serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    };
    let read = class(json!({"extendedResourceName": "example.com/gpu"}));
    assert_eq!(read.extended_resource, Some("example.com/gpu".into()));
    assert_eq!(read.created_at.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(class(json!({})).extended_resource, None);
}

#[test]
fn a_template_asks_for_what_its_claims_will_ask_for() {
    let template = |request: Value| {
        let spec = json!({"devices": {"requests": [request]}});
        let object = json!({"metadata": {"name": "one-gpu"}, "spec": {"spec": spec}});
        claim_template("gpu", &serde_json::from_value(object).unwrap())
    };
    let read = template(json!({"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}})).unwrap();
    assert_eq!(read.name, "gpu");
    assert!(
        matches!(&read.requests[0].kind, RequestKind::Exactly(asked) if asked.count == DeviceCount::Exactly(2))
    );
    let wrong = template(json!({"name": "r", "exactly": {"deviceClassName": "gpu", "count": -1}}));
    let told = wrong.unwrap_err().to_string();
    assert!(
        told.contains("ResourceClaimTemplate")
            && told.contains("spec.spec.devices.requests[0].exactly.count"),
        "{told}"
    );
}
