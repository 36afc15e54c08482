//! Token requests of service accounts and reviews of the caller: enough for clients that insist on asking.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Store;
use crate::apiserver::{
    object::{self, Key},
    refusal::Refusal,
    resource::Resource,
};

impl Store {
    /// Answers a `TokenRequest` with a token that is never checked.
    pub(crate) fn issue_token(
        &mut self,
        resource: &Resource,
        key: &Key,
        request: &Value,
    ) -> Result<Value, Refusal> {
        let account = self.find(resource, key)?;
        let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3_600);
        let expires =
            self.now().checked_add(SignedDuration::from_secs(seconds)).unwrap_or_else(|_| self.now());
        let token = format!("sim.{}.{}", object::uid(&account), self.fresh_suffix());
        let mut answer = request.clone();
        answer["kind"] = json!("TokenRequest");
        answer["apiVersion"] = json!("authentication.k8s.io/v1");
        answer["status"] = json!({"token": token, "expirationTimestamp": object::rfc3339(expires)});
        Ok(answer)
    }
}
