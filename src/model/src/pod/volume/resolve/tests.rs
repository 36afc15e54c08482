//! Every row of spec scheduling 19: which claims bind, where their volumes may be, what is refused.

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
    VolumeFacts { deleting: false, source, terms }
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
    resolve(Some(claim), |_| volume, |_| class, &unsupported)
}

#[test]
fn bound_volumes_go_where_their_node_affinity_says() {
    let both = volume_of(csi(), vec![zone(&["a"]), zone(&["b", "c"])]);
    let of_one_pod = ClaimFacts { access: Access::OnePod, ..bound_claim() };
    let volume = resolved(&of_one_pod, Some(&both), None);
    let (driver, alternatives) = (Some("ebs.csi.aws.com".into()), both.terms);
    let expected = Volume { problem: None, driver, alternatives, access: Access::OnePod };
    assert_eq!(volume, expected, "every term is an alternative, and no class is needed");
}

#[test]
fn only_volumes_of_a_host_lose_their_host_name() {
    let kept = resolved(&bound_claim(), Some(&volume_of(csi(), vec![host_and_zone()])), None);
    assert_eq!(kept.alternatives, [host_and_zone()]);
    let dropped = resolved(&bound_claim(), Some(&volume_of(Source::Host, vec![host_and_zone()])), None);
    assert_eq!(dropped.alternatives, [zone(&["a"])]);
    let host = vec![Expression::new(label::HOSTNAME, Operator::In, &["n1"])];
    let anywhere = resolved(&bound_claim(), Some(&volume_of(Source::Host, vec![host])), None);
    assert_eq!(anywhere.alternatives, [vec![]], "one alternative without a constraint");
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
    let missing = resolve(None, |_| None, |_| None, &Unsupported::default());
    assert_eq!(missing.problem.as_deref(), Some("it does not exist"));
}
