//! Truth tables of compatibility between sets, checked against the definition.

use super::*;
use crate::requirement::Operator;

fn registry() -> LabelRegistry {
    LabelRegistry::core()
}

fn set(expressions: &[(&str, Operator, &[&str])]) -> Requirements {
    let expressions: Vec<Expression> =
        expressions.iter().map(|(key, operator, values)| Expression::new(key, *operator, values)).collect();
    Requirements::from_expressions(&registry(), &expressions)
}

/// Every kind of requirement on one key, and `None` for an undefined key.
fn kinds(key: &str) -> Vec<Option<Requirements>> {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let all: [(Operator, &[&str]); 9] = [
        (In, &["a"]),
        (In, &["b", "5"]),
        (NotIn, &["a"]),
        (NotIn, &["b", "5"]),
        (Exists, &[]),
        (DoesNotExist, &[]),
        (Gt, &["4"]),
        (Lt, &["5"]),
        (In, &["4"]),
    ];
    let mut kinds: Vec<_> =
        all.iter().map(|(operator, values)| Some(set(&[(key, *operator, values)]))).collect();
    kinds.push(None);
    kinds
}

/// The definition: a value both allow, or absence both accept, or a label that may be undefined.
fn agrees(existing: Option<&Requirement>, incoming: Option<&Requirement>, may_be_undefined: bool) -> bool {
    let values = ["a", "b", "c", "3", "4", "5", "6"];
    match (existing, incoming) {
        (_, None) => true,
        (None, Some(incoming)) => may_be_undefined || incoming.accepts_absence(),
        (Some(existing), Some(incoming)) => {
            values.iter().any(|value| existing.allows(value) && incoming.allows(value))
                || (existing.accepts_absence() && incoming.accepts_absence())
        }
    }
}

#[test]
fn compatible_agrees_with_the_definition_for_every_pair() {
    let registry = registry();
    for key in ["custom", label::ZONE] {
        for existing in kinds(key) {
            for incoming in kinds(key) {
                let (existing, incoming) =
                    (existing.clone().unwrap_or_default(), incoming.clone().unwrap_or_default());
                let (left, right) = (existing.get(key), incoming.get(key));
                let strict = existing.compatible(&incoming, Undefined::Nothing).is_ok();
                assert_eq!(strict, agrees(left, right, false), "{existing} with {incoming}, strict");
                let lenient = existing.compatible(&incoming, Undefined::WellKnown(&registry)).is_ok();
                let undefined = key == label::ZONE;
                assert_eq!(lenient, agrees(left, right, undefined), "{existing} with {incoming}, well known");
                assert_eq!(
                    existing.intersects(&incoming).is_ok(),
                    agrees(left, right, true),
                    "{existing}, {incoming}"
                );
            }
        }
    }
}

#[test]
fn every_key_must_agree() {
    let existing = set(&[("x", Operator::In, &["1"]), ("y", Operator::In, &["1"])]);
    let incoming = set(&[("x", Operator::In, &["1"]), ("y", Operator::In, &["2"])]);
    let error = existing.compatible(&incoming, Undefined::Nothing).unwrap_err();
    assert_eq!(error.to_string(), "key y, y In [2] not in y In [1]");
}

#[test]
fn undefined_keys_come_with_a_hint() {
    let registry = registry();
    let existing = set(&[("example.com/team", Operator::In, &["a"])]);
    let table = [
        ("zone", "label `zone` does not have known values (typo of \"topology.kubernetes.io/zone\"?)"),
        (
            "io.kubernetes/region",
            "label `io.kubernetes/region` does not have known values (typo of \"topology.kubernetes.io/region\"?)",
        ),
        (
            "instance-type",
            "label `instance-type` does not have known values (typo of \"node.kubernetes.io/instance-type\"?)",
        ),
        ("team", "label `team` does not have known values (typo of \"example.com/team\"?)"),
        ("colour", "label `colour` does not have known values"),
    ];
    for (key, text) in table {
        let incoming = set(&[(key, Operator::Exists, &[])]);
        let error = existing.compatible(&incoming, Undefined::WellKnown(&registry)).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn adding_a_known_key_intersects_and_a_missing_key_is_unconstrained() {
    let merged = set(&[("x", Operator::In, &["1", "2"]), ("x", Operator::NotIn, &["2"])]);
    assert_eq!(merged.to_string(), "x In [1]");
    assert_eq!(merged.value_of(&"y".into()), Requirement::exists("y".into()));
}

#[test]
fn beta_labels_equal_stable_ones() {
    let old = set(&[("failure-domain.beta.kubernetes.io/zone", Operator::In, &["a"])]);
    assert_eq!(old, set(&[(label::ZONE, Operator::In, &["a"])]));
}

#[test]
fn text_is_sorted_and_hides_the_host_name() {
    let requirements = set(&[
        ("z", Operator::Exists, &[]),
        (label::HOSTNAME, Operator::In, &["n1"]),
        ("a", Operator::In, &["2", "1"]),
    ]);
    assert_eq!(requirements.to_string(), "a In [1 2], z Exists");
}

#[test]
fn serializes_both_bounds_as_two_entries() {
    let requirements = set(&[("gen", Operator::Gt, &["1"]), ("gen", Operator::Lt, &["9"])]);
    assert_eq!(
        serde_json::to_string(&requirements).unwrap(),
        r#"[{"key":"gen","operator":"Gte","values":["2"]},{"key":"gen","operator":"Lte","values":["8"]}]"#
    );
}
