//! Identity of the caller, over the SDK.

use async_trait::async_trait;
use aws_config::SdkConfig;

use super::call::Call;
use super::meter::{Meter, measured};
use karpenter_aws_api::Result;
use karpenter_aws_api::sts::{CallerIdentity, Sts};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_sts::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_sts, config, meter))
    }
}

#[async_trait]
impl Sts for Client {
    async fn get_caller_identity(&self) -> Result<CallerIdentity> {
        let call = Call::new("GetCallerIdentity", "our credentials");
        let answer = self.0.get_caller_identity().send().await.map_err(|failure| call.failed(failure))?;
        Ok(CallerIdentity {
            account: call.field(answer.account, "Account")?,
            arn: call.field(answer.arn, "Arn")?.into(),
        })
    }
}
