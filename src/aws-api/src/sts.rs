//! Identity of the caller.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::Result;
use crate::id::Arn;

/// The Security Token calls of this product.
#[async_trait]
pub trait Sts: Send + Sync + Debug {
    /// `GetCallerIdentity`. Needs no permission, so its failure means bad credentials or no network.
    async fn get_caller_identity(&self) -> Result<CallerIdentity>;
}

/// The identity behind our credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerIdentity {
    /// Twelve digits.
    pub account: String,
    /// ARN of the user or assumed role.
    pub arn: Arn,
}
