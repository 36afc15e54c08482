//! The Go program that binds pods with the code of the scheduler: built, started, and asked line by line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// Scheduler that binds the pods of a cluster.
pub trait Binds {
    /// Binds the pods of these objects that have no node.
    ///
    /// # Errors
    /// Objects that no API server would take.
    fn bind(&mut self, objects: &[Value]) -> Result<Verdict>;

    /// Returns whether it can be asked a hundred times for one world, so that every node a pool could add is tried.
    fn is_quick(&self) -> bool {
        true
    }
}

/// The scheduler's code, in a process of its own.
pub struct Scheduler {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Refused { error: String },
    Judged(Verdict),
}

/// The pods that were bound, and why others were not.
#[derive(Debug, Default, Deserialize)]
pub struct Verdict {
    /// Objects that are new or were changed.
    pub changed: Vec<Value>,
    /// Reasons why no node takes a pod, by namespace and name.
    pub refused: BTreeMap<String, String>,
    /// Each try to schedule a pod, in order; none unless the scheduler was started to tell of them.
    #[serde(default)]
    pub tries: Vec<Try>,
}

/// What the scheduler found when it tried a pod.
#[derive(Debug, Deserialize)]
pub struct Try {
    /// The pod as it was admitted.
    pub pod: Value,
    /// Scores of the nodes that fit, by their names.
    pub scores: BTreeMap<String, i64>,
    /// Number of changed objects that were there before.
    pub after: usize,
}

impl Scheduler {
    /// Builds the program if it does not match its source, and starts it.
    ///
    /// # Errors
    /// Go is missing, or the program does not build.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts one that tells of each try.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_telling() -> Result<Self> {
        Self::start_with(&["tries"])
    }

    fn start_with(arguments: &[&str]) -> Result<Self> {
        // Tests of one process start together, and a program that runs cannot be written.
        static PROGRAM: LazyLock<Result<PathBuf>> = LazyLock::new(build);
        let program = PROGRAM.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the scheduler")?;
        let input = process.stdin.take().context("the scheduler has no input")?;
        let output = process.stdout.take().context("the scheduler has no output")?;
        Ok(Self { process, input, output: BufReader::new(output) })
    }
}

impl Binds for Scheduler {
    fn bind(&mut self, objects: &[Value]) -> Result<Verdict> {
        let mut line = serde_json::to_vec(objects)?;
        line.push(b'\n');
        self.input.write_all(&line).context("ask the scheduler")?;
        self.input.flush().context("ask the scheduler")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).context("hear the scheduler")?;
        if answer.is_empty() {
            bail!("the scheduler ended; its last words are above");
        }
        match serde_json::from_str(&answer).context("read the answer of the scheduler")? {
            Answer::Refused { error } => bail!("{error}"),
            Answer::Judged(verdict) => Ok(verdict),
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // A process that has ended already needs no end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Builds the program into the cache folder. Go itself compares sources, and does nothing when they are as they were.
fn build() -> Result<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = std::env::var_os("KARPENTER_CACHE").filter(|folder| !folder.is_empty());
    let program = cache.map_or_else(|| repository.join(".cache"), PathBuf::from).join("judge");
    let mut go = Command::new("go");
    go.current_dir(repository.join("e2e/control-plane"))
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o"])
        .args([program.as_os_str(), "./judge".as_ref()]);
    let built = go.output().context("run `go`; install Go 1.25 or newer (https://go.dev/dl)")?;
    if !built.status.success() {
        bail!("cannot build `e2e/control-plane/judge`: {}", String::from_utf8_lossy(&built.stderr));
    }
    Ok(program)
}
