//! What files leave out and a cluster has all the same, what they say that no API server keeps, and volumes in exports.

use std::time::Duration;

use karpenter_model::repair::{RepairAction, RepairPolicy};
use karpenter_model::{ConditionStatus, DisruptionReason};

use super::*;

/// A pod of its own, as a manifest has it.
fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// A claim of a class whose volumes are made where the first pod goes.
fn volume_claim(annotations: &Value, spec: &Value) -> [Value; 2] {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop", "uid": "claim-data", "annotations": annotations},
        "spec": {"storageClassName": "gp3", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        claim["spec"][field] = value.clone();
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3", "uid": "class-gp3"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    [claim, class]
}

fn mounts(claim: &str) -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
}

#[test]
fn namespaces_that_no_file_has_are_selected_by_their_names() {
    let with = |namespace: &str| {
        let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": label::ZONE, "labelSelector": {"matchLabels": {"app": "api"}},
            "namespaceSelector": {"matchLabels": {label::NAMESPACE_NAME: namespace}},
        }]}}});
        let mut web = deployment("web", 1, "1", &near);
        web["metadata"]["namespace"] = json!("front");
        let objects = vec![pool("a", &json!({})), class(), deployment("api", 1, "1", &json!({})), web];
        planned(objects, WhatIf::default()).verdict
    };
    assert_eq!(with("shop"), Verdict::Changes);
    assert_eq!(with("front"), Verdict::PodsWait, "its own has no such pod");
}

#[test]
fn a_namespace_has_its_own_pods_and_the_nodes_for_them() {
    let huge = || json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "99"}}}]});
    let mut other = pod("other", &huge());
    other["metadata"]["namespace"] = json!("front");
    let objects = vec![pool("a", &json!({})), class(), pod("web", &json!({})), other];
    let all = planned(objects, WhatIf::default());
    assert_eq!((all.verdict, all.launches.len(), all.pending.len()), (Verdict::PodsWait, 1, 1));
    let (shop, front) = (all.clone().of_namespace("shop"), all.of_namespace("front"));
    assert_eq!((shop.verdict, shop.launches.len(), shop.pending.len()), (Verdict::Changes, 1, 0));
    assert_eq!((front.verdict, front.launches.len(), front.pending.len()), (Verdict::PodsWait, 0, 1));
    assert_eq!(front.of_namespace("none").verdict, Verdict::Unchanged);
}

#[test]
fn a_status_that_says_no_more_than_pending_is_none() {
    let with = |uid: Option<&str>, status: Value| {
        let mut pod = pod("api", &json!({}));
        pod["status"] = status;
        pod["metadata"]["uid"] = json!(uid);
        planned(vec![pool("a", &json!({})), class(), pod], WhatIf::default()).verdict
    };
    for status in [json!({}), json!({"phase": "Pending"}), json!({"phase": "Pending", "conditions": []})] {
        assert_eq!(with(None, status.clone()), Verdict::Changes, "{status}");
    }
    let gated = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
    ]});
    assert_eq!(with(None, gated), Verdict::Unchanged);
    assert_eq!(
        with(Some("u"), json!({"phase": "Pending"})),
        Verdict::Unchanged,
        "the scheduler did not try it yet"
    );
}

#[test]
fn drift_by_the_template_stands_where_the_hash_is_missing() {
    let removed = |reason: &str, hash: Option<&str>| {
        let mut objects = vec![pool("a", &json!({})), class()];
        objects.push(deployment("api", 1, "3", &json!({"nodeName": "one"})));
        let mut machine = machine("one");
        let mut drifted = condition("Drifted");
        drifted["reason"] = json!(reason);
        machine[0]["status"]["conditions"].as_array_mut().unwrap().push(drifted);
        if let Some(hash) = hash {
            machine[0]["metadata"]["annotations"] =
                json!({"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v3"});
        }
        objects.extend(machine);
        let removals = planned(objects, WhatIf::default()).removals;
        removals.iter().filter(|removal| removal.reason == DisruptionReason::Drifted).count()
    };
    let now = pool("a", &json!({}));
    let hash = <karpenter_api::NodePool as serde::Deserialize>::deserialize(&now).unwrap().hash();
    assert_eq!(removed("NodePoolDrifted", None), 1);
    assert_eq!(removed("NodePoolDrifted", Some("1")), 1);
    assert_eq!(removed("NodePoolDrifted", Some(&hash)), 0, "it is as the template says");
    assert_eq!(removed("RequirementsDrifted", None), 0, "labels say that it has not");
}

#[test]
fn nodes_are_repaired_where_the_controller_does() {
    let policy = RepairPolicy {
        condition: "Ready".to_owned(),
        status: ConditionStatus::False,
        reason: None,
        toleration: Duration::from_mins(30),
        termination_grace: None,
        priority: 0,
        action: RepairAction::Replace,
    };
    let removed = |policies: &[RepairPolicy]| {
        let mut objects = vec![pool("a", &json!({})), class()];
        objects.push(deployment("api", 1, "3", &json!({"nodeName": "one"})));
        let mut machine = machine("one");
        machine[1]["status"]["conditions"][0]["status"] = json!("False");
        objects.extend(machine);
        let plan_inputs = PlanInputs { repair: policies.into(), ..plan_inputs() };
        let world = World::new(objects, AT.parse().unwrap(), plan_inputs, WhatIf::default()).unwrap();
        let removals = world.forecast(&offerings(&["a"]), Vec::new()).removals;
        removals.into_iter().map(|removal| removal.reason).collect::<Vec<_>>()
    };
    assert_eq!(removed(&[policy]), [DisruptionReason::Unhealthy]);
    assert_eq!(removed(&[]), []);
}

#[test]
fn an_export_keeps_what_volumes_are_decided_by() {
    let selected = json!({"volume.kubernetes.io/selected-node": "gone"});
    let of_one_pod = json!({"accessModes": ["ReadWriteOncePod"]});
    for claim in [volume_claim(&selected, &json!({})), volume_claim(&json!({}), &of_one_pod)] {
        let mut objects =
            vec![pool("a", &json!({})), class(), pod("one", &mounts("data")), pod("two", &mounts("data"))];
        objects.extend(claim);
        let cluster = world(objects, WhatIf::default());
        let known = offerings(&["a"]);
        let waits = |forecast: &Forecast| forecast.pending.len();
        let expected = cluster.forecast(&known, Vec::new());
        assert!(waits(&expected) > 0, "{}", expected.text());
        for anonymous in [false, true] {
            let stream = cluster.export(&known, About::default(), anonymous);
            assert!(!anonymous || !stream.contains("gone"), "{stream}");
            let again = world(Objects::read("export", &stream).unwrap(), WhatIf::default());
            let exported = again.exported().unwrap().clone();
            let forecast = again.forecast(&exported, Vec::new());
            assert_eq!(
                (forecast.verdict, waits(&forecast)),
                (expected.verdict, waits(&expected)),
                "{}",
                forecast.text()
            );
        }
    }
}

#[test]
fn help_is_about_what_is_in_the_way() {
    let advice = |objects: Vec<Value>| -> Vec<String> {
        let mut all = vec![class()];
        all.extend(objects);
        let forecast = planned(all, WhatIf::default());
        forecast.pending.into_iter().flat_map(|one| one.help).collect()
    };
    let selected = json!({"volume.kubernetes.io/selected-node": "gone"});
    let mut objects = vec![pool("a", &json!({})), pod("one", &mounts("data"))];
    objects.extend(volume_claim(&selected, &json!({})));
    assert_eq!(
        advice(objects),
        [
            "remove the annotation `volume.kubernetes.io/selected-node` from the claim: its volume is then provisioned where the pod goes"
        ]
    );
    let mut objects = vec![pool("a", &json!({})), pod("one", &mounts("data")), pod("two", &mounts("data"))];
    objects.extend(volume_claim(&json!({}), &json!({"accessModes": ["ReadWriteOncePod"]})));
    assert_eq!(advice(objects), ["let the other pod end, or give each pod a claim of its own"]);
    assert_eq!(
        advice(vec![pool("a", &json!({})), pod("one", &mounts("data"))]),
        [
            "let the claim exist with its class and volume, and be bound or wait for its pod (WaitForFirstConsumer)"
        ]
    );
    let volume = |name: &str, zone: &str| {
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let term = json!({"matchExpressions": [{"key": label::ZONE, "operator": "In", "values": [zone]}]});
        let [mut claim, _] = volume_claim(&bound, &json!({"volumeName": name}));
        claim["metadata"]["name"] = json!(name);
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "uid": name},
            "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}, "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
        });
        [claim, volume]
    };
    for (zones, expected) in [
        (&["zone-b"][..], "let pool `a` launch in the zone of the volumes"),
        (&["zone-a", "zone-b"], "let the pod use volumes that are in one place"),
    ] {
        let mounted: Vec<Value> = zones
            .iter()
            .map(|zone| json!({"name": zone, "persistentVolumeClaim": {"claimName": zone}}))
            .collect();
        let mut pool = pool("a", &json!({}));
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": label::ZONE, "operator": "In", "values": ["zone-a"]}]);
        let mut objects = vec![pool, pod("one", &json!({"volumes": mounted}))];
        objects.extend(zones.iter().flat_map(|zone| volume(zone, zone)));
        assert_eq!(advice(objects), [expected]);
    }
    let mut large = pod("one", &json!({}));
    large["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("30Gi");
    assert_eq!(
        advice(vec![pool("a", &json!({})), large]),
        ["give nodes of pool `a` 30 GiB more disk: `spec.blockDeviceMappings` of its node class"]
    );
    assert_eq!(
        advice(vec![pool("a", &json!({"replicas": 1})), pod("one", &json!({}))]),
        ["add a NodePool without `spec.replicas`: one with a fixed number of nodes launches none for pods"]
    );
}
