//! The OCI runtime of an engine of our own: runc, asked for no capability that this machine does not have.
//!
//! dockerd asks for every capability it knows of for a privileged container, and runc refuses what it cannot give
//! ("unable to apply caps: operation not permitted"). In a container or a small virtual machine root often lacks one
//! of them. So this program stands in front of runc: it takes those names out of the description of the container
//! (`create`, `run`) or of the process (`exec`), and becomes runc.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

/// Names in the order of their bits, as `linux/capability.h` numbers them.
const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// Becomes `runc` with the same arguments; returns only if it cannot.
pub fn become_runc(arguments: &[OsString]) -> Result<()> {
    if let Some(description) = description(arguments).filter(|path| path.exists()) {
        narrow(&description, bounding_set()?)?;
    }
    Err(Command::new("runc").args(arguments).exec()).context("become `runc`")
}

/// The file with the process to run: of a bundle, or of a process in a container that exists.
fn description(arguments: &[OsString]) -> Option<PathBuf> {
    arguments.windows(2).find_map(|pair| match pair[0].to_str()? {
        "--bundle" | "-b" => Some(Path::new(&pair[1]).join("config.json")),
        "--process" | "-p" => Some(PathBuf::from(&pair[1])),
        _ => None,
    })
}

/// The capabilities that any process here can ever have, one bit each.
fn bounding_set() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("read `/proc/self/status`")?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).context("find `CapBnd`")?;
    u64::from_str_radix(set.trim(), 16).with_context(|| format!("read `CapBnd: {set}`"))
}

fn narrow(path: &Path, bounding: u64) -> Result<()> {
    let text = std::fs::read(path).with_context(|| format!("read `{}`", path.display()))?;
    let mut description =
        serde_json::from_slice(&text).with_context(|| format!("read `{}` as JSON", path.display()))?;
    keep_possible(&mut description, bounding);
    std::fs::write(path, serde_json::to_vec(&description)?)
        .with_context(|| format!("write `{}`", path.display()))
}

/// A container's description has the capabilities of its first process below `process`, a process's has them at the top.
fn keep_possible(description: &mut Value, bounding: u64) {
    let place = if description.get("process").is_some() { "/process/capabilities" } else { "/capabilities" };
    let Some(Value::Object(sets)) = description.pointer_mut(place) else { return };
    for set in sets.values_mut().filter_map(Value::as_array_mut) {
        set.retain(|name| name.as_str().is_none_or(|name| is_possible(name, bounding)));
    }
}

/// A name that is not in the list is newer than it; runc decides.
fn is_possible(name: &str, bounding: u64) -> bool {
    CAPABILITIES.iter().position(|known| *known == name).is_none_or(|bit| bounding >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Everything but `CAP_SYS_RESOURCE`, as such a machine lists it.
    const LESS: u64 = 0x1ff_feff_ffff;

    #[test]
    fn a_capability_that_root_lacks_is_not_asked_for() {
        let sets = |names: &[&str]| json!({ "bounding": names, "effective": names });
        let asked = sets(&["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_BPF", "CAP_OF_TOMORROW"]);
        let given = sets(&["CAP_CHOWN", "CAP_BPF", "CAP_OF_TOMORROW"]);
        let mut container = json!({ "ociVersion": "1.0.2", "process": { "capabilities": asked } });
        keep_possible(&mut container, LESS);
        assert_eq!(container, json!({ "ociVersion": "1.0.2", "process": { "capabilities": given } }));
        let mut process = json!({ "args": ["sh"], "capabilities": asked });
        keep_possible(&mut process, LESS);
        assert_eq!(process["capabilities"], given);
        let mut bare = json!({ "process": { "args": ["sh"] } });
        keep_possible(&mut bare, LESS);
        assert_eq!(bare, json!({ "process": { "args": ["sh"] } }));
    }

    #[test]
    fn the_description_is_where_containerd_says() {
        let of = |arguments: &[&str]| description(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["--root", "/r", "create", "--bundle", "/b", "id"]), Some("/b/config.json".into()));
        assert_eq!(of(&["exec", "--process", "/tmp/p", "--detach", "id"]), Some("/tmp/p".into()));
        assert_eq!(of(&["delete", "--force", "id"]), None);
    }

    #[test]
    fn this_machine_has_a_bounding_set() {
        assert!(bounding_set().is_ok());
    }
}
