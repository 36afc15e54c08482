//! Every row of spec scheduling 19: which claims bind, where their volumes may be, what is refused.

use std::collections::BTreeMap;

use super::*;
use crate::requirement::Operator;

const ZONE: &str = "topology.ebs.csi.aws.com/zone";

fn zone(values: &[&str]) -> Vec<Expression> {
    vec![Expression::new(ZONE, Operator::In, values)]
}

fn host_and_zone() -> Vec<Expression> {
    let mut term = zone(&["a"]);
    term.push(Expression::new(label::HOSTNAME, Operator::In, &["n1"]));
    term
}

fn volume_of(source: Source, terms: Vec<Vec<Expression>>) -> VolumeFacts {
    VolumeFacts { source, terms, ..VolumeFacts::default() }
}

fn csi() -> Source {
    Source::Csi("ebs.csi.aws.com".into())
}

fn class_of(provisioner: &str, topologies: Vec<Vec<Expression>>) -> ClassFacts {
    ClassFacts { provisioner: provisioner.into(), waits_for_consumer: true, topologies }
}

fn bound_claim() -> ClaimFacts {
    ClaimFacts { volume: Some("pv".into()), bind_completed: true, ..ClaimFacts::default() }
}

fn unbound_claim() -> ClaimFacts {
    ClaimFacts { class: Some("gp3".into()), ..ClaimFacts::default() }
}

fn resolved(claim: &ClaimFacts, volume: Option<&VolumeFacts>, class: Option<&ClassFacts>) -> Volume {
    let unsupported = Unsupported {
        topology_keys: ["topology.example.com/rack".into()].into(),
        drivers: ["nope.csi.example.com".into()].into(),
    };
    let volumes = volume.map(|volume| ("pv".to_owned(), volume.clone())).into_iter().collect();
    let classes = class.map(|class| ("gp3".to_owned(), class.clone())).into_iter().collect();
    resolve(&key(), Some(claim), &World { volumes, classes }, &unsupported)
}

fn key() -> (Namespace, VolumeClaimName) {
    ("default".into(), "data".into())
}

/// Objects of a test.
#[derive(Default)]
struct World {
    volumes: BTreeMap<String, VolumeFacts>,
    classes: BTreeMap<String, ClassFacts>,
}

impl Objects for World {
    fn volume(&self, name: &str) -> Option<&VolumeFacts> {
        self.volumes.get(name)
    }

    fn class(&self, name: &str) -> Option<&ClassFacts> {
        self.classes.get(name)
    }

    fn of_class(&self, name: &str) -> Vec<(&str, &VolumeFacts)> {
        let all = self.volumes.iter().map(|(known, volume)| (known.as_str(), volume));
        all.filter(|(_, volume)| volume.class.as_deref() == Some(name)).collect()
    }
}

#[test]
fn bound_volumes_go_where_their_node_affinity_says() {
    let both = volume_of(csi(), vec![zone(&["a"]), zone(&["b", "c"])]);
    let of_one_pod = ClaimFacts { access: Access::OnePod, ..bound_claim() };
    let volume = resolved(&of_one_pod, Some(&both), None);
    let (driver, alternatives) = (Some("ebs.csi.aws.com".into()), both.terms);
    let expected = Volume { driver, alternatives, access: Access::OnePod, ..Volume::default() };
    assert_eq!(volume, expected, "every term is an alternative, and no class is needed");
}

#[test]
fn only_volumes_of_a_host_are_tied_to_it() {
    let of_host = |source, terms| resolved(&bound_claim(), Some(&volume_of(source, terms)), None);
    let attached = of_host(csi(), vec![host_and_zone()]);
    assert_eq!((attached.alternatives, attached.tie), (vec![host_and_zone()], Tie::None));
    let disk = of_host(Source::Host, vec![host_and_zone()]);
    assert_eq!((disk.alternatives, disk.tie), (vec![host_and_zone()], Tie::Disk));
    assert_eq!(of_host(Source::Host, vec![zone(&["a"])]).tie, Tie::None, "it names no host");
}

// kubernetes#100485, ca#4923
#[test]
fn a_claim_that_is_being_provisioned_is_tied_to_its_node() {
    let class = class_of("ebs.csi.aws.com", vec![zone(&["a", "b"])]);
    let claim = ClaimFacts { selected_node: Some("n1".into()), ..unbound_claim() };
    let volume = resolved(&claim, None, Some(&class));
    assert_eq!((volume.tie, volume.alternatives), (Tie::Node("n1".into()), class.topologies.clone()));
    let bound = ClaimFacts { selected_node: Some("n1".into()), ..bound_claim() };
    assert_eq!(resolved(&bound, Some(&volume_of(csi(), vec![])), None).tie, Tie::None, "it is provisioned");
}

// aws#2244
#[test]
fn without_provisioner_a_claim_gets_a_volume_that_is_free_and_serves_it() {
    let form = |units: i64, modes: &[&str], block| Form {
        storage: Quantity::from_units(units),
        modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
        block,
    };
    let disk = VolumeFacts {
        source: Source::Host,
        terms: vec![host_and_zone()],
        class: Some("gp3".into()),
        form: form(100, &["ReadWriteOnce"], false),
        ..VolumeFacts::default()
    };
    let claim = ClaimFacts { form: form(50, &["ReadWriteOnce"], false), ..unbound_claim() };
    let tie = |claim: &ClaimFacts, disks: &[VolumeFacts]| {
        let volumes = disks.iter().enumerate().map(|(index, disk)| (format!("pv-{index}"), disk.clone()));
        let classes = [("gp3".to_owned(), class_of(NO_PROVISIONER, vec![]))].into();
        let world = World { volumes: volumes.collect(), classes };
        let volume = resolve(&key(), Some(claim), &world, &Unsupported::default());
        assert_eq!(volume.driver, None, "nothing attaches it");
        match (volume.tie, volume.problem) {
            (Tie::Free(free), None) => Ok(free.into_iter().map(|one| one.name).collect::<Vec<_>>()),
            (_, problem) => Err((volume.alternatives, problem)),
        }
    };
    let of = |claim: (&str, &str)| Some((claim.0.into(), claim.1.into()));
    let kept_for = |claim| VolumeFacts { claim: of(claim), ..disk.clone() };
    let disks = [
        kept_for(("default", "other")),
        kept_for(("default", "data")),
        disk.clone(),
        VolumeFacts { form: form(10, &["ReadWriteOnce"], false), ..disk.clone() },
        VolumeFacts { form: form(100, &["ReadWriteOnce"], true), ..disk.clone() },
        VolumeFacts { form: form(100, &["ReadWriteMany"], false), ..disk.clone() },
        VolumeFacts { deleting: true, ..disk.clone() },
        VolumeFacts { class: Some("other".into()), ..disk.clone() },
    ];
    assert_eq!(tie(&claim, &disks), Ok(vec!["pv-1".to_owned(), "pv-2".to_owned()]));
    assert_eq!(tie(&claim, &disks[..1]), Ok(vec![]), "new nodes may bring one");
    assert_eq!(tie(&claim, &[]), Ok(vec![]), "so may the first one");
    let shared = VolumeFacts { source: csi(), terms: vec![zone(&["b"])], ..disk.clone() };
    assert_eq!(tie(&claim, std::slice::from_ref(&shared)), Err((vec![zone(&["b"])], None)));
    let taken = VolumeFacts { claim: of(("default", "other")), ..shared };
    let (_, problem) = tie(&claim, &[taken]).unwrap_err();
    assert!(problem.is_some_and(|text| text.contains("no volume of its storage class `gp3` is free")));
}

#[test]
fn drivers_of_in_tree_volumes_are_those_that_took_over() {
    let bound = |source| resolved(&bound_claim(), Some(&volume_of(source, vec![])), None).driver;
    assert_eq!(bound(Source::AwsElasticBlockStore), Some("ebs.csi.aws.com".into()));
    assert_eq!(bound(Source::Host), None);
    assert_eq!(bound(Source::Other), None);
    let unbound = |provisioner| resolved(&unbound_claim(), None, Some(&class_of(provisioner, vec![]))).driver;
    assert_eq!(unbound("kubernetes.io/aws-ebs"), Some("ebs.csi.aws.com".into()));
    assert_eq!(unbound("efs.csi.aws.com"), Some("efs.csi.aws.com".into()));
    assert_eq!(unbound(""), None);
}

#[test]
fn unbound_claims_go_where_their_class_allows() {
    let class = class_of("ebs.csi.aws.com", vec![zone(&["a", "b"])]);
    assert_eq!(resolved(&unbound_claim(), None, Some(&class)).alternatives, class.topologies);
}

#[test]
fn volumes_of_ebs_will_be_in_one_zone_and_file_systems_are_reached_from_all() {
    let zonal = ["ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs"];
    let others = ["efs.csi.aws.com", "fsx.csi.aws.com", "driver.example.com"];
    let tie = |provisioner| resolved(&unbound_claim(), None, Some(&class_of(provisioner, vec![]))).tie;
    assert_eq!(zonal.map(tie), [const { Tie::Zone }; 3]);
    assert_eq!(others.map(tie), [const { Tie::None }; 3]);
}

#[test]
fn claims_that_cannot_be_used_say_why() {
    let good = volume_of(csi(), vec![]);
    let dying = VolumeFacts { deleting: true, ..good.clone() };
    let refused = volume_of(Source::Csi("nope.csi.example.com".into()), vec![]);
    let class = class_of("ebs.csi.aws.com", vec![]);
    let eager = ClassFacts { waits_for_consumer: false, ..class.clone() };
    let rack = vec![Expression::new("topology.example.com/rack", Operator::In, &["r1"])];
    let racks = class_of("ebs.csi.aws.com", vec![rack]);
    let unserved = class_of("nope.csi.example.com", vec![]);
    let table = [
        (ClaimFacts { deleting: true, ..bound_claim() }, Some(&good), None, Some("being deleted")),
        (ClaimFacts { lost: true, ..bound_claim() }, Some(&good), None, Some("lost")),
        (bound_claim(), None, None, Some("does not exist")),
        (bound_claim(), Some(&dying), None, Some("`pv` is being deleted")),
        (ClaimFacts { bind_completed: false, ..bound_claim() }, Some(&good), None, Some("not complete")),
        (bound_claim(), Some(&refused), None, Some("not supported")),
        (ClaimFacts::default(), None, Some(&class), Some("no storage class")),
        (
            ClaimFacts { class: Some(String::new()), ..unbound_claim() },
            None,
            Some(&class),
            Some("no storage"),
        ),
        (unbound_claim(), None, None, Some("`gp3` does not exist")),
        (unbound_claim(), None, Some(&eager), Some("without waiting")),
        (unbound_claim(), None, Some(&racks), Some("topology.example.com/rack")),
        (unbound_claim(), None, Some(&unserved), Some("not supported")),
        (bound_claim(), Some(&good), None, None),
        (unbound_claim(), None, Some(&class), None),
    ];
    for (index, (claim, volume, class, expected)) in table.into_iter().enumerate() {
        let problem = resolved(&claim, volume, class).problem;
        match expected {
            None => assert_eq!(problem, None, "row {index}"),
            Some(part) => {
                assert!(problem.as_ref().is_some_and(|text| text.contains(part)), "{index}: {problem:?}");
            }
        }
    }
    let missing = resolve(&key(), None, &World::default(), &Unsupported::default());
    assert_eq!(missing.problem.as_deref(), Some("it does not exist"));
}
