//! The body of an answer, which must go on arriving: a connection that died without a word would otherwise
//! hold up its reader for ever.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

/// Longest time in which nothing of a body arrives. Longer than a watch lasts at the most (290 s), so that a quiet one ends by
/// itself.
pub(super) const SILENCE: Duration = Duration::from_mins(5);

/// The rest of an answer did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("nothing more of an answer of the API server has arrived for {SILENCE:?}")]
pub(super) struct Stalled;

/// A body that fails when nothing of it arrives for [`SILENCE`].
pub(super) struct Bounded<B> {
    body: B,
    patience: Pin<Box<Sleep>>,
}

impl<B> Bounded<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, patience: Box::pin(sleep(SILENCE)) }
    }
}

impl<B> Body for Bounded<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.patience.as_mut().reset(Instant::now() + SILENCE);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.patience.as_mut().poll(context));
        Poll::Ready(Some(Err(Stalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
