//! Reviews of callers and of their rights. Every caller is an administrator here.

use serde_json::{Value, json};

use super::Incoming;
use crate::apiserver::refusal::Refusal;

/// Kinds of reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    /// Identity of the caller.
    Subject,
    /// Owner of a token.
    Token,
    /// May I, or may they?
    Access,
    /// Rights of the caller.
    Rules,
}

/// Group, kind and meaning.
const REVIEWS: [(&str, &str, Review); 5] = [
    ("authentication.k8s.io", "SelfSubjectReview", Review::Subject),
    ("authentication.k8s.io", "TokenReview", Review::Token),
    ("authorization.k8s.io", "SelfSubjectAccessReview", Review::Access),
    ("authorization.k8s.io", "SelfSubjectRulesReview", Review::Rules),
    ("authorization.k8s.io", "SubjectAccessReview", Review::Access),
];

impl Review {
    /// The review behind a path.
    pub(super) fn find(group: &str, plural: &str) -> Option<Self> {
        let singular = plural.strip_suffix('s')?;
        let is_it = |row: &&(&str, &str, Self)| row.0 == group && row.1.to_lowercase() == singular;
        REVIEWS.iter().find(is_it).map(|row| row.2)
    }

    /// Groups with reviews.
    pub(super) fn groups() -> impl Iterator<Item = &'static str> {
        REVIEWS.iter().map(|row| row.0)
    }

    /// Kinds of the reviews of a group.
    pub(super) fn of_group(group: &str) -> impl Iterator<Item = &'static str> {
        REVIEWS.iter().filter(move |row| row.0 == group).map(|row| row.1)
    }
}

/// The review with its status filled in.
pub(super) fn answer(review: Review, incoming: &Incoming) -> Result<Value, Refusal> {
    if incoming.method != http::Method::POST {
        return Err(Refusal::method_not_allowed());
    }
    let mut body: Value = serde_json::from_slice(&incoming.body)
        .map_err(|error| Refusal::bad_request(format!("the review is no JSON: {error}")))?;
    let user = json!({"username": "sim-admin", "groups": ["system:masters", "system:authenticated"]});
    body["status"] = match review {
        Review::Subject => json!({"userInfo": user}),
        Review::Token => json!({"authenticated": true, "user": user}),
        Review::Access => json!({"allowed": true}),
        Review::Rules => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [], "incomplete": false,
        }),
    };
    Ok(body)
}
