//! Requests whose answer was lost: they are repeated, and what an earlier try created is recognized.

use serde_json::Value;

use super::Object;
use crate::client;

/// Largest number of times that a request is made: connections that wait to be used again may all have died with the server.
const TRIES: u32 = 3;

/// Makes a request that may be made twice, again at once when its connection ends without an answer. A server that does
/// not answer at all is another matter: the caller has waited long enough.
pub(super) async fn repeated<T, F>(mut request: impl FnMut() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut tries = 1;
    loop {
        match request().await {
            Err(error) if tries < TRIES && client::connection_ended(&error) => {
                tracing::debug!(%error, "connection ended before an answer, asking again");
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// Returns whether `found` is the object that was `sent` under this name, or what has become of it: its owners, by uid, and
/// its spec, to which the server adds defaults, identify it.
pub(super) fn is_what_was_sent<K: Object>(found: &K, sent: &K) -> bool {
    let part = |object: &K, pointer: &str| {
        let object = serde_json::to_value(object).ok()?;
        Some(object.pointer(pointer).cloned().unwrap_or_default())
    };
    ["/metadata/ownerReferences", "/spec"].into_iter().all(|pointer| {
        match (part(found, pointer), part(sent, pointer)) {
            (Some(found), Some(sent)) => contains(&found, &sent),
            _ => false,
        }
    })
}

/// Returns whether everything in `part` is in `whole`, too.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|present| contains(present, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

#[cfg(test)]
mod tests;
