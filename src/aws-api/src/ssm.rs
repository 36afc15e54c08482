//! Parameters that name images (spec aws-provider 6.1).

use std::fmt::Debug;

use async_trait::async_trait;

use crate::Result;

/// The Systems Manager calls of this product.
#[async_trait]
pub trait Ssm: Send + Sync + Debug {
    /// `GetParameter` by name or ARN: its value. Never asks for decryption.
    async fn get_parameter(&self, name: &str) -> Result<String>;
}
