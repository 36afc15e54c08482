//! Decisions of documents of the account that name principals.
//!
//! A check knows less than IAM does when the call is made. Where the answer depends on that there is none, which is not
//! the same as a fault.

use karpenter_iam::{Decision, Denial, Policies, Policy, Request};

use crate::check::{Evidence, Outcome};
use crate::facts::Unseen;

/// Returns whether `document` lets all of `requests` be made; one that cannot be read lets none.
pub(super) fn lets(document: &str, requests: impl IntoIterator<Item = Request>) -> Result<bool, Unseen> {
    let Ok(policy) = Policy::found_on_resource(document) else { return Ok(false) };
    let policies = Policies::of(vec![policy]);
    let mut unclear = None;
    for request in requests {
        match policies.decide(&request.partial()) {
            Decision::Allowed(_) => {}
            Decision::Denied(denial @ Denial::Undecided { .. }) => {
                unclear = Some(Unseen(format!("a policy cannot be evaluated here: {denial}")));
            }
            Decision::Denied(_) => return Ok(false),
        }
    }
    unclear.map_or(Ok(true), Err)
}

/// Returns whether one of the answers is yes.
pub(super) fn any(answers: impl IntoIterator<Item = Result<bool, Unseen>>) -> Result<bool, Unseen> {
    let mut unclear = None;
    for answer in answers {
        match answer {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(unseen) => unclear = Some(unseen),
        }
    }
    unclear.map_or(Ok(false), Err)
}

/// Returns the findings; what could not be looked at counts where there are none.
pub(super) fn gathered(looks: impl IntoIterator<Item = Result<Option<Evidence>, Unseen>>) -> Outcome {
    let (mut found, mut unseen) = (Vec::new(), None);
    for look in looks {
        match look {
            Ok(evidence) => found.extend(evidence),
            Err(why) => unseen = Some(why),
        }
    }
    match unseen {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}
