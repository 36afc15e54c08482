//! Filter of the machines that are shown: words and labels, all of which have to match.

use std::fmt;

use crate::machine::Machine;

/// A filter as it was typed, and what it means. The default lets everything through.
///
/// Terms are separated by spaces. `KEY=VALUE` and `KEY!=VALUE` compare a label, or what a short word stands for (`pool`,
/// `type`, `zone`, `capacity`, `state`); any other term has to be part of the name of the node, of its claim, its pool or
/// its instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

/// Keys that stand for what is not a label, or has a long one.
const SHORT_WORDS: [&str; 5] = ["pool", "type", "zone", "capacity", "state"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Word(String),
    Value { key: String, value: String, wanted: bool },
}

impl Filter {
    /// Returns the filter in `text`; every text is one.
    pub fn new(text: &str) -> Self {
        let terms = text.split_whitespace().map(|term| match term.split_once('=') {
            None => Term::Word(term.to_owned()),
            Some((key, value)) => {
                let (key, wanted) = key.strip_suffix('!').map_or((key, true), |key| (key, false));
                Term::Value { key: key.to_owned(), value: value.to_owned(), wanted }
            }
        });
        Self { text: text.trim().to_owned(), terms: terms.collect() }
    }

    /// Returns whether nothing is filtered out.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the first key that neither is a short word nor a label of one of `machines`: it is probably misspelt.
    pub(crate) fn unknown_key(&self, machines: &[Machine<'_>]) -> Option<&str> {
        let keys = self.terms.iter().filter_map(|term| match term {
            Term::Value { key, .. } => Some(key.as_str()),
            Term::Word(_) => None,
        });
        let known = |key: &str| {
            SHORT_WORDS.contains(&key) || machines.iter().any(|machine| machine.label(key).is_some())
        };
        keys.into_iter().find(|key| !known(key))
    }

    /// Returns whether `machine` is shown.
    pub(crate) fn matches(&self, machine: &Machine<'_>) -> bool {
        self.terms.iter().all(|term| match term {
            Term::Word(word) => {
                let claim = machine.claim.map_or("", |(name, _)| name);
                [&*machine.name, claim, machine.pool, machine.instance_type]
                    .iter()
                    .any(|text| text.contains(word.as_str()))
            }
            Term::Value { key, value, wanted } => {
                let actual = match key.as_str() {
                    "pool" => Some(machine.pool),
                    "type" => Some(machine.instance_type),
                    "zone" => Some(machine.zone),
                    "capacity" => Some(machine.capacity),
                    "state" => Some(machine.state.phase.as_str()),
                    label => machine.label(label),
                };
                (actual.unwrap_or_default() == value) == *wanted
            }
        })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
