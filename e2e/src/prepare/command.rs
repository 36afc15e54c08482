//! Runs a tool to its end and turns failure into an error with the tool's output.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::said;

/// The first executable called `name` on `PATH`.
pub(super) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| is_executable(candidate))
}

/// Returns whether `path` is a file that some user may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs `command`; an error names the program and ends with the last lines of what it printed.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let program = Path::new(command.get_program()).display().to_string();
    said(&program, command.output().with_context(|| format!("run `{program}`"))?)
}

/// Number of attempts to fetch something.
const ATTEMPTS: usize = 4;

/// Runs a command that fetches something, again when that fails: networks and registries have bad moments. What was
/// fetched before is not fetched twice.
pub(super) fn fetch(command: &mut Command) -> Result<String> {
    for _ in 1..ATTEMPTS {
        match run(command) {
            Ok(said) => return Ok(said),
            Err(error) => tracing::warn!("{error:#}; trying again"),
        }
    }
    run(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_on_the_path_only() {
        assert!(find_on_path("sh").is_some_and(|path| is_executable(&path)));
        assert_eq!(find_on_path("no-such-program-here"), None);
    }

    #[test]
    fn what_cannot_be_fetched_at_first_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo x >> asked; test $(wc -l < asked) -ge 3 && echo there";
        let mut third = Command::new("sh");
        third.args(["-c", script]).current_dir(folder.path());
        assert_eq!(fetch(&mut third).unwrap(), "there\n");
        assert!(fetch(Command::new("false").current_dir(folder.path())).is_err());
    }

    #[test]
    fn a_failure_names_the_program_and_repeats_its_words() {
        let error = run(Command::new("sh").args(["-c", "echo out; echo why >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`sh`") && text.contains("exit status: 3") && text.contains("why"), "{text}");
        assert_eq!(run(Command::new("echo").arg("hi")).unwrap(), "hi\n");
    }
}
