//! Identity of the caller: always the controller role of the account's cluster.

use async_trait::async_trait;

use super::Account;
use karpenter_aws_api::Result;
use karpenter_aws_api::sts::{CallerIdentity, Sts};

#[async_trait]
impl Sts for Account {
    async fn get_caller_identity(&self) -> Result<CallerIdentity> {
        let options = self.options();
        let arn = format!(
            "arn:{}:sts::{}:assumed-role/{}-karpenter/session",
            self.partition().arn_prefix(),
            options.account,
            options.cluster
        );
        self.call("GetCallerIdentity", "our credentials", |_, _| {
            Ok(CallerIdentity { account: options.account.clone(), arn: arn.into() })
        })
        .await
    }
}
