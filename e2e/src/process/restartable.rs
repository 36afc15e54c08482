//! A process that a scenario kills and starts again, as a static pod is whose container has died.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::Pid;
use parking_lot::Mutex;

use super::{Guard, Process, Program};

/// A process, or its successor.
pub struct Restartable {
    program: Program,
    folder: PathBuf,
    guard: Arc<Guard>,
    running: Mutex<Running>,
}

struct Running {
    /// `None` while it is dead, and once it was stopped.
    process: Option<Process>,
    ends: u32,
}

impl Restartable {
    /// `process` was started from `program`, and its log is in `folder`.
    pub fn new(process: Process, program: Program, folder: &Path, guard: &Arc<Guard>) -> Self {
        let running = Mutex::new(Running { process: Some(process), ends: 0 });
        Self { program, folder: folder.to_owned(), guard: Arc::clone(guard), running }
    }

    /// The name given at start.
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// The process that runs now.
    pub fn id(&self) -> Option<Pid> {
        self.running.lock().process.as_ref().map(Process::id)
    }

    /// Kills it, waits for `dead`, and starts it again; returns when it was started, before it is ready.
    pub async fn restart(&self, dead: Duration) -> Result<()> {
        let name = self.name();
        let process = self.running.lock().process.take();
        process.with_context(|| format!("kill {name}, which does not run"))?.kill().await?;
        tokio::time::sleep(dead).await;
        let mut running = self.running.lock();
        running.ends += 1;
        let again = Process::start_again(self.program.clone(), &self.folder, running.ends, &self.guard)?;
        running.process = Some(again);
        Ok(())
    }

    /// Ends it for good; see [`Process::stop`].
    pub async fn stop(self, grace: Duration) -> Result<()> {
        let process = self.running.lock().process.take();
        match process {
            Some(process) => process.stop(grace).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn its_successor_is_another_process_and_what_it_said_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo started; exec sleep 600";
        let program = Program::shell(script);
        let guard = Arc::new(Guard::start().unwrap());
        let first = Process::start(program.clone(), folder.path(), false, &guard).unwrap();
        let shell = Restartable::new(first, program, folder.path(), &guard);
        let before = shell.id().unwrap();
        shell.restart(Duration::ZERO).await.unwrap();
        let after = shell.id().unwrap();
        assert_ne!(before, after);
        assert!(folder.path().join("shell.1.log").is_file());
        shell.stop(Duration::from_secs(1)).await.unwrap();
        for id in [before, after] {
            assert!(nix::sys::signal::kill(id, None).is_err(), "nothing is left of {id}");
        }
    }
}
