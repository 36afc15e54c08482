//! The image of a kind node.
//!
//! | engine | image |
//! |---|---|
//! | any, `KIND_NODE_IMAGE` set | that one |
//! | the machine's | kind's default, which it pulls |
//! | our own | made here, from Debian's packages, Go modules and the files of kind's module |
//!
//! Differences of our own image from a `kindest/node`: containerd, runc and the CNI plugins are Debian's; the network is a
//! `ptp` configuration for one node, so there is no second node and no network policy; the storage class `standard` has no
//! provisioner.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::{Engine, finish};
use crate::prepare::{self, NodeParts, cache, packages::Packages};
use crate::wait;

/// Kubernetes 1.35 is the last release that takes containerd 1.x, which this release of Debian has.
const DEBIAN: &str = "bookworm";

/// Packages of kind's Dockerfile, and containerd, runc and the CNI plugins, which kind builds.
const PACKAGES: &str = "systemd,systemd-sysv,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,\
    libseccomp2,pigz,e2fsprogs,bash,ca-certificates,curl,jq,procps,socat,containerd,runc,containernetworking-plugins";

/// The image that nodes of `engine` are made of; `None` for kind's own choice.
pub async fn node_image(engine: &Engine) -> Result<Option<String>> {
    match std::env::var("KIND_NODE_IMAGE") {
        Ok(name) if !name.is_empty() => Ok(Some(name)),
        _ if !engine.is_own() => Ok(None),
        _ => made(engine).await.map(Some).context("make the image of a kind node"),
    }
}

async fn made(engine: &Engine) -> Result<String> {
    let recipes = prepare::containers().join("node");
    let parts =
        tokio::task::spawn_blocking(prepare::node_parts).await.context("build the programs of a node")??;
    let mut inputs = vec![parts.key.clone().into_bytes(), PACKAGES.as_bytes().to_vec()];
    for path in files_below(&recipes)? {
        inputs.push(fs::read(&path).with_context(|| format!("read `{}`", path.display()))?);
    }
    let key = cache::key(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let image = format!("karpenter-e2e/node:{}-{key}", parts.kubernetes);
    if engine.has_image(&image).await {
        return Ok(image);
    }
    let base = debian(engine, DEBIAN, PACKAGES).await?;
    let images = of_kubeadm(engine, &recipes, &parts, &base).await?;
    let bare = format!("{image}-bare");
    let context = node_context(&recipes, &parts)?;
    let options = [
        "--tag",
        &bare,
        "--build-arg",
        &format!("BASE={base}"),
        "--build-arg",
        &format!("KUBERNETES_VERSION={}", parts.kubernetes),
    ];
    engine.build(context.path(), &recipes.join("node.Dockerfile"), &options).await?;
    with_images(engine, &bare, &images, &image).await?;
    Ok(image)
}

/// An image of a Debian root with some packages.
pub(super) async fn debian(engine: &Engine, release: &str, packages: &str) -> Result<String> {
    let key = cache::key(&[packages.as_bytes()]);
    let image = format!("karpenter-e2e/debian:{release}-{key}");
    if engine.has_image(&image).await {
        return Ok(image);
    }
    let (release, packages) = (release.to_owned(), packages.to_owned());
    let archive = tokio::task::spawn_blocking(move || debian_root(&release, &packages))
        .await
        .context("make a Debian root")??;
    let archive = archive.to_str().context("the cache folder is not valid UTF-8")?;
    engine.docker(&["import", archive, &image]).await?;
    Ok(image)
}

/// An archive of a Debian root, by mmdebstrap.
fn debian_root(release: &str, packages: &str) -> Result<PathBuf> {
    let tool = Packages::providing("mmdebstrap", &["mmdebstrap"], &["mmdebstrap"])?;
    let mmdebstrap = tool.program("mmdebstrap")?;
    let key = format!("{release}-{}", cache::key(&[packages.as_bytes()]));
    let folder = cache::entry("debian", &key, |folder| {
        tracing::info!(release, "fetching a Debian root; about four minutes, once");
        let mut command = std::process::Command::new(&mmdebstrap);
        command
            .envs(tool.environment())
            .args(["--format=tar", "--variant=minbase"])
            .arg(format!("--include={packages}"));
        for part in ["man", "doc", "locale"] {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{part}/*"));
        }
        command.arg(release).arg(folder.join("root.tar"));
        // The servers that this machine fetches Debian from, for the wanted release.
        if let Some(sources) = sources_for(release) {
            let path = folder.join("debian.sources");
            fs::write(&path, sources).with_context(|| format!("write `{}`", path.display()))?;
            command.arg(path);
        }
        prepare::fetch(&mut command)
    })?;
    Ok(folder.join("root.tar"))
}

/// This machine's own sources if it is a Debian, rewritten for another release; `None` elsewhere.
fn sources_for(release: &str) -> Option<String> {
    let about = fs::read_to_string("/etc/os-release").ok()?;
    let field = |name: &str| {
        about.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_matches('"').to_owned())
    };
    let own = field("VERSION_CODENAME=").filter(|_| field("ID=").as_deref() == Some("debian"))?;
    let places = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    let text = places.iter().find_map(|path| fs::read_to_string(path).ok())?;
    Some(text.replace(&own, release))
}

/// The images that kubeadm pulls, made of our programs under the names it uses.
async fn of_kubeadm(engine: &Engine, recipes: &Path, parts: &NodeParts, base: &str) -> Result<Vec<String>> {
    let mut list = Command::new(parts.programs.join("kubeadm"));
    list.args(["config", "images", "list", "--kubernetes-version", &parts.kubernetes]);
    let list = finish(&mut list, "kubeadm config images list").await?;
    let mut images: Vec<String> = list.lines().map(str::to_owned).collect();
    for image in &images {
        let name = image.rsplit('/').next().and_then(|name| name.split(':').next()).unwrap_or(image);
        let options = ["--target", name, "--tag", image, "--build-arg", &format!("BASE={base}")];
        engine.build(&parts.programs, &recipes.join("images.Dockerfile"), &options).await?;
    }
    // kind's configuration of containerd names the image of a pod's sandbox, maybe another than kubeadm does.
    let configuration = fs::read_to_string(parts.kind_files.join("etc/containerd/config.toml"))
        .context("read kind's configuration of containerd")?;
    let sandbox = configuration
        .lines()
        .find_map(|line| line.trim().strip_prefix("sandbox_image = \"")?.strip_suffix('"'))
        .context("find `sandbox_image` in kind's configuration of containerd")?;
    let pause =
        images.iter().find(|image| image.contains("/pause:")).context("kubeadm asks for no `pause`")?;
    if sandbox != pause {
        engine.docker(&["tag", pause, sandbox]).await?;
        images.push(sandbox.to_owned());
    }
    Ok(images)
}

/// Collects what the node's Dockerfile copies. Files of a Go module are read-only and have no modes; kind's Dockerfile says
/// which are programs.
fn node_context(recipes: &Path, parts: &NodeParts) -> Result<tempfile::TempDir> {
    let context = tempfile::Builder::new()
        .prefix("karpenter-e2e-")
        .tempdir_in(cache::root())
        .context("make a folder")?;
    for (from, to) in [(parts.kind_files.as_path(), "kind"), (&recipes.join("root"), "root")] {
        for path in files_below(from)? {
            let inside = path.strip_prefix(from).context("a file lies outside its folder")?;
            let place = context.path().join(to).join(inside);
            let is_program =
                to == "kind" && ["usr/local/bin", "kind/bin"].iter().any(|folder| inside.starts_with(folder));
            copy(&path, &place, if is_program { 0o755 } else { 0o644 })?;
        }
    }
    for name in ["kubeadm", "kubelet", "kubectl"] {
        copy(&parts.programs.join(name), &context.path().join(name), 0o755)?;
    }
    Ok(context)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let what = || format!("copy `{}` to `{}`", from.display(), to.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(what)?;
    }
    let text = fs::read(from).with_context(what)?;
    fs::write(to, text)
        .and_then(|()| fs::set_permissions(to, fs::Permissions::from_mode(mode)))
        .with_context(what)
}

/// Every file below a folder, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list `{}`", folder.display()))? {
            let path = entry.with_context(|| format!("list `{}`", folder.display()))?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Puts `images` into the containerd of a node, where kubeadm looks for them, as `result`.
async fn with_images(engine: &Engine, bare: &str, images: &[String], result: &str) -> Result<()> {
    let run = [
        "run",
        "--detach",
        "--security-opt",
        "seccomp=unconfined",
        "--entrypoint",
        "sleep",
        bare,
        "infinity",
    ];
    let container = engine.docker(&run).await?.trim().to_owned();
    let outcome = import(engine, &container, images, result).await;
    engine.docker(&["rm", "--force", "--volumes", &container]).await?;
    outcome
}

async fn import(engine: &Engine, container: &str, images: &[String], result: &str) -> Result<()> {
    engine.docker(&["exec", "--detach", container, "containerd"]).await?;
    wait::settles("containerd to answer", || async {
        engine.docker(&["exec", container, "ctr", "version"]).await
    })
    .await?;
    let mut save = engine
        .client()
        .arg("save")
        .args(images)
        .stdout(Stdio::piped())
        .spawn()
        .context("run `docker save`")?;
    let archive: Stdio =
        save.stdout.take().context("read from `docker save`")?.try_into().context("connect a pipe")?;
    let mut load = engine.client();
    load.args(["exec", "--interactive", container, "ctr", "--namespace=k8s.io", "images", "import"])
        .args(["--all-platforms", "--no-unpack", "--digests", "-"])
        .stdin(archive);
    finish(&mut load, "ctr images import").await?;
    ensure!(save.wait().await.context("wait for `docker save`")?.success(), "`docker save` failed");
    let quit = "kill $(pidof containerd) && while pidof containerd > /dev/null; do sleep 0.1; done; rm -rf /run/containerd";
    engine.docker(&["exec", container, "sh", "-c", quit]).await?;
    let entry = r#"ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]"#;
    engine.docker(&["commit", "--change", entry, "--change", "CMD []", container, result]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_read_in_the_same_order() {
        let recipes = prepare::containers().join("node");
        let files = files_below(&recipes).unwrap();
        assert!(files.iter().any(|path| path.ends_with("etc/cni/net.d/10-ptp.conflist")), "{files:?}");
        assert!(files.is_sorted());
    }
}
