//! Measures every call on its way through the SDK, and each of its attempts.

use std::sync::Arc;
use std::time::Instant;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};

use karpenter_aws_api::watch::{Call, Watch};

/// The measuring. Clones report to the same receiver.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<dyn Watch>);

/// Start of the call, start of its present attempt, and number of that attempt.
#[derive(Clone, Copy, Debug)]
struct Clock {
    call: Instant,
    attempt: Instant,
    attempts: u32,
}

impl Storable for Clock {
    type Storer = StoreReplace<Self>;
}

/// A client of one service whose calls are measured.
macro_rules! measured {
    ($service:ident, $config:expr, $meter:expr) => {
        $service::Client::from_conf(
            $service::config::Builder::from($config).interceptor(Clone::clone($meter)).build(),
        )
    };
}
pub(super) use measured;

impl Meter {
    pub(super) fn new(watch: Arc<dyn Watch>) -> Self {
        Self(watch)
    }

    fn report(
        context: &FinalizerInterceptorContextRef<'_>,
        config: &ConfigBag,
        to: impl FnOnce(Call<'_>, Clock),
    ) {
        let (Some(metadata), Some(clock)) = (config.load::<Metadata>(), config.load::<Clock>()) else {
            return;
        };
        let status = context.response().map(|response| response.status().as_u16());
        to(Call { service: metadata.service(), action: metadata.name(), status }, *clock);
    }
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = Instant::now();
        config.interceptor_state().store_put(Clock { call: now, attempt: now, attempts: 0 });
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(clock) = config.get_mut_from_interceptor_state::<Clock>() {
            clock.attempt = Instant::now();
            clock.attempts += 1;
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Self::report(context, config, |call, clock| self.0.attempted(call, clock.attempt.elapsed()));
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Self::report(context, config, |call, clock| {
            self.0.called(call, clock.attempts.saturating_sub(1), clock.call.elapsed());
        });
        Ok(())
    }
}
