//! A value that others wait for to change, woken in the order in which they wait.
//!
//! Tokio's watch channel wakes in random order, on purpose; a simulation that is to repeat cannot have that.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The side that changes the value. Clones change the same one.
#[derive(Clone)]
pub(crate) struct Signal<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// The value, and how often it was set.
    value: Mutex<(T, u64)>,
    changed: Notify,
}

/// The side that waits.
pub(crate) struct Waiter<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T: Clone> Signal<T> {
    /// A value that was not set yet.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared { value: Mutex::new((value, 0)), changed: Notify::new() }))
    }

    /// Sets the value and wakes those who wait.
    pub(crate) fn set(&self, value: T) {
        {
            let mut held = self.0.value.lock();
            *held = (value, held.1 + 1);
        }
        self.0.changed.notify_waiters();
    }

    /// A waiter that has seen the present value.
    pub(crate) fn subscribe(&self) -> Waiter<T> {
        Waiter { seen: self.0.value.lock().1, shared: Arc::clone(&self.0) }
    }
}

impl<T: Clone> Waiter<T> {
    /// Returns once the value was set after it was last seen; it is seen then.
    pub(crate) async fn changed(&mut self) -> T {
        loop {
            let mut waiting = std::pin::pin!(self.shared.changed.notified());
            // From here on nothing that is set goes unnoticed.
            waiting.as_mut().enable();
            {
                let held = self.shared.value.lock();
                if held.1 != self.seen {
                    self.seen = held.1;
                    return held.0.clone();
                }
            }
            waiting.await;
        }
    }

    /// The present value is seen.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.shared.value.lock().1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everyone_is_woken_in_the_order_of_waiting() {
        let (signal, order) = (Signal::new(0), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (mut waiter, order) = (signal.subscribe(), Arc::clone(&order));
            tasks.spawn(async move {
                assert_eq!(waiter.changed().await, 7);
                order.lock().push(number);
            });
        }
        tokio::task::yield_now().await;
        signal.set(7);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_was_seen_is_not_told_again() {
        let signal = Signal::new(0);
        let mut waiter = signal.subscribe();
        signal.set(1);
        signal.set(2);
        assert_eq!(waiter.changed().await, 2);
        signal.set(3);
        waiter.mark_seen();
        let again = tokio::time::timeout(std::time::Duration::from_millis(1), waiter.changed()).await;
        assert!(again.is_err());
    }
}
