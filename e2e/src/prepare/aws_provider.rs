//! The stand-in for Terraform's AWS provider, built from `e2e/aws-provider`, as a mirror that `terraform init` installs from.
//!
//! One program serves the schema of several released versions, by its file name: see `e2e/aws-provider/main.go`.

use std::env::consts;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{cache, go};

/// Folder of the provider in a mirror.
const ADDRESS: &str = "registry.terraform.io/hashicorp/aws";

/// A mirror with versions of the AWS provider.
#[derive(Clone, Debug)]
pub struct AwsProvider {
    /// Folder for `terraform init -plugin-dir`.
    pub mirror: PathBuf,
    /// Versions in it, as `5.40.0`, the oldest first.
    pub versions: Vec<String>,
}

/// Finds or builds the stand-in.
///
/// # Errors
/// When Go is not there, or cannot fetch or build its module.
pub fn aws_provider() -> Result<AwsProvider> {
    let module = cache::repository().join("e2e/aws-provider");
    let schemas = files(&module.join("schema"), "json")?;
    let mut versions: Vec<String> =
        schemas.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    versions.sort_by_key(|version| version.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok());
    let sources = files(&module, "go")?.into_iter().chain(schemas);
    let sources = sources.map(|path| fs::read(&path).with_context(|| format!("read `{}`", path.display())));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mirror = cache::entry("aws-provider", &go::key(&[&module], &sources)?, |folder| {
        tracing::info!("building the stand-in for Terraform's AWS provider; about a minute, once");
        let program = folder.join("program");
        go::build(&module, go::SMALL, &program, &[".".to_owned()])?;
        for version in &versions {
            let place = folder.join(ADDRESS).join(version).join(platform());
            fs::create_dir_all(&place)
                .and_then(|()| {
                    fs::hard_link(&program, place.join(format!("terraform-provider-aws_v{version}")))
                })
                .with_context(|| format!("put version {version} into the mirror"))?;
        }
        Ok(())
    })?;
    Ok(AwsProvider { mirror, versions })
}

/// Files of a folder with an ending, by name.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list `{}`", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("list `{}`", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// This machine, as Terraform writes it.
fn platform() -> String {
    let system = if consts::OS == "macos" { "darwin" } else { consts::OS };
    let processor = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}_{processor}")
}
