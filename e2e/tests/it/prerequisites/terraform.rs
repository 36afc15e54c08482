//! The Terraform module: formatted, valid, tested with a mocked provider; applied, compared, destroyed.
//!
//! Needs `terraform` on PATH, or its path in TERRAFORM, and the AWS provider from wherever the user's configuration
//! says. Where either is not to be had the test says so on a line that begins with `skipped:`, which
//! `scripts/test` counts.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use karpenter_e2e::prepare::cache;
use tokio::process::Command;

use super::{Fresh, ONE_AT_A_TIME, REGION, reference};

/// A folder in which `terraform init` has worked.
struct Workspace {
    terraform: PathBuf,
    folder: PathBuf,
}

impl Workspace {
    /// `None`, after a line that says why, when Terraform or its provider is not to be had.
    async fn init(test: &str, folder: &Path) -> Result<Option<Self>> {
        let terraform = std::env::var_os("TERRAFORM").filter(|path| !path.is_empty());
        let terraform = terraform.map_or_else(|| PathBuf::from("terraform"), PathBuf::from);
        let workspace = Self { terraform, folder: folder.to_owned() };
        if Command::new(&workspace.terraform).arg("version").output().await.is_err() {
            skip(test, "no terraform on PATH; install 1.7 or newer, or set TERRAFORM");
            return Ok(None);
        }
        match workspace.run(&["init", "-input=false", "-no-color"]).await {
            Ok(_) => Ok(Some(workspace)),
            Err(error) => {
                let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
                if !text.contains("provider") {
                    bail!(text);
                }
                let cut: String = text.chars().take(300).collect();
                let hint =
                    "name a configuration with a mirror in TF_CLI_CONFIG_FILE, or let it reach its registry";
                skip(test, &format!("terraform init found no AWS provider; {hint}: {cut}"));
                Ok(None)
            }
        }
    }

    async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.terraform)
            .args(arguments)
            .current_dir(&self.folder)
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
}

/// Says on standard error, past the test runner's capture, that a test did not run.
fn skip(test: &str, reason: &str) {
    // A line that nobody reads is no reason to fail.
    let _ = writeln!(std::io::stderr(), "\nskipped: {test}: {reason}");
}

/// A copy of the module, so that nothing is written into the repository.
fn copy_module(to: &Path) -> Result<PathBuf> {
    fn copy(from: &Path, to: &Path) -> Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(".terraform") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                copy(&entry.path(), &to.join(&name))?;
            } else {
                std::fs::copy(entry.path(), to.join(&name))?;
            }
        }
        Ok(())
    }
    let module = to.join("module");
    copy(&cache::repository().join("terraform"), &module).context("copy the module")?;
    Ok(module)
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("karpenter-terraform-").tempdir().expect("a temporary folder can be made")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_module_is_formatted_valid_and_keeps_its_promises() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    let module = copy_module(folder.path()).unwrap();
    let Some(workspace) = Workspace::init("the module's own tests", &module).await.unwrap() else { return };
    workspace.run(&["fmt", "-check", "-recursive", "-diff"]).await.unwrap();
    workspace.run(&["validate", "-no-color"]).await.unwrap();
    let text = workspace.run(&["test", "-no-color"]).await.unwrap();
    assert!(text.contains(", 0 failed.") && !text.contains("! 0 passed"), "{text}");
    for example in ["complete", "existing-role", "irsa", "govcloud"] {
        let folder = module.join("examples").join(example);
        let Some(workspace) = Workspace::init(example, &folder).await.unwrap() else { return };
        workspace.run(&["validate", "-no-color"]).await.unwrap();
    }
}

#[test]
fn the_readme_names_every_input_and_output() {
    let folder = cache::repository().join("terraform");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let readme = read("README.md");
    let declared = format!("{}\n{}", read("variables.tf"), read("outputs.tf"));
    let names = declared.lines().filter_map(|line| {
        let rest = line.strip_prefix("variable \"").or_else(|| line.strip_prefix("output \""))?;
        rest.split('"').next()
    });
    let missing: Vec<_> = names.filter(|name| !readme.contains(&format!("| {name} |"))).collect();
    assert!(missing.is_empty(), "terraform/README.md does not name {missing:?}");
}

/// A root module that points the provider at an emulated account.
fn root(fresh: &Fresh, variables: &str) -> String {
    let endpoint = fresh.account.endpoint();
    let services = ["ec2", "eks", "events", "iam", "sqs", "sts"];
    let services: String = services.iter().map(|name| format!("    {name} = \"{endpoint}\"\n")).collect();
    format!(
        r#"provider "aws" {{
  region                      = "{REGION}"
  access_key                  = "emulator"
  secret_key                  = "emulator"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {{
{services}  }}
}}

module "karpenter" {{
  source       = "./module"
  cluster_name = "{}"
{variables}
}}

output "karpenter" {{
  value = module.karpenter
}}
"#,
        fresh.environment.cluster
    )
}

/// Applies the module, compares, plans again, checks the account with what Terraform put out, destroys.
async fn live(cluster: &str, roles: &[&str], flags: &[&str], variables: &str) -> Result<()> {
    let folder = folder();
    copy_module(folder.path())?;
    let fresh = Fresh::start(cluster).await?;
    let seeded = fresh.account.seeded().context("the account was seeded")?;
    let group = seeded.cluster_security_group.clone().context("the cluster has a security group")?;
    let variables = format!(
        "  subnet_ids = {:?}\n  security_group_id = {group:?}\n  create_spot_service_linked_role = true\n{variables}",
        seeded.private_subnets
    );
    std::fs::write(folder.path().join("main.tf"), root(&fresh, &variables)).context("write main.tf")?;
    let name = format!("terraform apply for cluster {cluster}");
    let Some(workspace) = Workspace::init(&name, folder.path()).await? else { return Ok(()) };
    fresh.make_roles(roles).await?;
    let before = fresh.inventory().await?;
    let expected = reference(cluster, roles, flags).await?;

    workspace.run(&["apply", "-auto-approve", "-no-color", "-input=false"]).await?;
    let differences = expected.differences(&fresh.inventory().await?);
    ensure!(differences.is_empty(), "bootstrap | Terraform\n{}", differences.join("\n"));
    let outputs = folder.path().join("outputs.json");
    std::fs::write(&outputs, workspace.run(&["output", "-json"]).await?).context("write the outputs")?;
    let outputs = outputs.display().to_string();
    let report = fresh.bootstrap(&["check", "--terraform-outputs", &outputs], 0).await?;
    ensure!(report.contains("the account is ready"), "{report}");
    let plan = workspace.run(&["plan", "-detailed-exitcode", "-no-color", "-input=false"]).await;
    plan.context("the second plan is not empty")?;

    workspace.run(&["destroy", "-auto-approve", "-no-color", "-input=false"]).await?;
    let differences = before.differences(&fresh.inventory().await?);
    ensure!(differences.is_empty(), "before | after terraform\n{}", differences.join("\n"));
    fresh.account.stop().await.context("stop the account")
}

/// Side by side: most of their time is the provider waiting for AWS to catch up with itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_module_is_what_bootstrap_makes_plain_and_with_every_option() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    let module = copy_module(folder.path()).unwrap();
    let available = Workspace::init("terraform apply, plan and destroy", &module).await.unwrap();
    if available.is_none() {
        return;
    }
    let (plain, options) = tokio::join!(live("plain", &[], &[], ""), every_option());
    plain.unwrap();
    options.unwrap();
}

async fn every_option() -> Result<()> {
    let key = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555";
    let flags = [
        "--iam-path",
        "/platform/karpenter/",
        "--windows",
        "--zonal-shift",
        "--queue-kms-key",
        key,
        "--permissions-boundary",
        "arn:aws:iam::aws:policy/PowerUserAccess",
        "--extra-node-policy",
        "arn:aws:iam::aws:policy/AmazonEC2ReadOnlyAccess",
        "--extra-node-role",
        "arn:aws:iam::123456789012:role/gpu-nodes",
        "--extra-windows-node-role",
        "arn:aws:iam::123456789012:role/windows-nodes",
        "--extra-ssm-parameter",
        "arn:aws:ssm:us-west-2:123456789012:parameter/ami",
        "--tag",
        "team=platform",
    ];
    let variables = format!(
        r#"  iam_path                 = "/platform/karpenter/"
  windows                  = true
  zonal_shift              = true
  queue_kms_key_arn        = "{key}"
  permissions_boundary_arn = "arn:aws:iam::aws:policy/PowerUserAccess"
  extra_node_policy_arns   = ["arn:aws:iam::aws:policy/AmazonEC2ReadOnlyAccess"]
  extra_node_roles = {{
    gpu     = {{ arn = "arn:aws:iam::123456789012:role/gpu-nodes" }}
    windows = {{ arn = "arn:aws:iam::123456789012:role/windows-nodes", platform = "windows" }}
  }}
  extra_ssm_parameter_arns = ["arn:aws:ssm:us-west-2:123456789012:parameter/ami"]
  tags                     = {{ team = "platform" }}"#
    );
    // The longest name EKS allows: the module must cut names as bootstrap does.
    live(&"c".repeat(100), &["gpu-nodes", "windows-nodes"], &flags, &variables).await
}
