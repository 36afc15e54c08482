//! Questions that may be asked.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use karpenter_model::{ClaimName, NodeName, PodKey, PoolName};

/// Subject of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Everything, in short.
    All,
    /// Reasons why a node stays or goes.
    Node(NodeName),
    /// Reasons why a node stays or goes, by the name of its claim.
    Claim(ClaimName),
    /// Reasons why a pod waits, or the place it goes to.
    Pod(PodKey),
    /// State of a pool, and the disruptions its budgets allow.
    Pool(PoolName),
}

/// A question that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot explain `{0}`; ask about `node/NAME`, `nodeclaim/NAME`, `pod/NAMESPACE/NAME`, `nodepool/NAME` or `all`"
)]
pub struct QuestionError(String);

impl Question {
    /// The question in the parameters of a request; none is about everything.
    pub(super) fn from_parameters(parameters: &BTreeMap<String, String>) -> Result<Self, QuestionError> {
        match parameters.iter().next() {
            None => Ok(Self::All),
            Some((kind, name)) => format!("{kind}/{name}").parse(),
        }
    }

    /// The parameters of a request that asks it, escaped; empty when it is about everything.
    pub fn parameters(&self) -> String {
        match self.to_string().split_once('/') {
            None => String::new(),
            Some((kind, name)) => format!("?{kind}={}", name.replace('/', "%2F")),
        }
    }
}

impl FromStr for Question {
    type Err = QuestionError;

    /// Reads `node/NAME`, `nodeclaim/NAME`, `pod/NAMESPACE/NAME` (a pod without namespace is in `default`),
    /// `nodepool/NAME` or `all`.
    fn from_str(text: &str) -> Result<Self, QuestionError> {
        let refused = || QuestionError(text.to_owned());
        if text == "all" {
            return Ok(Self::All);
        }
        let (kind, name) = text.split_once('/').ok_or_else(refused)?;
        let (namespace, name) = match (kind, name.split_once('/')) {
            ("pod", Some((namespace, name))) => (namespace, name),
            (_, Some(_)) => return Err(refused()),
            (_, None) => ("default", name),
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if [namespace, name].iter().any(|part| part.is_empty() || !part.bytes().all(allowed)) {
            return Err(refused());
        }
        match kind {
            "node" => Ok(Self::Node(name.into())),
            "nodeclaim" => Ok(Self::Claim(name.into())),
            "pod" => Ok(Self::Pod(PodKey { namespace: namespace.into(), name: name.into() })),
            "nodepool" => Ok(Self::Pool(name.into())),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("all"),
            Self::Node(name) => f.pad(&format!("node/{name}")),
            Self::Claim(name) => f.pad(&format!("nodeclaim/{name}")),
            Self::Pod(key) => f.pad(&format!("pod/{key}")),
            Self::Pool(name) => f.pad(&format!("nodepool/{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_survive_the_way_through_a_request() {
        let table = [
            ("all", ""),
            ("node/ip-10-0-0-1.ec2.internal", "?node=ip-10-0-0-1.ec2.internal"),
            ("nodeclaim/web-x7", "?nodeclaim=web-x7"),
            ("pod/shop/api-0", "?pod=shop%2Fapi-0"),
            ("nodepool/web", "?nodepool=web"),
        ];
        for (text, parameters) in table {
            let question: Question = text.parse().unwrap();
            assert_eq!(question.to_string(), text);
            assert_eq!(question.parameters(), parameters);
            let pairs = parameters.strip_prefix('?').and_then(|pair| pair.split_once('='));
            let received = pairs.map(|(kind, name)| (kind.to_owned(), name.replace("%2F", "/")));
            assert_eq!(Question::from_parameters(&received.into_iter().collect()), Ok(question));
        }
        assert_eq!("pod/api-0".parse::<Question>().unwrap().to_string(), "pod/default/api-0");
    }

    #[test]
    fn what_is_not_a_question_is_said_with_what_is() {
        for text in
            ["", "node", "node/", "node/a/b", "pod/a/b/c", "pod//b", "secret/a", "node/a b", "node/a\nb"]
        {
            let error = text.parse::<Question>().unwrap_err();
            assert!(error.to_string().contains("pod/NAMESPACE/NAME"), "{text:?}");
        }
    }
}
