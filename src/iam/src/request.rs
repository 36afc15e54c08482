//! Request to IAM: one action on one resource, and what is known around it.

use std::collections::BTreeMap;

/// Principal that asks, as documents that name principals see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// `Service`, `AWS` or `Federated`.
    pub kind: String,
    /// E.g. `ec2.amazonaws.com`, or an ARN.
    pub name: String,
}

/// One question. A call of AWS asks one for each resource it touches and each action it implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// E.g. `ec2:RunInstances`.
    pub action: String,
    /// An ARN, or `*` for actions that know no resources.
    pub resource: String,
    /// Principal that asks; only documents of resources (trust, queue policies) look at it.
    pub principal: Option<Principal>,
    context: BTreeMap<String, Vec<String>>,
    is_partial: bool,
    allowed_by_account: bool,
}

impl Request {
    /// `action` on `resource`, with nothing known around it.
    pub fn new(action: &str, resource: &str) -> Self {
        Self {
            action: action.to_owned(),
            resource: resource.to_owned(),
            principal: None,
            context: BTreeMap::new(),
            is_partial: false,
            allowed_by_account: false,
        }
    }

    /// Adds one more condition key. Keys are the same in upper and lower case, values are not.
    #[must_use]
    pub fn with(self, key: &str, value: &str) -> Self {
        self.with_all(key, [value.to_owned()])
    }

    /// Adds a key that has many values, e.g. `aws:TagKeys`.
    #[must_use]
    pub fn with_all(mut self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        self.context.insert(key.to_lowercase(), values.into_iter().collect());
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.context.remove(&key.to_lowercase());
        self
    }

    /// Sets the principal that asks: `name` of a kind (`Service`, `AWS`, `Federated`).
    #[must_use]
    pub fn by(mut self, kind: &str, name: &str) -> Self {
        self.principal = Some(Principal { kind: kind.to_owned(), name: name.to_owned() });
        self
    }

    /// Marks the request as incomplete: more is around it than is known here, and a key that is not given may have any value,
    /// or none.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.is_partial = true;
        self
    }

    /// Marks the request as one from an identity whose own policies allow it: a document that allows its account allows it.
    #[must_use]
    pub fn allowed_by_account(mut self) -> Self {
        self.allowed_by_account = true;
        self
    }

    pub(crate) fn is_allowed_by_account(&self) -> bool {
        self.allowed_by_account
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The values of a key, `None` when it is not there.
    pub(crate) fn values(&self, key: &str) -> Option<&[String]> {
        self.context.get(&key.to_lowercase()).map(Vec::as_slice)
    }
}
