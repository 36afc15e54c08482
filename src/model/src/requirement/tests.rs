//! Exhaustive comparison with plain sets over a small universe, and tables of the text and API forms.

use super::*;
use crate::requirement::set::Requirements;

const KEY: &str = "example.com/key";

/// Every value worth distinguishing: names, integers around the bounds in use, and one no expression has.
fn universe() -> Vec<String> {
    let names = ["a", "b", "other"].map(String::from);
    names.into_iter().chain((-2..=12).map(|integer: i64| integer.to_string())).collect()
}

/// Every operator with every small set of values.
fn expressions() -> Vec<Expression> {
    let lists: [&[&str]; 12] = [
        &["a"],
        &["b"],
        &["a", "b"],
        &["1"],
        &["5"],
        &["9"],
        &["1", "9"],
        &["a", "5"],
        &["4", "5"],
        &["4", "5", "6"],
        &["0"],
        &["1", "5", "9", "a"],
    ];
    let mut all =
        vec![Expression::new(KEY, Operator::Exists, &[]), Expression::new(KEY, Operator::DoesNotExist, &[])];
    for list in lists {
        all.push(Expression::new(KEY, Operator::In, list));
        all.push(Expression::new(KEY, Operator::NotIn, list));
    }
    for bound in ["0", "1", "4", "5", "6", "9", "10"] {
        for operator in [Operator::Gt, Operator::Lt, Operator::Gte, Operator::Lte] {
            all.push(Expression::new(KEY, operator, &[bound]));
        }
    }
    all
}

/// Result of an expression, straight from the Kubernetes definition.
fn oracle(expression: &Expression, value: &str) -> bool {
    let listed = expression.values.iter().any(|listed| *listed == value);
    let integer = value.parse::<i64>();
    let bound = || expression.values[0].as_str().parse::<i64>().unwrap();
    match expression.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::Gt => integer.is_ok_and(|integer| integer > bound()),
        Operator::Lt => integer.is_ok_and(|integer| integer < bound()),
        Operator::Gte => integer.is_ok_and(|integer| integer >= bound()),
        Operator::Lte => integer.is_ok_and(|integer| integer <= bound()),
    }
}

fn requirement(expression: &Expression) -> Requirement {
    Requirement::new(&LabelRegistry::core(), expression)
}

/// All requirements one or two expressions can state, with the expressions they come from.
fn pairs() -> Vec<(Vec<Expression>, Requirement)> {
    let all = expressions();
    let mut stated: Vec<_> = all.iter().map(|one| (vec![one.clone()], requirement(one))).collect();
    for a in &all {
        for b in &all {
            stated.push((vec![a.clone(), b.clone()], requirement(a).intersection(&requirement(b))));
        }
    }
    stated
}

#[test]
fn every_pair_intersects_to_exactly_the_common_values() {
    let universe = universe();
    for (stated, requirement) in pairs() {
        for value in &universe {
            let expected = stated.iter().all(|expression| oracle(expression, value));
            assert_eq!(requirement.allows(value), expected, "{stated:?} -> {requirement}, {value}");
        }
    }
}

#[test]
fn intersects_and_is_empty_agree_with_the_sets() {
    let universe = universe();
    let all: Vec<Requirement> = expressions().iter().map(requirement).collect();
    let common = |a: &Requirement, b: &Requirement| universe.iter().any(|v| a.allows(v) && b.allows(v));
    for (stated, a) in pairs() {
        assert_eq!(a.is_empty(), !common(&a, &a), "{stated:?} -> {a}");
        for b in &all {
            assert_eq!(a.intersects(b), common(&a, b), "{a} with {b}");
            assert_eq!(b.intersects(&a), a.intersects(b), "{a} with {b}");
        }
    }
}

#[test]
fn intersection_is_commutative_associative_and_idempotent() {
    let all: Vec<Requirement> = expressions().iter().map(requirement).collect();
    for a in &all {
        assert_eq!(&a.intersection(a), a);
        for b in &all {
            let ab = a.intersection(b);
            assert_eq!(ab, b.intersection(a));
            for c in &all {
                assert_eq!(ab.intersection(c), a.intersection(&b.intersection(c)), "{a}; {b}; {c}");
            }
        }
    }
}

#[test]
fn api_form_loses_nothing() {
    let registry = LabelRegistry::core();
    for (stated, requirement) in pairs() {
        let again = Requirements::from_expressions(&registry, &requirement.to_expressions());
        assert_eq!(again.get(KEY), Some(&requirement), "{stated:?}");
    }
}

#[test]
fn any_is_allowed_and_missing_only_when_no_label_value_passes() {
    let universe = universe();
    for (_, requirement) in pairs() {
        match requirement.any() {
            Some(value) => assert!(requirement.allows(value.as_str()), "{requirement}: {value}"),
            None => assert!(
                universe
                    .iter()
                    .filter(|value| !value.starts_with('-'))
                    .all(|value| !requirement.allows(value)),
                "{requirement}"
            ),
        }
    }
    assert_eq!(requirement(&Expression::new(KEY, Operator::Lt, &["0"])).any(), None);
}

#[test]
fn finite_sets_drop_bounds_and_crossed_bounds_do_not_exist() {
    let one = |operator, value: &str| requirement(&Expression::new(KEY, operator, &[value]));
    let table = [
        (one(Operator::Gt, "1").intersection(&one(Operator::Lt, "9")), "example.com/key Exists >=2 <=8"),
        (one(Operator::Gt, "9").intersection(&one(Operator::Lt, "1")), "example.com/key DoesNotExist"),
        (one(Operator::Gt, "1").intersection(&one(Operator::In, "5")), "example.com/key In [5]"),
        (one(Operator::Gt, "5").intersection(&one(Operator::In, "5")), "example.com/key DoesNotExist"),
        (one(Operator::Gte, "5").intersection(&one(Operator::Lte, "5")), "example.com/key Exists >=5 <=5"),
        (one(Operator::Gt, "1").intersection(&one(Operator::NotIn, "0")), "example.com/key Exists >=2"),
        (one(Operator::Gt, "1").intersection(&one(Operator::NotIn, "3")), "example.com/key NotIn [3] >=2"),
    ];
    for (requirement, text) in table {
        assert_eq!(requirement.to_string(), text);
    }
}

#[test]
fn bounds_that_leave_no_integer_do_not_intersect() {
    let registry = LabelRegistry::core();
    let between = Requirements::from_expressions(
        &registry,
        &[Expression::new(KEY, Operator::Gt, &["3"]), Expression::new(KEY, Operator::Lt, &["6"])],
    );
    let without = requirement(&Expression::new(KEY, Operator::NotIn, &["4", "5"]));
    assert!(!between.get(KEY).unwrap().intersects(&without));
}

#[test]
fn unrepresentable_bounds_do_not_exist_and_lose_min_values() {
    let expression =
        Expression { min_values: Some(2), ..Expression::new(KEY, Operator::Gt, &["9223372036854775807"]) };
    assert_eq!(requirement(&expression), Requirement::does_not_exist(KEY.into()));
    let unparsable = requirement(&Expression::new(KEY, Operator::Gte, &["x"]));
    assert_eq!(unparsable.lower(), Some(0));
}

#[test]
fn min_values_merge_by_maximum_for_every_operator() {
    let all = expressions();
    for a in &all {
        for b in &all {
            for (left, right, expected) in
                [(Some(1), Some(3), Some(3)), (None, Some(2), Some(2)), (None, None, None)]
            {
                let a = requirement(a).with_min_values(left);
                let b = requirement(b).with_min_values(right);
                assert_eq!(a.intersection(&b).min_values(), expected, "{a} with {b}");
            }
        }
    }
}

#[test]
fn absence_is_accepted_where_every_statement_accepts_it() {
    let accepts = |one: &Expression| matches!(one.operator, Operator::NotIn | Operator::DoesNotExist);
    for (stated, requirement) in pairs() {
        // Statements that exclude each other read as `DoesNotExist`, which is no statement of theirs.
        if requirement.operator() != Operator::DoesNotExist || stated.len() == 1 {
            assert_eq!(requirement.accepts_absence(), stated.iter().all(accepts), "{stated:?}");
        }
    }
}

#[test]
fn text_lists_at_most_five_values() {
    let values = ["1", "2", "3", "4", "5", "6", "7"];
    let table = [
        (Expression::new(KEY, Operator::In, &values[..5]), "example.com/key In [1 2 3 4 5]"),
        (Expression::new(KEY, Operator::NotIn, &values), "example.com/key NotIn [1 2 3 4 5 and 2 others]"),
        (Expression::new(KEY, Operator::Exists, &[]), "example.com/key Exists"),
        (
            Expression { min_values: Some(2), ..Expression::new(KEY, Operator::In, &["b", "a"]) },
            "example.com/key In [a b] minValues 2",
        ),
    ];
    for (expression, text) in table {
        assert_eq!(requirement(&expression).to_string(), text);
    }
}

#[test]
fn keys_and_values_are_normalised_for_every_operator() {
    let mut registry = LabelRegistry::core();
    registry.normalized_values.insert("kubernetes.io/arch".into(), [("x86".into(), "amd64".into())].into());
    for operator in [Operator::In, Operator::NotIn] {
        let old =
            Requirement::new(&registry, &Expression::new("beta.kubernetes.io/arch", operator, &["x86"]));
        let new = Requirement::new(&registry, &Expression::new("kubernetes.io/arch", operator, &["amd64"]));
        assert_eq!(old, new);
    }
}
