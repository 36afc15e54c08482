//! Persistent volume claims, volumes, storage classes and `CSINode`s, reduced to what decides where a pod can go
//! (spec scheduling 19).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::names::{annotation, label};
use karpenter_model::pod::volume::resolve::{ClaimFacts, ClassFacts, Form, Source, VolumeFacts};
use karpenter_model::{Access, DriverName, Expression, Operator, Quantity};

use super::present;
use super::{Error, FieldError};

/// Reads a persistent volume claim.
pub fn volume_claim(object: &PersistentVolumeClaim) -> ClaimFacts {
    let (metadata, spec) = (&object.metadata, object.spec.as_ref());
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
    let annotation = |name: &str| metadata.annotations.as_ref().and_then(|all| all.get(name));
    let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    ClaimFacts {
        deleting: metadata.deletion_timestamp.is_some(),
        lost: phase == Some("Lost"),
        volume: spec.and_then(|spec| present(spec.volume_name.as_ref())).map(ToOwned::to_owned),
        bind_completed: annotation(annotation::BIND_COMPLETED).is_some(),
        class: spec.and_then(|spec| present(spec.storage_class_name.as_ref())).map(ToOwned::to_owned),
        access: access(spec.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()),
        selected_node: present(annotation(annotation::SELECTED_NODE)).map(Into::into),
        form: form(
            requests,
            spec.and_then(|spec| spec.access_modes.as_deref()),
            spec.and_then(|spec| spec.volume_mode.as_deref()),
        ),
    }
}

/// Properties that decide which volumes serve which claims. A size that cannot be read counts as none.
fn form(
    sizes: Option<&BTreeMap<String, ApiQuantity>>,
    modes: Option<&[String]>,
    volume_mode: Option<&str>,
) -> Form {
    let storage = sizes.and_then(|sizes| sizes.get("storage")).and_then(|size| size.0.parse().ok());
    Form {
        storage: storage.unwrap_or(Quantity::ZERO),
        modes: modes.unwrap_or_default().iter().cloned().collect(),
        block: volume_mode == Some("Block"),
    }
}

fn access(modes: &[String]) -> Access {
    let of_one_pod = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if of_one_pod { Access::OnePod } else { Access::Shared }
}

/// Reads a persistent volume.
pub fn volume(object: &PersistentVolume) -> Result<VolumeFacts, Error> {
    let spec = object.spec.as_ref();
    let required = spec.and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    let read = |(index, term): (usize, &NodeSelectorTerm)| {
        let expressions = term.match_expressions.iter().flatten().enumerate();
        expressions
            .map(|(nested, one)| {
                expression(one).map_err(|error| {
                    error.below(&format!("nodeSelectorTerms[{index}].matchExpressions[{nested}]"))
                })
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let terms = terms.iter().enumerate().map(read).collect::<Result<_, _>>().map_err(|error| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        error.below("spec.nodeAffinity.required").of("PersistentVolume", name)
    })?;
    let terms = within(of_labels(object), terms);
    let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
    let claim = claim.and_then(|claim| Some((claim.namespace.as_deref()?, claim.name.as_deref()?)));
    Ok(VolumeFacts {
        deleting: object.metadata.deletion_timestamp.is_some(),
        source: source(object),
        terms,
        class: spec.and_then(|spec| present(spec.storage_class_name.as_ref())).map(ToOwned::to_owned),
        claim: claim.map(|(namespace, name)| (namespace.into(), name.into())),
        form: form(
            spec.and_then(|spec| spec.capacity.as_ref()),
            spec.and_then(|spec| spec.access_modes.as_deref()),
            spec.and_then(|spec| spec.volume_mode.as_deref()),
        ),
    })
}

/// Returns the zones and regions in the labels of a volume, where in-tree plugins and people write them: the scheduler keeps
/// to them as to the node affinity. `__` stands between several.
fn of_labels(object: &PersistentVolume) -> Vec<Expression> {
    let labels = object.metadata.labels.iter().flatten();
    let of_place = labels.filter(|(key, _)| label::PLACES_OF_VOLUMES.contains(&key.as_str()));
    of_place
        .map(|(key, values)| Expression {
            key: key.as_str().into(),
            operator: Operator::In,
            values: values.split("__").map(Into::into).collect(),
            min_values: None,
        })
        .collect()
}

/// Returns each of `terms` with `place` added. A volume without terms can be attached everywhere.
fn within(place: Vec<Expression>, mut terms: Vec<Vec<Expression>>) -> Vec<Vec<Expression>> {
    if place.is_empty() {
        return terms;
    }
    if terms.is_empty() {
        return vec![place];
    }
    for term in &mut terms {
        term.extend_from_slice(&place);
    }
    terms
}

fn source(object: &PersistentVolume) -> Source {
    let Some(spec) = &object.spec else { return Source::Other };
    match spec {
        spec if spec.csi.is_some() => {
            let driver = spec.csi.as_ref().map(|csi| csi.driver.as_str()).unwrap_or_default();
            Source::Csi(driver.into())
        }
        spec if spec.aws_elastic_block_store.is_some() => Source::AwsElasticBlockStore,
        spec if spec.local.is_some() || spec.host_path.is_some() => Source::Host,
        _ => Source::Other,
    }
}

/// Reads one expression about the labels of a Node.
pub(super) fn expression(written: &NodeSelectorRequirement) -> Result<Expression, FieldError> {
    let operator = Operator::parse(&written.operator)
        .ok_or_else(|| FieldError::unknown("operator", &written.operator))?;
    let values = written.values.iter().flatten().map(|value| value.as_str().into()).collect();
    Ok(Expression { key: written.key.as_str().into(), operator, values, min_values: None })
}

/// Reads a storage class.
pub fn storage_class(object: &StorageClass) -> ClassFacts {
    let term = |term: &TopologySelectorTerm| {
        let expressions = term.match_label_expressions.iter().flatten().map(|one| Expression {
            key: one.key.as_str().into(),
            operator: Operator::In,
            values: one.values.iter().map(|value| value.as_str().into()).collect(),
            min_values: None,
        });
        expressions.collect()
    };
    ClassFacts {
        provisioner: object.provisioner.clone(),
        waits_for_consumer: object.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        topologies: object.allowed_topologies.iter().flatten().map(term).collect(),
    }
}

/// Most volumes of each driver that the Node can attach; drivers that state none are left out.
pub fn attach_limits(object: &CSINode) -> BTreeMap<DriverName, u32> {
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.as_str().into(), u32::try_from(count).ok()?))
    };
    object.spec.drivers.iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_say_what_they_are_bound_to() {
        let read = |value| volume_claim(&serde_json::from_value(value).unwrap());
        let bound = read(json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "pv-1", "storageClassName": ""},
            "status": {"phase": "Bound"},
        }));
        assert_eq!(
            bound,
            ClaimFacts { volume: Some("pv-1".into()), bind_completed: true, ..ClaimFacts::default() }
        );
        let lost = read(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"storageClassName": "gp3", "accessModes": ["ReadWriteOncePod"]},
            "status": {"phase": "Lost"},
        }));
        let class = Some("gp3".into());
        let form = Form { modes: ["ReadWriteOncePod".to_owned()].into(), ..Form::default() };
        let access = Access::OnePod;
        let facts = ClaimFacts { deleting: true, lost: true, class, access, form, ..ClaimFacts::default() };
        assert_eq!(lost, facts);
        let waiting = read(json!({
            "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}},
            "spec": {"storageClassName": "gp3", "volumeMode": "Block", "resources": {"requests": {"storage": "1Ki"}}},
        }));
        assert_eq!(waiting.selected_node, Some("n1".into()));
        assert_eq!(
            waiting.form,
            Form { storage: Quantity::from_units(1024), block: true, ..Form::default() }
        );
    }

    #[test]
    fn volumes_say_where_they_can_be_attached_and_by_whom() {
        let read = |spec| {
            volume(&serde_json::from_value(json!({"metadata": {"name": "pv-1"}, "spec": spec})).unwrap())
        };
        let term = |operator: &str| {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": operator, "values": ["a"]},
            ]}]}})
        };
        let csi = read(
            json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}, "nodeAffinity": term("In")}),
        );
        let zone_a = Expression::new("topology.kubernetes.io/zone", Operator::In, &["a"]);
        assert_eq!(
            csi.unwrap(),
            VolumeFacts {
                source: Source::Csi("ebs.csi.aws.com".into()),
                terms: vec![vec![zone_a]],
                ..VolumeFacts::default()
            }
        );
        let disk = read(json!({
            "local": {"path": "/mnt"}, "storageClassName": "disks", "capacity": {"storage": "1Ki"},
            "accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "ns", "name": "data"},
        }))
        .unwrap();
        assert_eq!((disk.class.as_deref(), disk.claim), (Some("disks"), Some(("ns".into(), "data".into()))));
        let modes = ["ReadWriteOnce".to_owned()].into();
        assert_eq!(disk.form, Form { storage: Quantity::from_units(1024), modes, block: false });
        let sources = [
            (json!({"awsElasticBlockStore": {"volumeID": "v"}}), Source::AwsElasticBlockStore),
            (json!({"local": {"path": "/mnt"}}), Source::Host),
            (json!({"hostPath": {"path": "/mnt"}}), Source::Host),
            (json!({"nfs": {"server": "s", "path": "/"}}), Source::Other),
        ];
        for (spec, source) in sources {
            assert_eq!(read(spec).unwrap().source, source);
        }
        let labelled = |key: &str, affinity: serde_json::Value| {
            let labels = json!({key: "a__b", "app": "db"});
            let spec = json!({"awsElasticBlockStore": {"volumeID": "v"}, "nodeAffinity": affinity});
            volume(&serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap())
                .unwrap()
                .terms
        };
        for key in label::PLACES_OF_VOLUMES {
            let place = Expression::new(key, Operator::In, &["a", "b"]);
            assert_eq!(labelled(key, json!({})), [vec![place.clone()]]);
            let zone_a = Expression::new("topology.kubernetes.io/zone", Operator::In, &["a"]);
            assert_eq!(labelled(key, term("In")), [vec![zone_a, place]]);
        }
        let error = read(json!({"nodeAffinity": term("Near")})).unwrap_err().to_string();
        let place = "`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator` of PersistentVolume `pv-1`";
        assert!(error.contains(place), "{error}");
    }

    #[test]
    fn classes_say_when_they_bind_and_drivers_how_many_they_attach() {
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
        }))
        .unwrap();
        let topologies = vec![vec![Expression::new("zone", Operator::In, &["a", "b"])]];
        let want = ClassFacts { provisioner: "ebs.csi.aws.com".into(), waits_for_consumer: true, topologies };
        assert_eq!(storage_class(&class), want);
        let node: CSINode = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
            {"name": "efs.csi.aws.com", "nodeID": "i"},
        ]}}))
        .unwrap();
        assert_eq!(attach_limits(&node), [("ebs.csi.aws.com".into(), 25)].into());
    }
}
