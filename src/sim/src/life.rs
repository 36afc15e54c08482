//! The life of one process of the controller: every piece of I/O passes here, and here it dies or stands still.
//!
//! Steps of a process between two pieces of I/O cannot be seen from outside, so a crash at any of its steps is a crash at one
//! of these boundaries: before a request is sent, when it was sent, when it was carried out, before its answer or a frame of a
//! watch arrives.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One process. Clones are the same process.
#[derive(Clone)]
pub(crate) struct Life {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
}

struct State {
    dead: bool,
    /// Boundaries left until it dies.
    fuse: Option<u32>,
    /// Cut off from everything until then.
    held_until: Option<Instant>,
}

impl Life {
    /// A process that lives.
    pub(crate) fn new() -> Self {
        let state = State { dead: false, fuse: None, held_until: None };
        Self { state: Arc::new(Mutex::new(state)), died: Arc::new(Notify::new()) }
    }

    /// The process that follows this one: as long cut off, as it is the cable that is cut.
    pub(crate) fn successor(&self) -> Self {
        let next = Self::new();
        next.state.lock().held_until = self.state.lock().held_until;
        next
    }

    /// One boundary: returns when the process may go on; never, when it is dead.
    pub(crate) async fn boundary(&self) {
        loop {
            let held = {
                let mut state = self.state.lock();
                if let Some(left) = state.fuse {
                    state.fuse = left.checked_sub(1);
                    if left == 0 {
                        state.dead = true;
                        self.died.notify_one();
                    }
                }
                if state.dead {
                    None
                } else {
                    match state.held_until.filter(|until| *until > Instant::now()) {
                        Some(until) => Some(until),
                        None => return,
                    }
                }
            };
            match held {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// Dies at the boundary after this number of further ones.
    pub(crate) fn die_after(&self, boundaries: u32) {
        self.state.lock().fuse = Some(boundaries);
    }

    /// Dies now.
    pub(crate) fn die(&self) {
        self.state.lock().dead = true;
        self.died.notify_one();
    }

    /// Neither sends nor receives anything until then, or longer when it is held longer already.
    pub(crate) fn hold(&self, until: Instant) {
        let mut state = self.state.lock();
        state.held_until = state.held_until.max(Some(until));
    }

    /// Returns when it has died.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fuse_counts_boundaries() {
        let life = Life::new();
        life.die_after(2);
        life.boundary().await;
        life.boundary().await;
        assert!(!life.is_dead());
        assert!(timeout(Duration::from_hours(1), life.boundary()).await.is_err(), "it goes on for ever");
        life.died().await;
        assert!(life.is_dead());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_held_goes_on_afterwards() {
        let (life, began) = (Life::new(), Instant::now());
        life.hold(began + Duration::from_secs(30));
        life.boundary().await;
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_is_held_as_long_as_the_longest_of_its_holds() {
        let (life, began) = (Life::new(), Instant::now());
        life.hold(began + Duration::from_secs(30));
        life.hold(began + Duration::from_secs(10));
        life.boundary().await;
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_is_held_as_long_as_the_one_before_it() {
        let (life, began) = (Life::new(), Instant::now());
        life.hold(began + Duration::from_secs(30));
        life.die();
        let next = life.successor();
        assert!(!next.is_dead());
        next.boundary().await;
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }
}
