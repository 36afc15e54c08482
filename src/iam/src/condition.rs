//! Conditions: `{operator: {key: values}}`, all of which must hold.
//!
//! A missing key has another effect with each operator and is where policies go wrong: positive operators fail,
//! negated ones hold, `...IfExists` and `ForAllValues:` hold, `ForAnyValue:` fails (IAM user guide, "Condition operators" and
//! "Multivalued context keys").

use std::fmt;

use crate::error::Error;
use crate::pattern::{matches, matches_arn};
use crate::request::Request;
use crate::truth::Truth;

/// Condition keys that this crate knows, in lower case; `/` at the end: any key that begins so.
const KEYS: &[&str] = &[
    "arc-zonal-shift:resourceidentifier",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principaltag/",
    "aws:requestedregion",
    "aws:requesttag/",
    "aws:resourcetag/",
    "aws:securetransport",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:tagkeys",
    "ec2:createaction",
    "iam:awsservicename",
    "iam:passedtoservice",
    "iam:permissionsboundary",
    "iam:policyarn",
];

/// Keys among them that have many values, which only `ForAllValues:` and `ForAnyValue:` can compare.
const MANY_VALUED: &[&str] = &["aws:tagkeys"];

/// Claims of the tokens of an identity provider: `<issuer>:aud`, `<issuer>:sub`.
const CLAIMS: [&str; 2] = [":aud", ":sub"];

/// Comparison of a value of the request with one of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    EqualIgnoringCase,
    Like,
    Arn,
    Bool,
}

/// Over which of the request's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    TheOne,
    All,
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// `Null`: whether the key is absent.
    Absent(bool),
    Compare {
        comparison: Comparison,
        negated: bool,
        over: Over,
        if_exists: bool,
    },
}

/// One operator with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    operator: String,
    key: String,
    values: Vec<String>,
    /// `None` when it is not evaluated here.
    test: Option<Test>,
    /// True if the key is one of those that exist, so that a request without it really lacks it.
    is_known: bool,
}

impl Condition {
    /// Reads one line of a `Condition` block that is not evaluated unless everything about it is known.
    pub(crate) fn parse(operator: &str, key: &str, values: Vec<String>) -> Result<Self, Error> {
        if !is_known(key) {
            return Err(Error::Key { key: key.to_owned() });
        }
        let test = Self::test(operator, key, &values)?;
        Ok(Self {
            operator: operator.to_owned(),
            key: key.to_owned(),
            values,
            test: Some(test),
            is_known: true,
        })
    }

    /// Reads one line of a `Condition` block in a document of an account: what is not evaluated here is neither true nor false.
    pub(crate) fn found(operator: &str, key: &str, values: Vec<String>) -> Self {
        let test = Self::test(operator, key, &values).ok();
        let is_known = is_known(key);
        Self { operator: operator.to_owned(), key: key.to_owned(), values, test, is_known }
    }

    fn test(operator: &str, key: &str, values: &[String]) -> Result<Test, Error> {
        if let Some(variable) = values.iter().find(|value| value.contains("${")) {
            return Err(Error::Variable { text: variable.clone() });
        }
        let test = Test::parse(operator, values)?;
        let many = MANY_VALUED.contains(&key.to_lowercase().as_str());
        if many && matches!(test, Test::Compare { over: Over::TheOne, .. }) {
            return Err(Error::ManyValued { operator: operator.to_owned(), key: key.to_owned() });
        }
        Ok(test)
    }

    /// Returns whether it holds for `request`.
    pub(crate) fn holds(&self, request: &Request) -> Truth {
        let found = request.values(&self.key);
        let Some(test) = &self.test else { return Truth::Unknown };
        if found.is_none() && (request.is_partial() || !self.is_known) {
            return Truth::Unknown;
        }
        let holds = match test {
            Test::Absent(wanted) => found.is_none() == *wanted,
            Test::Compare { comparison, negated, over, if_exists } => match (found, over) {
                (None, Over::TheOne) => *if_exists || *negated,
                (None, Over::All) => true,
                (None, Over::Any) => *if_exists,
                (Some(found), Over::TheOne | Over::All) => {
                    found.iter().all(|value| self.fits(*comparison, value) != *negated)
                }
                (Some(found), Over::Any) => {
                    found.iter().any(|value| self.fits(*comparison, value) != *negated)
                }
            },
        };
        holds.into()
    }

    fn fits(&self, comparison: Comparison, value: &str) -> bool {
        self.values.iter().any(|wanted| comparison.fits(wanted, value))
    }

    /// Describes what it wants and what it got, for the author of the policy.
    pub(crate) fn complaint(&self, request: &Request) -> String {
        match request.values(&self.key) {
            _ if self.test.is_none() => format!("{self}, which is not evaluated here"),
            Some(values) => format!("{self}, the request has {values:?}"),
            None if request.is_partial() || !self.is_known => format!("{self}, which is not known here"),
            None => format!("{self}, the request has nothing"),
        }
    }
}

fn is_known(key: &str) -> bool {
    let lower = key.to_lowercase();
    KEYS.iter().any(|known| match known.strip_suffix('/') {
        Some(family) => {
            lower.strip_prefix(family).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        }
        None => *known == lower,
    }) || CLAIMS.iter().any(|claim| lower.ends_with(claim))
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` of `{}` wants {:?}", self.operator, self.key, self.values)
    }
}

impl Test {
    fn parse(operator: &str, values: &[String]) -> Result<Self, Error> {
        let unknown = || Error::Operator { operator: operator.to_owned() };
        if operator == "Null" {
            return match values {
                [one] if one == "true" || one == "false" => Ok(Self::Absent(one == "true")),
                _ => Err(unknown()),
            };
        }
        let (over, rest) = match operator.split_once(':') {
            Some(("ForAllValues", rest)) => (Over::All, rest),
            Some(("ForAnyValue", rest)) => (Over::Any, rest),
            Some(_) => return Err(unknown()),
            None => (Over::TheOne, operator),
        };
        let (name, if_exists) = match rest.strip_suffix("IfExists") {
            Some(name) => (name, true),
            None => (rest, false),
        };
        let (comparison, negated) = match name {
            "StringEquals" => (Comparison::Equal, false),
            "StringNotEquals" => (Comparison::Equal, true),
            "StringEqualsIgnoreCase" => (Comparison::EqualIgnoringCase, false),
            "StringNotEqualsIgnoreCase" => (Comparison::EqualIgnoringCase, true),
            "StringLike" => (Comparison::Like, false),
            "StringNotLike" => (Comparison::Like, true),
            "ArnEquals" | "ArnLike" => (Comparison::Arn, false),
            "ArnNotEquals" | "ArnNotLike" => (Comparison::Arn, true),
            "Bool" => (Comparison::Bool, false),
            _ => return Err(unknown()),
        };
        Ok(Self::Compare { comparison, negated, over, if_exists })
    }
}

impl Comparison {
    fn fits(self, wanted: &str, found: &str) -> bool {
        match self {
            Self::Equal => wanted == found,
            Self::EqualIgnoringCase | Self::Bool => wanted.eq_ignore_ascii_case(found),
            Self::Like => matches(wanted, found),
            Self::Arn => matches_arn(wanted, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aws:RequestTag/team";

    fn holds(operator: &str, key: &str, wanted: &[&str], found: Option<&[&str]>) -> bool {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let condition = Condition::parse(operator, key, texts(wanted)).unwrap();
        let request = Request::new("a:B", "*");
        let request = found.map_or(request.clone(), |found| request.with_all(key, texts(found)));
        condition.holds(&request) == Truth::Yes
    }

    /// IAM user guide, "String condition operators", "ARN condition operators", "Boolean condition operators".
    #[test]
    fn single_values() {
        for (operator, wanted, found, result) in [
            ("StringEquals", &["a", "b"][..], "b", true),
            ("StringEquals", &["a"], "A", false),
            ("StringEquals", &["a*"], "ab", false),
            ("StringEqualsIgnoreCase", &["a"], "A", true),
            ("StringNotEquals", &["a", "b"], "b", false),
            ("StringNotEquals", &["a", "b"], "c", true),
            ("StringLike", &["a*"], "ab", true),
            ("StringLike", &["*"], "", true),
            ("StringLike", &["a?"], "a", false),
            ("StringNotLike", &["a*"], "ab", false),
            ("ArnLike", &["arn:aws:eks:*:1:cluster/*"], "arn:aws:eks:eu-west-1:1:cluster/a", true),
            ("ArnEquals", &["arn:aws:eks:*:1:cluster/*"], "arn:aws:eks:eu-west-1:1:cluster/a", true),
            ("ArnEquals", &["arn:aws:eks:*:cluster/*"], "arn:aws:eks:eu-west-1:1:cluster/a", false),
            ("ArnNotLike", &["arn:aws:eks:*:1:cluster/*"], "arn:aws:eks:eu-west-1:2:cluster/a", true),
        ] {
            assert_eq!(holds(operator, KEY, wanted, Some(&[found])), result, "{operator} {wanted:?} {found}");
        }
        assert!(holds("Bool", "aws:SecureTransport", &["true"], Some(&["True"])));
        assert!(!holds("Bool", "aws:SecureTransport", &["false"], Some(&["true"])));
    }

    /// "If the key is not present": the table of the user guide.
    #[test]
    fn missing_keys() {
        for (operator, result) in [
            ("StringEquals", false),
            ("StringLike", false),
            ("ArnLike", false),
            ("StringNotEquals", true),
            ("StringNotLike", true),
            ("StringEqualsIfExists", true),
            ("StringNotEqualsIfExists", true),
            ("ForAllValues:StringEquals", true),
            ("ForAnyValue:StringEquals", false),
            ("ForAnyValue:StringLikeIfExists", true),
        ] {
            assert_eq!(holds(operator, KEY, &["a"], None), result, "{operator}");
        }
        assert!(holds("Null", KEY, &["true"], None));
        assert!(!holds("Null", KEY, &["false"], None));
        assert!(holds("Null", KEY, &["false"], Some(&["x"])));
    }

    /// "Multivalued context keys": the table of the user guide.
    #[test]
    fn many_values() {
        let keys = "aws:TagKeys";
        for (operator, wanted, found, result) in [
            ("ForAllValues:StringEquals", &["a", "b"][..], &["a"][..], true),
            ("ForAllValues:StringEquals", &["a", "b"], &["a", "b"], true),
            ("ForAllValues:StringEquals", &["a", "b"], &["a", "c"], false),
            ("ForAllValues:StringEquals", &["a", "b"], &[], true),
            ("ForAnyValue:StringEquals", &["a", "b"], &["c", "b"], true),
            ("ForAnyValue:StringEquals", &["a", "b"], &["c"], false),
            ("ForAnyValue:StringEquals", &["a", "b"], &[], false),
            ("ForAllValues:StringNotEquals", &["a"], &["b", "c"], true),
            ("ForAllValues:StringNotEquals", &["a"], &["a", "c"], false),
            ("ForAnyValue:StringNotEquals", &["a"], &["a", "c"], true),
            ("ForAllValues:StringLike", &["k/*"], &["k/1", "k/2"], true),
        ] {
            assert_eq!(holds(operator, keys, wanted, Some(found)), result, "{operator} {wanted:?} {found:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (operator, key, value, message) in [
            ("StringMatches", KEY, "a", "there is no condition operator `StringMatches`"),
            (
                "ForSomeValues:StringEquals",
                KEY,
                "a",
                "there is no condition operator `ForSomeValues:StringEquals`",
            ),
            ("Null", KEY, "maybe", "there is no condition operator `Null`"),
            ("StringEquals", "aws:RequestTags/team", "a", "there is no condition key `aws:RequestTags/team`"),
            ("StringEquals", "aws:RequestTag/", "a", "there is no condition key `aws:RequestTag/`"),
            (
                "StringEquals",
                KEY,
                "${aws:username}",
                "policy variables are not evaluated here: `${aws:username}`",
            ),
            (
                "StringEquals",
                "aws:TagKeys",
                "a",
                "`StringEquals` compares one value and `aws:TagKeys` has many; write `ForAllValues:` or `ForAnyValue:` before it",
            ),
        ] {
            let error = Condition::parse(operator, key, vec![value.to_owned()]).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn keys_are_the_same_in_any_case_and_values_are_not() {
        assert!(holds("StringEquals", "AWS:requesttag/Team", &["a"], Some(&["a"])));
        let condition = Condition::parse("StringEquals", KEY, vec!["a".to_owned()]).unwrap();
        let request = Request::new("a:B", "*").with("aws:requesttag/TEAM", "a");
        assert_eq!(condition.holds(&request), Truth::Yes);
    }

    #[test]
    fn what_is_not_evaluated_is_neither_true_nor_false() {
        let request = Request::new("a:B", "*").with("kms:ViaService", "ec2").with(KEY, "a");
        let partial = request.clone().partial();
        for (operator, key, value, at_all, in_part) in [
            ("StringEquals", "kms:ViaService", "ec2", Truth::Yes, Truth::Yes),
            ("StringEquals", "kms:ViaService", "rds", Truth::No, Truth::No),
            ("StringEquals", "kms:CallerAccount", "1", Truth::Unknown, Truth::Unknown),
            ("StringEquals", "aws:RequestTag/other", "a", Truth::No, Truth::Unknown),
            ("StringNotEquals", "aws:RequestTag/other", "a", Truth::Yes, Truth::Unknown),
            ("Null", "aws:RequestTag/other", "true", Truth::Yes, Truth::Unknown),
            ("NumericLessThan", KEY, "5", Truth::Unknown, Truth::Unknown),
            ("StringNotMatches", KEY, "b", Truth::Unknown, Truth::Unknown),
            ("StringEquals", KEY, "${aws:username}", Truth::Unknown, Truth::Unknown),
            ("StringEquals", "aws:TagKeys", "a", Truth::Unknown, Truth::Unknown),
        ] {
            let condition = Condition::found(operator, key, vec![value.to_owned()]);
            assert_eq!(condition.holds(&request), at_all, "{condition}");
            assert_eq!(condition.holds(&partial), in_part, "{condition}");
        }
    }
}
