//! Folders in which Terraform runs, and the AWS provider that it runs there.
//!
//! The released provider is used where the user's configuration of Terraform finds it. Elsewhere `e2e/aws-provider`
//! stands in for it, with the schema of an old and of a recent version; `REQUIRE=aws-provider` makes that a failure.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use karpenter_e2e::prepare;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::skipped::{required, skip};

/// The provider of this machine, looked for once.
static PROVIDER: OnceCell<Provider> = OnceCell::const_new();

/// Where Terraform takes the AWS provider from.
#[derive(Debug)]
enum Provider {
    /// From wherever the user's configuration says.
    Released,
    /// From a mirror with stand-ins.
    StandIn(prepare::AwsProvider),
}

impl Provider {
    async fn find() -> Result<&'static Self> {
        PROVIDER
            .get_or_try_init(|| async {
                let folder = tempfile::tempdir().context("make a folder")?;
                let asked =
                    "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n";
                std::fs::write(folder.path().join("main.tf"), asked).context("write a configuration")?;
                let Err(error) = terraform(folder.path(), &["init", "-input=false", "-no-color"]).await
                else {
                    return Ok(Self::Released);
                };
                ensure!(!required("aws-provider"), "REQUIRE names `aws-provider`, but {error:#}");
                let built = tokio::task::spawn_blocking(prepare::aws_provider).await;
                Ok(Self::StandIn(built.context("build the stand-in")??))
            })
            .await
    }
}

/// Returns the versions of the AWS provider to try: one that is named for each stand-in, or what Terraform selects.
/// Empty, after a line that says why, when Terraform is not to be had.
pub(super) async fn versions(test: &str) -> Result<Vec<Option<String>>> {
    if Command::new(program()).arg("version").output().await.is_err() {
        skip(test, "terraform", "no terraform on PATH; install 1.7 or newer, or set TERRAFORM");
        return Ok(Vec::new());
    }
    Ok(match Provider::find().await? {
        Provider::Released => vec![None],
        Provider::StandIn(built) => built.versions.iter().cloned().map(Some).collect(),
    })
}

/// A folder in which `terraform init` has worked.
pub(super) struct Workspace {
    folder: PathBuf,
}

impl Workspace {
    /// Prepares a folder for this version of the AWS provider, or the newest.
    pub(super) async fn init(folder: &Path, version: Option<&str>) -> Result<Self> {
        if let Some(version) = version {
            let pinned = format!(
                "terraform {{\n  required_providers {{\n    aws = {{\n      source  = \"hashicorp/aws\"\n      version = \
                 \"{version}\"\n    }}\n  }}\n}}\n"
            );
            std::fs::write(folder.join("version_override.tf"), pinned).context("pin the provider")?;
        }
        let mut words = vec!["init".to_owned(), "-input=false".to_owned(), "-no-color".to_owned()];
        if let Provider::StandIn(built) = Provider::find().await? {
            words.push(format!("-plugin-dir={}", built.mirror.display()));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        terraform(folder, &words).await?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// As [`Self::init`], for a folder that needs a provider besides the AWS provider. `None`, after a line that says
    /// why, when that is not to be had.
    pub(super) async fn init_with_others(test: &str, folder: &Path) -> Result<Option<Self>> {
        match Self::init(folder, None).await {
            Ok(workspace) => Ok(Some(workspace)),
            Err(error) => {
                let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
                if !text.contains("provider") {
                    bail!(text);
                }
                let cut: String = text.chars().take(300).collect();
                let hint =
                    "name a configuration with a mirror in TF_CLI_CONFIG_FILE, or let it reach its registry";
                let why = format!("terraform init did not find every provider; {hint}: {cut}");
                skip(test, "terraform", &why);
                Ok(None)
            }
        }
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String> {
        terraform(&self.folder, arguments).await
    }

    /// Applies the configuration without a question.
    pub(super) async fn apply(&self, arguments: &[&str]) -> Result<()> {
        let words = [&["apply", "-auto-approve", "-no-color", "-input=false"], arguments].concat();
        self.run(&words).await.map(drop)
    }

    /// Returns the changes that the next apply would make, as `create aws_ec2_tag.subnet["subnet-1"]`, in order.
    pub(super) async fn changes(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let plan = [&["plan", "-no-color", "-input=false", "-out=plan"], arguments].concat();
        self.run(&plan).await?;
        let plan: serde_json::Value = serde_json::from_str(&self.run(&["show", "-json", "plan"]).await?)?;
        let changes = plan["resource_changes"].as_array().cloned().unwrap_or_default();
        let mut changes: Vec<String> = changes
            .iter()
            .filter(|change| change["mode"] == "managed")
            .flat_map(|change| {
                let actions = change["change"]["actions"].as_array().cloned().unwrap_or_default();
                let address = change["address"].as_str().unwrap_or_default().to_owned();
                actions
                    .into_iter()
                    .map(move |action| format!("{} {address}", action.as_str().unwrap_or_default()))
            })
            .filter(|change| !change.starts_with("no-op ") && !change.starts_with("read "))
            .collect();
        changes.sort();
        Ok(changes)
    }
}

fn program() -> PathBuf {
    let named = std::env::var_os("TERRAFORM").filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from("terraform"), PathBuf::from)
}

async fn terraform(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_IN_AUTOMATION", "1")
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run `terraform {}`", arguments.join(" ")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "`terraform {}` failed:\n{text}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}
