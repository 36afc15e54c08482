//! Ends the children of a harness that died without a chance to clean up.
//!
//! A shell waits at the other end of a pipe. Whatever ends the harness (return, panic, `SIGKILL`, power of
//! the out-of-memory killer) closes the pipe, and the shell then kills every process group it watches.
//! `PR_SET_PDEATHSIG` would do the same on Linux but needs unsafe code and follows the *thread* that forked,
//! which for a tokio worker may end long before the harness does.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};
use nix::unistd::Pid;
use parking_lot::Mutex;

/// Reads `watch <group>`, `forget <group>` and `finally <command>` lines; at the end of input kills what is still
/// watched and runs the commands.
const SCRIPT: &str = r#"
groups=' '
commands=
while read -r verb group; do
  case "$verb" in
    watch) groups="$groups$group " ;;
    finally) commands="$commands
$group" ;;
    forget) case "$groups" in *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
IFS='
'
for command in $commands; do sh -c "$command"; done
exit 0
"#;

/// One guard serves all children of a cluster or an account.
pub struct Guard {
    shell: Mutex<Child>,
    orders: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Starts the shell, in its own group so that Ctrl-C does not reach it.
    pub fn start() -> Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the process guard (`/bin/sh`)")?;
        let orders = shell.stdin.take();
        Ok(Self { shell: Mutex::new(shell), orders: Mutex::new(orders) })
    }

    /// Ends `group` with the harness from now on.
    pub fn watch(&self, group: Pid) -> Result<()> {
        self.send(&format!("watch {group}\n")).with_context(|| format!("guard process group {group}"))
    }

    /// Runs `command`, a line of the shell, at the end, after the processes that are watched then.
    pub fn finally(&self, command: &str) -> Result<()> {
        self.send(&format!("finally {command}\n")).with_context(|| format!("guard with `{command}`"))
    }

    /// `group` has ended; its number may be given to another process.
    pub fn forget(&self, group: Pid) {
        if let Err(error) = self.send(&format!("forget {group}\n")) {
            tracing::warn!(%group, %error, "the process guard did not take the end of a child");
        }
    }

    fn send(&self, order: &str) -> Result<()> {
        let mut orders = self.orders.lock();
        let pipe = orders.as_mut().context("the guard has no pipe")?;
        pipe.write_all(order.as_bytes())?;
        Ok(pipe.flush()?)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.orders.get_mut().take();
        // The pipe is closed, so the script is on its last line.
        let _status = self.shell.get_mut().wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::kill;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        (child, group)
    }

    #[test]
    fn kills_what_it_watches_when_the_pipe_closes() {
        let (mut child, group) = sleeper();
        let guard = Guard::start().unwrap();
        guard.watch(group).unwrap();
        drop(guard);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn runs_commands_after_everything_else() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, group) = sleeper();
        let done = folder.path().join("all done");
        let guard = Guard::start().unwrap();
        guard.finally(&format!("touch '{}'", done.display())).unwrap();
        guard.watch(group).unwrap();
        assert!(!done.exists());
        drop(guard);
        assert!(done.exists());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn spares_what_it_was_told_to_forget() {
        let (mut first, first_group) = sleeper();
        let (mut second, second_group) = sleeper();
        let (mut third, third_group) = sleeper();
        let guard = Guard::start().unwrap();
        for group in [first_group, second_group, third_group] {
            guard.watch(group).unwrap();
        }
        guard.forget(second_group);
        drop(guard);
        assert_eq!(first.wait().unwrap().signal(), Some(9));
        assert_eq!(third.wait().unwrap().signal(), Some(9));
        assert!(second.try_wait().unwrap().is_none(), "the forgotten process still runs");
        kill(second_group, nix::sys::signal::Signal::SIGKILL).unwrap();
        second.wait().unwrap();
    }
}
