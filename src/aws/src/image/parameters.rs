//! Values of SSM parameters, cached: public image parameters for a day, users' own for five minutes
//! (spec aws-provider 2.3, 6.1).

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_api::Result;
use karpenter_aws_api::error::optional;
use karpenter_aws_api::ssm::Ssm;
use karpenter_model::Clock;

use crate::calls::cache::TtlCache;

const PUBLIC: Duration = Duration::from_hours(24);
const OWN: Duration = Duration::from_mins(5);

/// Reads parameters.
#[derive(Debug)]
pub struct Parameters {
    ssm: Arc<dyn Ssm>,
    values: TtlCache<String, Cached>,
}

#[derive(Clone, Debug)]
struct Cached {
    value: String,
    mutable: bool,
}

impl Parameters {
    /// A reader with an empty cache.
    pub fn new(ssm: Arc<dyn Ssm>, clock: Arc<dyn Clock>) -> Self {
        Self { ssm, values: TtlCache::new(clock, PUBLIC) }
    }

    /// A public image parameter; `None` when it does not exist.
    ///
    /// # Errors
    /// Any failure but absence. A throttled call must not read as "there is no such image": every node of the
    /// architecture would drift (spec aws-provider 18.5).
    pub async fn public(&self, name: &str, mutable: bool) -> Result<Option<String>> {
        self.get(name, mutable, PUBLIC).await
    }

    /// A parameter a user named; `None` when it does not exist.
    ///
    /// # Errors
    /// Any failure but absence.
    pub async fn own(&self, name: &str) -> Result<Option<String>> {
        self.get(name, true, OWN).await
    }

    async fn get(&self, name: &str, mutable: bool, ttl: Duration) -> Result<Option<String>> {
        let key = name.to_owned();
        if let Some(cached) = self.values.get(&key) {
            return Ok(Some(cached.value));
        }
        let value = optional(self.ssm.get_parameter(name).await)?;
        if let Some(value) = &value {
            self.values.put_for(key, Cached { value: value.clone(), mutable }, ttl);
        }
        Ok(value)
    }

    /// Image ids behind cached parameters that may be pointed elsewhere.
    pub(crate) fn mutable_images(&self) -> Vec<String> {
        self.values.entries().into_iter().filter(|(_, cached)| cached.mutable).map(|(_, c)| c.value).collect()
    }

    /// Forgets every movable parameter that holds one of these images, so that the next lookup asks again.
    pub fn forget(&self, images: &[String]) {
        self.values.retain(|_, cached| !(cached.mutable && images.contains(&cached.value)));
    }
}
