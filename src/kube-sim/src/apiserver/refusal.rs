//! Refusals of the API server: the `Status` object of the Kubernetes API.
//!
//! Clients branch on `code`, `reason` and the causes, so these carry the same strings as kube-apiserver's.

use karpenter_api::schema;
use serde_json::{Value, json};

use super::{Cause, resource::Resource};

/// A refused request. Becomes a `Status` body with the HTTP status `code`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// HTTP status, 400 to 599.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`.
    pub reason: &'static str,
    /// Text for people; names the object.
    pub message: String,
    /// The object the request was about.
    pub subject: Option<Box<Subject>>,
    /// One entry per offending field.
    pub causes: Vec<Cause>,
    /// Seconds after which a repeated request may succeed.
    pub retry_after_seconds: Option<u32>,
}

/// The object named in the details of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name, or the kind for validation errors, as kube-apiserver does.
    pub kind: String,
    /// Object name, empty when the request named none.
    pub name: String,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, message, subject: None, causes: Vec::new(), retry_after_seconds: None }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.subject = Some(Box::new(Subject {
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            name: name.to_owned(),
        }));
        self
    }

    /// 404 for an object that does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// 404 for a path the server does not serve.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 405 for a verb the resource does not have.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// 409 on create of a name that is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409 when the object changed since the caller read it.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409 for the usual stale `resourceVersion`.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 when server-side apply meets fields of other managers; one cause per field.
    pub(crate) fn apply_conflict(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let list = causes.iter().map(|c| format!("{}: {}", c.message, c.field)).collect::<Vec<_>>();
        let message = format!("Apply failed with {} conflict(s): {}", causes.len(), list.join(", "));
        Self { causes, ..Self::new(409, "Conflict", message).about(resource, name) }
    }

    /// 422 with one cause per offending field.
    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let lines = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>();
        let text = match lines.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {text}", resource.qualified_kind());
        let mut refusal = Self::new(422, "Invalid", message).about(resource, name);
        if let Some(subject) = &mut refusal.subject {
            subject.kind.clone_from(&resource.kind);
        }
        refusal.causes = causes;
        refusal
    }

    /// 400 for fields that the schema of the resource does not know, 422 for values that it does not allow.
    pub(crate) fn by_schema(resource: &Resource, name: &str, violation: schema::Violation) -> Self {
        match violation {
            schema::Violation::UnknownFields(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|one| format!("unknown field \"{}\"", one.field)).collect();
                Self::bad_request(format!("strict decoding error: {}", fields.join(", ")))
            }
            schema::Violation::Values(causes) => Self::invalid(resource, name, causes),
        }
    }

    /// 400 for a request that cannot be understood.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 for a request that the server understands and never grants.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 410 when a watch or a continue token is older than the history that is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415 for a patch format the resource does not take.
    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 when a patch does not fit the object.
    pub(crate) fn unprocessable(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("the server rejected our request due to an error in our request: {why}");
        Self::new(422, "Invalid", message).about(resource, name)
    }

    /// 429: try again later.
    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after_seconds: Option<u32>) -> Self {
        Self { retry_after_seconds, ..Self::new(429, "TooManyRequests", message) }
    }

    /// 429 because a disruption budget does not allow the eviction now.
    pub fn disruption_budget(message: impl Into<String>, why: impl Into<String>) -> Self {
        let cause =
            Cause { reason: "DisruptionBudget".to_owned(), message: why.into(), field: String::new() };
        Self { causes: vec![cause], ..Self::too_many_requests(message, None) }
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// The `Status` object as JSON.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        let details = self.details();
        if details.as_object().is_some_and(|d| !d.is_empty()) {
            status["details"] = details;
        }
        status
    }

    fn details(&self) -> Value {
        let mut details = json!({});
        if let Some(subject) = &self.subject {
            if !subject.name.is_empty() {
                details["name"] = json!(subject.name);
            }
            if !subject.group.is_empty() {
                details["group"] = json!(subject.group);
            }
            details["kind"] = json!(subject.kind);
        }
        if !self.causes.is_empty() {
            let cause = |c: &Cause| json!({"reason": c.reason, "message": c.message, "field": c.field});
            details["causes"] = self.causes.iter().map(cause).collect();
        }
        if let Some(seconds) = self.retry_after_seconds {
            details["retryAfterSeconds"] = json!(seconds);
        }
        details
    }
}
