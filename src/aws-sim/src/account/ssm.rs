//! Public parameters.

use async_trait::async_trait;

use super::Account;
use karpenter_aws_api::ssm::Ssm;
use karpenter_aws_api::{Error, Result};

#[async_trait]
impl Ssm for Account {
    async fn get_parameter(&self, name: &str) -> Result<String> {
        self.call("GetParameter", name, |state, _| {
            // An ARN names the parameter after `:parameter`.
            let key = name.split_once(":parameter").map_or(name, |(_, path)| path);
            state.parameters.get(key).cloned().ok_or_else(|| {
                let text = format!("Parameter {name} not found.");
                Error::answered("GetParameter", name, "ParameterNotFound", text)
            })
        })
        .await
    }
}
