//! Pure work that takes long, beside the tasks that must not wait for it.

use std::panic::resume_unwind;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::spawn_blocking;

/// Carries out `work` on a thread of its own and awaits its result; a panic of `work` goes on in the caller.
///
/// A runtime of one thread carries it out at once and in place: there nothing could run beside it that does not wait, and
/// when the work ends would depend on the operating system, so that no two runs in virtual time were equal.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    spawn_blocking(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_leaves_the_workers_of_a_runtime_with_several_threads_alone() {
        let worker = tokio::spawn(async { (current().id(), beside(|| current().id()).await) });
        let (worker, other) = worker.await.unwrap();
        assert_ne!(worker, other);
    }

    #[tokio::test]
    async fn one_thread_does_the_work_in_place() {
        assert_eq!(beside(|| current().id()).await, current().id());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    #[should_panic(expected = "out of its mind")]
    async fn a_panic_reaches_the_caller() {
        beside(|| panic!("out of its mind")).await;
    }
}
