//! Waiting for a level: ask again until it holds, fail with what was seen last.
//!
//! A look that fails because a server was busy or a connection broke is no answer: it is looked again. Everything
//! else that is an error ends the wait, so that a question can also refuse what must never be seen.

use std::future::Future;
use std::time::Duration;

use anyhow::{Error, Result, bail};
use tokio::time::{Instant, sleep};

/// Longest time that anything may take. On an idle machine every wait of this crate ends within seconds, and it ends as soon as
/// what it waits for holds; the rest is for machines that have other things to do.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Time until the question is asked again: an eighth of what was waited so far, within these bounds. What takes a minute is not
/// known a moment earlier for being asked four times a second by every behaviour of a suite, and the answers are most of what
/// an API server with a dozen behaviours would do.
const ASK_AGAIN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Asks `question` until it answers `Ok(Ok(value))`. `Ok(Err(text))` means "not yet" and says what was seen; an
/// error that [is not passing](is_passing) ends the wait at once.
pub async fn until<T, F>(what: &str, question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<std::result::Result<T, String>>>,
{
    until_within(PATIENCE, what, question).await
}

/// Waits as [`until`] for what takes many steps, each of which would be [`until`]'s.
pub async fn until_within<T, F>(patience: Duration, what: &str, mut question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<std::result::Result<T, String>>>,
{
    let start = Instant::now();
    loop {
        let seen = match question().await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => seen,
            Err(error) if is_passing(&error) => format!("{error:#}"),
            Err(error) => return Err(error),
        };
        if start.elapsed() >= patience {
            bail!("waited {}s for {what}; last seen: {seen}", patience.as_secs());
        }
        let [soon, late] = ASK_AGAIN;
        sleep((start.elapsed() / 8).clamp(soon, late)).await;
    }
}

/// Looks again until `look` finds nothing wrong: for what follows a moment later from what was waited for, and then
/// stays. Fails with what was wrong last.
pub async fn settles<T, F>(what: &str, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until(what, || {
        let looked = look();
        async { Ok(looked.await.map_err(|error| format!("{error:#}"))) }
    })
    .await
}

/// Repeats a request that may safely be repeated until a server has answered it: a refusal is an answer, trouble on
/// the way is none.
pub async fn answered<T, F>(what: &str, mut request: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until(what, || {
        let outcome = request();
        async { outcome.await.map(Ok) }
    })
    .await
}

/// Returns whether the same request may well succeed in a moment.
pub fn is_passing(error: &Error) -> bool {
    error.chain().any(|cause| {
        if let Some(error) = cause.downcast_ref::<kube::Error>() {
            return match error {
                kube::Error::Api(status) => matches!(status.code, 429 | 500 | 503 | 504),
                kube::Error::HyperError(_) | kube::Error::Service(_) => true,
                _ => false,
            };
        }
        cause.downcast_ref::<karpenter_aws_api::Error>().is_some_and(|error| error.kind.is_retryable())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of_the_api_server(code: u16) -> Error {
        let status = kube::core::Status { code, ..kube::core::Status::default() };
        Error::new(kube::Error::Api(Box::new(status))).context("list pods")
    }

    #[tokio::test(start_paused = true)]
    async fn says_what_was_seen_last() {
        let mut asked = 0;
        let outcome: Result<()> = until("rain", || {
            asked += 1;
            async move { Ok(Err(format!("sun {asked}"))) }
        })
        .await;
        let text = outcome.unwrap_err().to_string();
        assert!(text.starts_with("waited 600s for rain; last seen: sun "), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_only_for_a_moment_is_no_failure() {
        let mut asked = 0;
        let mut look = || {
            asked += 1;
            let dry = asked > 2;
            async move { if dry { Ok(asked) } else { bail!("rain") } }
        };
        assert_eq!(settles("the sky to clear", &mut look).await.unwrap(), 3);
        let outcome: Result<()> = settles("snow", || async { bail!("rain") }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "waited 600s for snow; last seen: rain");
    }

    #[tokio::test(start_paused = true)]
    async fn ends_at_once_on_an_error_that_will_stay() {
        let outcome: Result<()> = until("rain", || async { bail!("no sky") }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "no sky");
        let outcome: Result<()> = answered("rain", || async { Err(answer_of_the_api_server(403)) }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "list pods");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_busy_is_asked_again() {
        for code in [429, 500, 503, 504] {
            let mut asked = 0;
            let request = || {
                asked += 1;
                let busy = asked < 3;
                async move { if busy { Err(answer_of_the_api_server(code)) } else { Ok(asked) } }
            };
            assert_eq!(answered("rain", request).await.unwrap(), 3, "{code}");
        }
    }
}
