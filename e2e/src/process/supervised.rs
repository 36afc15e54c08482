//! A process that is started again after it has ended in a way it may, as kubelet does with a container.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use nix::unistd::Pid;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::{Guard, Process, Program};

/// A process, or its successor.
pub struct Supervised {
    /// `None` once it was stopped or killed.
    process: Arc<Mutex<Option<Process>>>,
    may_end: fn(&Process) -> bool,
    supervisor: AbortOnDropHandle<()>,
}

impl Supervised {
    /// Starts `program`, and starts it again `after` it has ended by itself so that `may_end` holds of it. Its log is
    /// `<folder>/<name>.log`; that of the n-th to end is moved to `<folder>/<name>.<n>.log`. Any other end is for
    /// [`Self::check`] to tell.
    pub fn start(
        program: Program,
        folder: &Path,
        guard: &Arc<Guard>,
        may_end: fn(&Process) -> bool,
        after: Duration,
    ) -> Result<Self> {
        let first = Process::start(program.clone(), folder, false, guard)?;
        let process = Arc::new(Mutex::new(Some(first)));
        let again = Again { program, folder: folder.to_owned(), guard: Arc::clone(guard), may_end, after };
        let supervisor = AbortOnDropHandle::new(tokio::spawn(again.supervise(Arc::clone(&process))));
        Ok(Self { process, may_end, supervisor })
    }

    /// The process that runs now.
    pub async fn id(&self) -> Option<Pid> {
        self.process.lock().await.as_ref().map(Process::id)
    }

    /// Fails with its last words when it has ended and will not be started again.
    pub async fn check(&self) -> Result<()> {
        let mut process = self.process.lock().await;
        let Some(process) = process.as_mut() else { return Ok(()) };
        match process.ended()? {
            Some(_) if (self.may_end)(process) && !self.supervisor.is_finished() => Ok(()),
            Some(status) => bail!("the {} ended with {status}; {}", process.name(), process.last_words()),
            None => Ok(()),
        }
    }

    /// Ends it for good; see [`Process::stop`].
    pub async fn stop(self, grace: Duration) -> Result<()> {
        match self.process.lock().await.take() {
            Some(process) => process.stop(grace).await,
            None => Ok(()),
        }
    }

    /// Kills it for good; see [`Process::kill`].
    pub async fn kill(self) -> Result<()> {
        match self.process.lock().await.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }
}

/// Inputs to start a program again.
struct Again {
    program: Program,
    folder: PathBuf,
    guard: Arc<Guard>,
    may_end: fn(&Process) -> bool,
    after: Duration,
}

impl Again {
    /// Returns when the process was stopped, has ended in another way, or cannot be started.
    async fn supervise(self, process: Arc<Mutex<Option<Process>>>) {
        for end in 1.. {
            loop {
                tokio::time::sleep(self.after).await;
                match process.lock().await.as_mut().map(Process::ended) {
                    Some(Ok(None)) => {}
                    Some(Ok(Some(_))) => break,
                    Some(Err(_)) | None => return,
                }
            }
            // Held until there is a successor: a stop meanwhile stops that one.
            let mut process = process.lock().await;
            let Some(ended) = process.as_ref().filter(|ended| (self.may_end)(ended)) else { return };
            tracing::warn!(end, "started again: {}", ended.last_words());
            let Self { program, folder, guard, .. } = &self;
            match Process::start_again(program.clone(), folder, end, guard) {
                Ok(successor) => *process = Some(successor),
                Err(error) => return tracing::error!("cannot start again: {error:#}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;

    /// A shell that ends as often as `ends` says, saying `words`, and stays from then on.
    fn shell(folder: &Path, ends: u32, words: &str) -> Supervised {
        let script = format!(
            "echo x >>starts; if [ $(wc -l <starts) -le {ends} ]; then echo '{words}'; exit 1; fi; echo stays; exec cat /dev/zero >/dev/null"
        );
        let program = Program::shell(&script);
        let guard = Arc::new(Guard::start().unwrap());
        let may_end = |process: &Process| process.has_last_said("lost");
        Supervised::start(program, folder, &guard, may_end, Duration::from_millis(5)).unwrap()
    }

    #[tokio::test]
    async fn one_that_may_end_is_started_again_and_keeps_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let supervised = shell(folder.path(), 2, "lost");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        wait::until("the third start", || async {
            supervised.check().await?;
            Ok(if read("shell.log") == "stays\n" { Ok(()) } else { Err(read("shell.log")) })
        })
        .await
        .unwrap();
        assert_eq!((read("shell.1.log").as_str(), read("shell.2.log").as_str()), ("lost\n", "lost\n"));
        let id = supervised.id().await.unwrap();
        supervised.kill().await.unwrap();
        assert!(nix::sys::signal::kill(id, None).is_err(), "nothing is left of it");
        assert_eq!(read("starts"), "x\nx\nx\n");
    }

    #[tokio::test]
    async fn any_other_end_is_told_with_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let supervised = shell(folder.path(), 1, "broken");
        let told = wait::until("its end", || async {
            Ok(supervised.check().await.err().map_or(Err("runs".to_owned()), |error| Ok(error.to_string())))
        });
        let told = told.await.unwrap();
        assert!(told.contains("the shell ended with exit status: 1") && told.contains("broken"), "{told}");
        supervised.stop(Duration::from_secs(1)).await.unwrap();
    }
}
