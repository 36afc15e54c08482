//! Waiting for a level: ask again until it holds, fail with what was seen last.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, MissedTickBehavior};

/// How often the question is asked.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Asks `question` until it answers `Ok(Ok(value))`. `Ok(Err(text))` means "not yet" and says what was seen; an
/// error ends the wait at once.
pub async fn until<T, F>(what: &str, within: Duration, mut question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<std::result::Result<T, String>>>,
{
    let deadline = Instant::now() + within;
    let mut ticks = tokio::time::interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match question().await? {
            Ok(value) => return Ok(value),
            Err(seen) if Instant::now() >= deadline => {
                bail!("waited {}s for {what}; last seen: {seen}", within.as_secs())
            }
            Err(_) => {}
        }
    }
}

/// Looks again until `look` finds nothing wrong: for what follows a moment later from what was waited for, and then
/// stays. Fails with what was wrong last.
pub async fn settles<T, F>(what: &str, within: Duration, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until(what, within, || {
        let looked = look();
        async { Ok(looked.await.map_err(|error| format!("{error:#}"))) }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn says_what_was_seen_last() {
        let mut asked = 0;
        let outcome: Result<()> = until("rain", Duration::from_secs(1), || {
            asked += 1;
            async move { Ok(Err(format!("sun {asked}"))) }
        })
        .await;
        let text = outcome.unwrap_err().to_string();
        assert!(text.starts_with("waited 1s for rain; last seen: sun "), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_only_for_a_moment_is_no_failure() {
        let mut asked = 0;
        let mut look = || {
            asked += 1;
            let dry = asked > 2;
            async move { if dry { Ok(asked) } else { bail!("rain") } }
        };
        assert_eq!(settles("the sky to clear", Duration::from_secs(1), &mut look).await.unwrap(), 3);
        let outcome: Result<()> = settles("snow", Duration::from_secs(1), || async { bail!("rain") }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "waited 1s for snow; last seen: rain");
    }

    #[tokio::test(start_paused = true)]
    async fn ends_at_once_on_an_error() {
        let outcome: Result<()> = until("rain", Duration::from_secs(1), || async { bail!("no sky") }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "no sky");
    }
}
