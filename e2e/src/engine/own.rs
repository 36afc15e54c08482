//! A Docker engine that leaves nothing behind.
//!
//! dockerd runs in a network, a mount and a process namespace of its own. Its bridges, its packet filter rules, its
//! mounts and its containers exist there only, so they end with the namespaces, however this process ends. A pair of
//! virtual interfaces joins the network with this machine's; it goes with either end. What no namespace separates is
//! put back by the [guard](Guard): the control groups of containers, and the kernel settings that a kubelet changes.
//! Programs and libraries reach dockerd by the `DOCKER_HOST` of this process; its socket is a file, which a network
//! namespace does not separate.
//! Images and built layers stay in the cache folder, so that the next engine has them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;

use super::finish;
use crate::prepare::{cache, packages::Packages};
use crate::process::{Guard, Process, Program};
use crate::wait;

/// The two ends of the pair. 198.18.0.0/15 is for measurements between networks (RFC 2544); no network uses it.
pub(super) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 1);
/// Address at which containers publish their ports.
pub(super) const INSIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 2);

/// The name of this machine's end.
const INTERFACE: &str = "karpenter-e2e";

/// The control group above all containers.
const CONTROL_GROUP: &str = "karpenter-e2e";

/// Settings that a kubelet and kube-proxy make for the whole machine.
const KERNEL_SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Containers get a moment to end before the namespaces take them along.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// The first process of the namespaces: waits for its interface, then for dockerd. A shell, because it also waits for
/// processes that lost their parents.
const FIRST: &str = r#"
set -e
mount --make-rprivate /
until ip link show uplink >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip address add "$INSIDE/30" dev uplink
ip link set uplink up
ip route add default via "$OUTSIDE"
exec unshare --pid --fork --kill-child --mount-proc sh -c 'mount -t tmpfs run /run; dockerd --config-file "$CONFIG" & wait'
"#;

/// A running engine; ends when stopped or dropped.
pub(super) struct Own {
    process: Process,
    packages: Packages,
    docker: PathBuf,
    guard: Arc<Guard>,
    /// One engine at a time has the folder, the addresses and the names.
    _lock: File,
}

impl Own {
    pub(super) async fn start() -> Result<Self> {
        ensure!(
            is_root(),
            "an engine of our own needs root; start Docker and leave KARPENTER_CONTAINERS unset"
        );
        let packages = tokio::task::spawn_blocking(|| {
            let programs = ["dockerd", "docker", "containerd", "runc", "iptables", "ip", "unshare"];
            let packages = ["docker.io", "containerd", "runc", "iptables", "iproute2", "util-linux"];
            Packages::providing("engine", &programs, &packages)
        })
        .await
        .context("look for the programs of an engine")??;
        let host = host()?;
        ensure!(
            std::env::var_os("DOCKER_HOST").as_ref() == Some(&host),
            "an engine of our own needs DOCKER_HOST={} from the start of the process; run `karpenter-e2e`, which sets it",
            host.display()
        );
        let folder = folder()?;
        let lock = lock(&folder).await?;
        configure(&folder, &host)?;
        let guard = Arc::new(Guard::start()?);
        let undo = folder.join("undo.sh");
        fs::write(&undo, undo_script(&packages.program("ip")?))
            .with_context(|| format!("write `{}`", undo.display()))?;
        guard.finally(&format!("sh '{}'", undo.display()))?;
        let mut environment = packages.environment();
        environment.extend([
            ("INSIDE", INSIDE.to_string().into()),
            ("OUTSIDE", OUTSIDE.to_string().into()),
            ("CONFIG", folder.join("dockerd.json").into_os_string()),
        ]);
        let program = Program {
            name: "dockerd",
            binary: packages.program("unshare")?,
            arguments: ["--net", "--mount", "sh", "-c", FIRST].map(OsString::from).to_vec(),
            environment,
        };
        let process = Process::start(program, &folder, false, &guard)?;
        let docker = packages.program("docker")?;
        let mut engine = Self { process, packages, docker, guard, _lock: lock };
        engine.join_networks().await?;
        engine.wait_ready().await?;
        engine.remove_leftovers().await?;
        Ok(engine)
    }

    pub(super) fn docker(&self) -> &Path {
        &self.docker
    }

    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.packages.environment()
    }

    /// Ends dockerd, and with it everything it has started.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { process, guard, .. } = self;
        process.stop(STOP_WITHIN).await?;
        drop(guard);
        Ok(())
    }

    /// Gives the new network its end of a pair of interfaces. The namespace exists as soon as its first process is no
    /// longer in ours.
    async fn join_networks(&self) -> Result<()> {
        let ours =
            fs::read_link("/proc/self/ns/net").context("read the network namespace of this process")?;
        let process = self.process.id();
        wait::settles("the network namespace of the engine", || async {
            let theirs = fs::read_link(format!("/proc/{process}/ns/net")).context("read a namespace")?;
            ensure!(theirs != ours, "the process is still in ours");
            Ok(())
        })
        .await?;
        let outside = format!("{OUTSIDE}/30");
        let id = process.to_string();
        for arguments in [
            &["link", "add", INTERFACE, "type", "veth", "peer", "name", "uplink", "netns", &id][..],
            &["address", "add", &outside, "dev", INTERFACE],
            &["link", "set", INTERFACE, "up"],
        ] {
            let mut command = Command::new(self.packages.program("ip")?);
            command.args(arguments).envs(self.packages.environment());
            finish(&mut command, &format!("ip {}", arguments.join(" "))).await?;
        }
        Ok(())
    }

    /// Containers of a run that was killed are still in the folder. dockerd starts nodes of kind again, and the next
    /// cluster of the same name would be that one.
    async fn remove_leftovers(&self) -> Result<()> {
        let docker = || {
            let mut docker = Command::new(&self.docker);
            docker.envs(self.environment());
            docker
        };
        let list = finish(docker().args(["ps", "--all", "--quiet"]), "docker ps --all --quiet").await?;
        let left: Vec<&str> = list.split_whitespace().collect();
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(containers = left.len(), "removing what a killed run has left");
        finish(docker().args(["rm", "--force", "--volumes"]).args(&left), "docker rm --force --volumes")
            .await
            .map(drop)
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let Self { process, docker, .. } = self;
        wait::until("the Docker engine to answer", || {
            let ended = process.ended();
            let words = process.last_words();
            let mut command = Command::new(&*docker);
            command.arg("info");
            async move {
                ensure!(ended?.is_none(), "the Docker engine ended; {words}");
                Ok(finish(&mut command, "docker info").await.map(drop).map_err(|error| format!("{error:#}")))
            }
        })
        .await
    }
}

/// Returns the value of `DOCKER_HOST` for the engine of the cache folder.
pub(super) fn host() -> Result<OsString> {
    let mut host = OsString::from("unix://");
    host.push(folder()?.join("docker.sock"));
    Ok(host)
}

/// Returns the folder of the engine; made if it is not there.
fn folder() -> Result<PathBuf> {
    let folder = cache::root().join("engine");
    fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
    folder.canonicalize().context("resolve the folder of the engine")
}

/// Its own entry in `/proc` belongs to the user a process runs as.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Waits for another run of this harness that has an engine.
async fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("create lock `{}`", path.display()))?;
    tokio::task::spawn_blocking(move || file.lock().map(|()| file))
        .await
        .context("wait for a lock")?
        .with_context(|| format!("wait for lock `{}`", path.display()))
}

/// Writes dockerd's configuration.
fn configure(folder: &Path, host: &OsStr) -> Result<()> {
    let harness = crate::process::sibling("karpenter-e2e")?;
    let configuration = json!({
        "hosts": [host.to_string_lossy()],
        "data-root": folder.join("data"),
        "exec-root": "/run/docker",
        "pidfile": "/run/docker.pid",
        "cgroup-parent": format!("/{CONTROL_GROUP}"),
        // Lowering it below that of this process takes a capability that root may lack.
        "oom-score-adjust": 0,
        "runtimes": { "possible": { "path": harness, "runtimeArgs": ["oci-runtime"] } },
        "default-runtime": "possible",
    });
    let path = folder.join("dockerd.json");
    fs::write(&path, configuration.to_string()).with_context(|| format!("write `{}`", path.display()))
}

/// A script that puts back what no namespace separates. It waits for the processes in the control groups to be gone. The
/// kernel takes an ended network apart some time later, so this end of the pair of interfaces is deleted here.
fn undo_script(ip: &Path) -> String {
    let mut script = format!("'{}' link delete {INTERFACE} 2>/dev/null\n", ip.display());
    for name in KERNEL_SETTINGS {
        let path = Path::new("/proc/sys").join(name);
        if let Ok(value) = fs::read_to_string(&path) {
            script.push_str(&format!("printf '%s' '{}' > {}\n", value.trim(), path.display()));
        }
    }
    script.push_str(&format!(
        "for try in $(seq 50); do\n\
         \x20 find /sys/fs/cgroup -depth -type d -path '*/{CONTROL_GROUP}*' -exec rmdir {{}} \\; 2>/dev/null\n\
         \x20 [ -n \"$(find /sys/fs/cgroup -type d -name {CONTROL_GROUP})\" ] || break\n\
         \x20 sleep 0.1\n\
         done\n"
    ));
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kubelet_changes_is_put_back() {
        let script = undo_script(Path::new("/sbin/ip"));
        let panic = fs::read_to_string("/proc/sys/kernel/panic").unwrap();
        assert!(
            script.contains(&format!("printf '%s' '{}' > /proc/sys/kernel/panic\n", panic.trim())),
            "{script}"
        );
        assert!(
            script.contains("rmdir") && script.starts_with("'/sbin/ip' link delete karpenter-e2e "),
            "{script}"
        );
    }
}
