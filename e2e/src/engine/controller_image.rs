//! The image of the controller under test: a `karpenter` binary in stage `prebuilt` of the project's Dockerfile.
//!
//! The base is `scratch`, so nothing is pulled. A binary that is built for tests links to libraries of this machine; they
//! lie in the image where the binary looks for them, and so do the certificates of public authorities. What runs is thus
//! what was tested, and differs from a published image in its C library.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::Engine;
use crate::prepare::cache;

const REPOSITORY: &str = "karpenter-e2e/controller";

/// Files in which the distributions keep the certificates, and in which the image has them.
const CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// An image by its two names.
#[derive(Clone, Debug)]
pub struct ControllerImage {
    /// Name without registry and tag.
    pub repository: String,
    /// Differs when the content does.
    pub tag: String,
}

impl ControllerImage {
    /// Returns name and tag as `docker` takes them.
    pub fn name(&self) -> String {
        format!("{}:{}", self.repository, self.tag)
    }
}

/// Makes the image of a binary, or finds it made. The engine says whether the content has changed: the identity of an image is a
/// hash, and equal layers are reused.
pub async fn controller_image(engine: &Engine, binary: PathBuf) -> Result<ControllerImage> {
    let needed = libraries_of(&binary).await?;
    let folder = tokio::task::spawn_blocking(move || context(&binary, &needed))
        .await
        .context("collect the files of the controller's image")??;
    let id = folder.path().join("id");
    let id_path = id.to_str().context("the cache folder is not valid UTF-8")?;
    let options = ["--target", "prebuilt", "--build-arg", "RUNTIME=scratch", "--iidfile", id_path];
    let dockerfile = cache::repository().join("Dockerfile");
    engine
        .build(&folder.path().join("context"), &dockerfile, &options)
        .await
        .context("make the image of the controller")?;
    let id = fs::read_to_string(&id).context("read the identity of the controller's image")?;
    let image = ControllerImage { repository: REPOSITORY.to_owned(), tag: tag(&id) };
    engine.docker(&["tag", id.trim(), &image.name()]).await?;
    remove_others(engine, &image).await?;
    Ok(image)
}

/// Sixteen digits of the hash.
fn tag(id: &str) -> String {
    id.trim().trim_start_matches("sha256:").chars().take(16).collect()
}

/// Each build of the binary leaves half a gigabyte. One that another run is using stays, so a refusal is no failure.
async fn remove_others(engine: &Engine, kept: &ControllerImage) -> Result<()> {
    let list = engine.docker(&["images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY]).await?;
    for other in list.lines().filter(|name| *name != kept.name()) {
        if let Err(error) = engine.docker(&["rmi", other]).await {
            tracing::debug!(image = other, %error, "an earlier image of the controller stays");
        }
    }
    Ok(())
}

/// The shared libraries that a program needs, its loader among them.
async fn libraries_of(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = tokio::process::Command::new("ldd").arg(binary).kill_on_drop(true).output().await;
    let output = output.context("run `ldd` (it belongs to the C library)")?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    libraries(&text).with_context(|| format!("find the libraries of `{}`", binary.display()))
}

/// Reads what `ldd` prints.
fn libraries(said: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in said.lines().map(str::trim) {
        if line.ends_with("not found") {
            bail!("this machine lacks a library: `{line}`");
        }
        // `name => path (address)`, or `path (address)` for the loader; the kernel's own has no path, and a static
        // program has neither.
        let place = line.rsplit("=> ").next().unwrap_or(line);
        if let Some((path, _)) = place.split_once(" (0x").filter(|(path, _)| path.starts_with('/')) {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// A folder with the context of the build: below `context/root` every file at its place in the image. In the cache folder,
/// so that the binary is most likely a link and not a copy.
fn context(binary: &Path, libraries: &[PathBuf]) -> Result<TempDir> {
    fs::create_dir_all(cache::root()).context("create the cache folder")?;
    let folder = tempfile::Builder::new()
        .prefix("karpenter-e2e-")
        .tempdir_in(cache::root())
        .context("make a folder")?;
    let root = folder.path().join("context/root");
    place(binary, &root, Path::new("/karpenter"))?;
    for library in libraries {
        place(library, &root, library)?;
    }
    if let Some(found) = CERTIFICATES.iter().find(|path| Path::new(path).exists()) {
        place(Path::new(found), &root, Path::new(CERTIFICATES[0]))?;
    }
    Ok(folder)
}

/// Gives the image a file at an absolute path.
fn place(from: &Path, root: &Path, path: &Path) -> Result<()> {
    let to = root.join(path.strip_prefix("/").unwrap_or(path));
    let what = || format!("copy `{}` to `{}`", from.display(), to.display());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(what)?;
    }
    // Names of libraries are often links to others, which the image does not have.
    let file = from.canonicalize().with_context(what)?;
    if fs::hard_link(&file, &to).is_err() {
        fs::copy(&file, &to).with_context(what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_ldd() {
        let said = "\tlinux-vdso.so.1 (0x00007f52)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f53)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f54)\n";
        let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(said).unwrap(), paths.map(PathBuf::from));
        for said in ["\tstatically linked\n", "\tnot a dynamic executable\n"] {
            assert!(libraries(said).unwrap().is_empty(), "{said}");
        }
        assert!(libraries("\tlibz.so.1 => not found\n").is_err());
    }

    #[test]
    fn the_context_has_every_file_at_its_place() {
        let machine = tempfile::tempdir().unwrap();
        let (binary, library) = (machine.path().join("built"), machine.path().join("lib.so.1.2"));
        fs::write(&binary, "program").unwrap();
        fs::write(&library, "library").unwrap();
        let link = machine.path().join("lib.so.1");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        let context = context(&binary, std::slice::from_ref(&link)).unwrap();
        let root = context.path().join("context/root");
        assert_eq!(fs::read_to_string(root.join("karpenter")).unwrap(), "program");
        let copied = root.join(link.strip_prefix("/").unwrap());
        assert!(!copied.is_symlink());
        assert_eq!(fs::read_to_string(copied).unwrap(), "library");
    }

    #[test]
    fn the_tag_is_a_part_of_the_identity() {
        assert_eq!(tag("sha256:0123456789abcdef0123\n"), "0123456789abcdef");
    }
}
