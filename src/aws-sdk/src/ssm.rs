//! Parameters over the SDK.

use async_trait::async_trait;
use aws_config::SdkConfig;

use super::call::Call;
use super::meter::{Meter, measured};
use karpenter_aws_api::Result;
use karpenter_aws_api::ssm::Ssm;

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_ssm::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_ssm, config, meter))
    }
}

#[async_trait]
impl Ssm for Client {
    async fn get_parameter(&self, name: &str) -> Result<String> {
        let call = Call::new("GetParameter", name);
        let answer =
            self.0.get_parameter().name(name).send().await.map_err(|failure| call.failed(failure))?;
        call.field(answer.parameter.and_then(|parameter| parameter.value), "Parameter.Value")
    }
}
