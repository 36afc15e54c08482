//! Child processes that cannot outlive the harness.
//!
//! Each child leads its own process group and writes to its own log file. Three things end it: an orderly
//! [`Process::stop`], dropping the [`Process`] (also while unwinding from a panic), and the [`Guard`], which
//! notices even a harness that was killed with `SIGKILL`. Children get their own group so that Ctrl-C in a
//! terminal reaches only the harness, which then stops them in order.

mod guard;
mod log;
mod ports;
mod restartable;
mod supervised;

pub use guard::Guard;
pub use log::tail;
pub use ports::free_ports;
use ports::says_port_is_taken;
pub use restartable::Restartable;
pub use supervised::Supervised;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// A program of this workspace, beside the one that runs.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("find the folder of this program")?;
    // Test programs live one folder below the binaries.
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        format!("there is no `{name}` binary beside this program: run `cargo build --workspace` first")
    })
}

/// Returns the output of a program that has ended; a failure contains the last of it.
pub(crate) fn said(what: &str, output: Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let all = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let lines: Vec<&str> = all.trim().lines().collect();
    bail!(
        "`{what}` ended with {}:\n  {}",
        output.status,
        lines[lines.len().saturating_sub(15)..].join("\n  ")
    )
}

/// Program to run.
#[derive(Clone)]
pub struct Program {
    /// The name used in messages and as the name of the log file.
    pub name: &'static str,
    pub binary: PathBuf,
    pub arguments: Vec<OsString>,
    /// Environment variables on top of the inherited ones.
    pub environment: Vec<(&'static str, OsString)>,
}

#[cfg(test)]
impl Program {
    /// A shell that runs `script`.
    fn shell(script: &str) -> Self {
        Self {
            name: "shell",
            binary: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: Vec::new(),
        }
    }
}

/// A running child: one process group, one log file.
pub struct Process {
    name: &'static str,
    child: Child,
    group: Pid,
    log: PathBuf,
    guard: Arc<Guard>,
    reaped: bool,
}

impl Process {
    /// Starts `program`; standard error is written to `<folder>/<name>.log`, and so is standard output unless
    /// `piped` asks to keep it for [`Process::take_stdout`].
    pub fn start(program: Program, folder: &Path, piped: bool, guard: &Arc<Guard>) -> Result<Self> {
        let Program { name, binary, arguments, environment } = program;
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("create log file `{}`", log.display()))?;
        let stdout =
            if piped { Stdio::piped() } else { file.try_clone().context("share the log file")?.into() };
        let child = Command::new(&binary)
            .args(arguments)
            .envs(environment)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {name} from `{}`", binary.display()))?;
        let id = child.id().context("read the process id of a child that just started")?;
        let group = Pid::from_raw(i32::try_from(id).context("read a process id")?);
        guard.watch(group)?;
        Ok(Self { name, child, group, log, guard: Arc::clone(guard), reaped: false })
    }

    /// Starts `program` again after its process has ended for the `end`-th time, whose log is kept as
    /// `<folder>/<name>.<end>.log`.
    fn start_again(program: Program, folder: &Path, end: u32, guard: &Arc<Guard>) -> Result<Self> {
        let name = program.name;
        let (log, kept) = (format!("{name}.log"), format!("{name}.{end}.log"));
        std::fs::rename(folder.join(&log), folder.join(&kept))
            .with_context(|| format!("keep `{log}` as `{kept}`"))?;
        Self::start(program, folder, false, guard)
    }

    /// The process, which is also the number of its group.
    pub fn id(&self) -> Pid {
        self.group
    }

    /// The name given at start.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The standard output of a process started with `piped`; `None` on the second call.
    pub fn take_stdout(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// The exit status if the process has ended by itself.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status =
            self.child.try_wait().with_context(|| format!("ask whether {} still runs", self.name))?;
        self.reaped |= status.is_some();
        Ok(status)
    }

    /// The last lines of the log, indented for an error message, with the path of the whole file.
    pub fn last_words(&self) -> String {
        format!("last lines of {} (`{}`):\n{}", self.name, self.log.display(), tail(&self.log, 15))
    }

    /// Returns whether one of the last lines of the log contains `text`.
    pub fn has_last_said(&self, text: &str) -> bool {
        tail(&self.log, 15).contains(text)
    }

    /// Returns whether the log reports a port that another process had bound.
    pub fn found_its_port_taken(&self) -> bool {
        says_port_is_taken(&tail(&self.log, 500))
    }

    /// Asks the process to end, waits up to `grace`, then kills its whole group.
    pub async fn stop(mut self, grace: Duration) -> Result<()> {
        if self.ended()?.is_none() {
            self.signal(Signal::SIGTERM);
            if tokio::time::timeout(grace, self.child.wait()).await.is_err() {
                tracing::warn!(process = self.name, ?grace, "did not end in time and is killed");
                self.signal(Signal::SIGKILL);
                self.child.wait().await.with_context(|| format!("wait for {} to end", self.name))?;
            }
            self.reaped = true;
        }
        Ok(())
    }

    /// Kills the whole group and returns when the process is gone, and what it had bound with it.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::SIGKILL);
        self.child.wait().await.with_context(|| format!("wait for {} to end", self.name))?;
        self.reaped = true;
        Ok(())
    }

    /// Errors mean that the group is gone already, which is what the signal was for.
    fn signal(&self, signal: Signal) {
        let _gone = killpg(self.group, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::SIGKILL);
        }
        self.guard.forget(self.group);
    }
}
