//! One AWS call on its way: turns the SDK's errors and absent fields into ours, with operation and subject.

use std::error::Error as StdError;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use karpenter_aws_api::{Error, Kind, Result, error};

/// Operation and its subject.
#[derive(Clone, Debug)]
pub(super) struct Call {
    operation: &'static str,
    subject: String,
}

impl Call {
    pub(super) fn new(operation: &'static str, subject: impl Into<String>) -> Self {
        Self { operation, subject: subject.into() }
    }

    /// The call failed: AWS said why, or no answer arrived.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it by value")]
    pub(super) fn failed<E>(&self, failure: SdkError<E, HttpResponse>) -> Error
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let request_id = failure.request_id().map(ToOwned::to_owned);
        let status = failure.raw_response().map(|response| response.status().as_u16());
        match failure.code().map(ToOwned::to_owned) {
            Some(code) => {
                let message = failure.message().unwrap_or("no message").to_owned();
                let kind = kind_with_status(error::kind_of(&code, &message), status);
                Error {
                    operation: self.operation,
                    subject: self.subject.clone(),
                    code: Some(code),
                    message: error::readable(&message),
                    request_id,
                    kind,
                }
            }
            None => Error {
                operation: self.operation,
                subject: self.subject.clone(),
                code: None,
                message: chain(&failure),
                request_id,
                kind: match (&failure, status) {
                    (SdkError::ConstructionFailure(_), _) => Kind::Invalid,
                    (_, Some(403 | 401)) => Kind::Denied,
                    (_, Some(404)) => Kind::NotFound,
                    (_, Some(429)) => Kind::Throttled,
                    (_, Some(400..=499)) => Kind::Invalid,
                    _ => Kind::Transient,
                },
            },
        }
    }

    /// A dry run is a success when, and only when, EC2 refuses with `DryRunOperation`.
    pub(super) fn dry_run<T, E>(&self, outcome: Result<T, SdkError<E, HttpResponse>>) -> Result<()>
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        match outcome.map_err(|failure| self.failed(failure)) {
            Ok(_) => Err(self.invalid("EC2 did not refuse the dry run; it may have been carried out")),
            Err(error) if error.kind == Kind::DryRun => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A field every caller relies on.
    pub(super) fn field<T>(&self, value: Option<T>, name: &str) -> Result<T> {
        value.ok_or_else(|| self.missing(name))
    }

    /// Returns a field that the SDK fills with the empty text when it is absent.
    pub(super) fn text(&self, value: String, name: &str) -> Result<String> {
        if value.is_empty() { Err(self.missing(name)) } else { Ok(value) }
    }

    pub(super) fn missing(&self, name: &str) -> Error {
        Error::missing_field(self.operation, self.subject.clone(), name)
    }

    pub(super) fn invalid(&self, message: impl Into<String>) -> Error {
        Error::invalid(self.operation, self.subject.clone(), message)
    }

    pub(super) fn answered(&self, code: impl Into<String>, message: impl Into<String>) -> Error {
        Error::answered(self.operation, self.subject.clone(), code, message)
    }
}

/// An unknown code, on a server error, is still a server error.
fn kind_with_status(kind: Kind, status: Option<u16>) -> Kind {
    match (kind, status) {
        (Kind::Invalid, Some(500..=599)) => Kind::Transient,
        (Kind::Invalid, Some(429)) => Kind::Throttled,
        (kind, _) => kind,
    }
}

fn chain(failure: &dyn StdError) -> String {
    let mut text = failure.to_string();
    let mut source = failure.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Walks all pages of a paginator: complete, or the first error.
///
/// `$token` is the field that names the next page. The SDK ends quietly when an endpoint repeats it, which would
/// pass off some pages as the whole list; here it is an error.
macro_rules! each_page {
    ($call:expr, $paginator:expr, $token:ident, |$page:ident| $body:expr) => {{
        let mut pages = $paginator.stop_on_duplicate_token(false).send();
        let mut last_token: Option<String> = None;
        while let Some(page) = pages.next().await {
            let $page = page.map_err(|failure| $call.failed(failure))?;
            if $page.$token.is_some() && $page.$token == last_token {
                return Err(
                    $call.invalid("the endpoint repeats a page token, so the list cannot be completed")
                );
            }
            last_token.clone_from(&$page.$token);
            $body;
        }
    }};
}
pub(super) use each_page;
