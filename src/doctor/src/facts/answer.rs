//! An answer, or why there is none.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// The question was not asked: an account is looked at before there is a cluster.
    #[default]
    Unasked,
    /// The whole answer; an empty list means that there is nothing.
    Seen(T),
    /// No answer, and why.
    Unseen(String),
}

/// Reason why a check could not look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unseen(pub String);

impl<T> Answer<T> {
    /// The answer, for checks to continue with.
    pub fn get(&self) -> Result<&T, Unseen> {
        match self {
            Self::Seen(answer) => Ok(answer),
            Self::Unseen(why) => Err(Unseen(why.clone())),
            Self::Unasked => Err(Unseen("not asked".to_owned())),
        }
    }

    /// The answer, nothing if the question was not asked, or why it was refused.
    pub(crate) fn if_asked(&self) -> Result<Option<&T>, Unseen> {
        match self {
            Self::Unasked => Ok(None),
            _ => self.get().map(Some),
        }
    }

    /// The answer to change, if there is one.
    pub fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Seen(answer) => Some(answer),
            Self::Unseen(_) | Self::Unasked => None,
        }
    }
}

impl<T, E: Display> From<Result<T, E>> for Answer<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(answer) => Self::Seen(answer),
            Err(error) => Self::Unseen(error.to_string()),
        }
    }
}

/// A part of the facts in which every answer is missing for the same reason.
pub fn unseen<T: Default + Serialize + DeserializeOwned>(why: &str) -> T {
    let mut part = serde_json::to_value(T::default()).expect("invariant: facts serialise");
    for answer in part.as_object_mut().into_iter().flat_map(|answers| answers.values_mut()) {
        *answer = json!({ "unseen": why });
    }
    serde_json::from_value(part).expect("invariant: every field of a part is an answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Account, Cluster};

    #[test]
    fn one_reason_stands_for_every_answer() {
        let cluster: Cluster = unseen("no kubeconfig");
        assert_eq!(cluster.nodes, Answer::Unseen("no kubeconfig".to_owned()));
        assert_eq!(cluster.log, Answer::Unseen("no kubeconfig".to_owned()));
        let account: Account = unseen("no credentials");
        assert_eq!(account.spot_role.get(), Err(Unseen("no credentials".to_owned())));
    }
}
