//! Promises of the simulation: runs repeat, and what the product does breaks no rule.

#![allow(clippy::unwrap_used, reason = "tests stop where something is missing")]

mod closed;
mod defects;
mod foresight;
mod repeat;
mod swarm;
mod sweep;
mod week;

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does something for each of a list, on two threads.
fn each<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(one);
                }
            });
        }
    });
}
