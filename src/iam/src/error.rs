//! Reasons why a policy document is refused.

/// Reason why a document cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON.
    #[error("the policy document is not JSON")]
    Json(#[source] serde_json::Error),
    /// Something is missing or has another form.
    #[error("statement `{sid}`: `{field}` is missing or malformed")]
    Field {
        /// The statement; empty for the document itself.
        sid: String,
        field: &'static str,
    },
    /// A field that is not evaluated here.
    #[error("statement `{sid}` has a field `{field}`, which is not evaluated here")]
    UnknownField {
        /// The statement; empty for the document itself.
        sid: String,
        field: String,
    },
    /// An operator that does not exist or is not evaluated here.
    #[error(
        "there is no condition operator `{operator}` that takes these values; correct it, or teach the evaluator"
    )]
    Operator { operator: String },
    /// A key that does not exist or is not evaluated here.
    #[error("there is no condition key `{key}`; correct it, or teach the evaluator")]
    Key { key: String },
    /// An operator for one value on a key with many.
    #[error(
        "`{operator}` compares one value and `{key}` has many; write `ForAllValues:` or `ForAnyValue:` before it"
    )]
    ManyValued { operator: String, key: String },
    /// A policy variable.
    #[error("policy variables are not evaluated here: `{text}`")]
    Variable {
        /// The text that holds it.
        text: String,
    },
    /// A resource that is neither an ARN nor `*`.
    #[error("statement `{sid}`: resource `{resource}` is no ARN of six parts")]
    Resource {
        /// The statement.
        sid: String,
        resource: String,
    },
}
