//! Reviews of who asks and what they may do. Everybody is an administrator here.

use serde_json::{Value, json};

use super::Incoming;
use crate::apiserver::refusal::Refusal;

/// Kinds of reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    /// Who am I?
    Subject,
    /// Whose token is this?
    Token,
    /// May I, or may they?
    Access,
    /// What may I?
    Rules,
}

impl Review {
    pub(super) fn find(group: &str, plural: &str) -> Option<Self> {
        match (group, plural) {
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::Subject),
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews") => {
                Some(Self::Access)
            }
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::Rules),
            _ => None,
        }
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
