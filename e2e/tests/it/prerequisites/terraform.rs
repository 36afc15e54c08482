//! The Terraform module: formatted, valid, tested with a mocked provider; applied, compared, destroyed.
//!
//! Needs `terraform` on PATH, or its path in TERRAFORM, and the AWS provider from wherever the user's configuration
//! says. Where either is not to be had the test says so on a line that begins with `skipped:`, which
//! `scripts/test` counts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use karpenter_e2e::prepare::{self, cache};
use tokio::process::Command;

use crate::skipped::skip;

use super::{Fresh, MotoAccount, Options, REGION};

/// Several Terraforms, with a provider and emulators each, would starve each other.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A folder in which `terraform init` has worked.
struct Workspace {
    terraform: PathBuf,
    folder: PathBuf,
}

impl Workspace {
    /// `None`, after a line that says why, when Terraform or a provider is not to be had.
    async fn init(test: &str, folder: &Path) -> Result<Option<Self>> {
        let terraform = std::env::var_os("TERRAFORM").filter(|path| !path.is_empty());
        let terraform = terraform.map_or_else(|| PathBuf::from("terraform"), PathBuf::from);
        let workspace = Self { terraform, folder: folder.to_owned() };
        if Command::new(&workspace.terraform).arg("version").output().await.is_err() {
            skip(test, "terraform", "no terraform on PATH; install 1.7 or newer, or set TERRAFORM");
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
                skip(
                    test,
                    "terraform",
                    &format!("terraform init did not find every provider; {hint}: {cut}"),
                );
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
    for example in ["complete", "existing-role", "irsa", "govcloud", "vpc"] {
        let folder = module.join("examples").join(example);
        let Some(workspace) = Workspace::init(example, &folder).await.unwrap() else { return };
        workspace.run(&["validate", "-no-color"]).await.unwrap();
    }
    // It needs the Helm provider besides, which fewer machines have.
    let Some(workspace) = Workspace::init("chart", &module.join("examples/chart")).await.unwrap() else {
        return;
    };
    workspace.run(&["validate", "-no-color"]).await.unwrap();
}

/// Values that `terraform/chart` passes to Helm render, image included. The values are a module without a provider, so this
/// runs where the Helm provider is not to be had.
#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_the_module_are_enough_for_the_chart() {
    let folder = folder();
    let module = copy_module(folder.path()).unwrap();
    let Some(workspace) =
        Workspace::init("the values of the chart", &module.join("chart/values")).await.unwrap()
    else {
        return;
    };
    let variables = serde_json::json!({
        "chart_values": {
            "serviceAccount": { "name": "karpenter" },
            "settings": { "clusterName": "prod", "interruptionQueue": "prod", "enableZonalShift": false },
        },
        "image": { "repository": "registry.example.com/karpenter", "tag": "1.2.3" },
        "values": ["replicas: 1"],
    });
    let file = workspace.folder.join("terraform.tfvars.json");
    std::fs::write(file, variables.to_string()).unwrap();
    workspace.run(&["apply", "-auto-approve", "-no-color", "-input=false"]).await.unwrap();
    let documents = workspace.run(&["output", "-json", "documents"]).await.unwrap();
    let documents: Vec<String> = serde_json::from_str(&documents).unwrap();
    let mut helm = std::process::Command::new(prepare::helm().unwrap());
    helm.args(["template", "karpenter", "--namespace", "kube-system", "--kube-version", "1.35.0"]);
    helm.arg(cache::repository().join("charts/karpenter"));
    for (index, document) in documents.iter().enumerate() {
        let path = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&path, document).unwrap();
        helm.arg("--values").arg(path);
    }
    let output = helm.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["registry.example.com/karpenter:1.2.3", "replicas: 1", "value: prod"] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
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

/// Every configuration file below a folder, with its text; files of `terraform test`, which needs a newer Terraform, have
/// another ending.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "tf") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// `element` takes negative indices from Terraform 1.10 on, and the module promises to work with 1.5.7.
#[test]
fn no_element_is_taken_by_a_negative_index() {
    let sources = sources(&cache::repository().join("terraform"));
    assert!(sources.len() > 10, "{sources:?}");
    for (path, text) in sources {
        let mut lines = text.lines().filter(|line| line.contains("element("));
        let found = lines.find(|line| line.contains(", -"));
        assert_eq!(found, None, "{}", path.display());
    }
}

/// Points the provider at an emulated account.
fn provider(endpoint: &str) -> String {
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
"#
    )
}

/// A root module in an emulated account.
fn root(fresh: &Fresh, variables: &str) -> String {
    let provider = provider(fresh.account.endpoint());
    format!(
        r#"{provider}
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
    let mut fresh = Fresh::start(cluster).await?;
    let expected = fresh.reference(roles, flags).await?;
    let seeded = fresh.renew(cluster).await?;
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
  extra_node_policy_arns   = {{ read = "arn:aws:iam::aws:policy/AmazonEC2ReadOnlyAccess" }}
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

/// Returns the changes that the next apply would make, as `create aws_ec2_tag.subnet["subnet-1"]`, in order.
async fn changes(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<String>> {
    let plan = [&["plan", "-no-color", "-input=false", "-out=plan"], arguments].concat();
    workspace.run(&plan).await?;
    let plan: serde_json::Value = serde_json::from_str(&workspace.run(&["show", "-json", "plan"]).await?)?;
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

async fn apply(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let words = [&["apply", "-auto-approve", "-no-color", "-input=false"], arguments].concat();
    workspace.run(&words).await.map(drop)
}

/// A subnet more, a subnet less, another order: each changes the tag of that subnet and no other.
#[tokio::test(flavor = "multi_thread")]
async fn subnets_come_and_go_without_touching_the_others() {
    const TAGS: &[&str] = &["-target=module.karpenter.aws_ec2_tag.subnet"];
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    copy_module(folder.path()).unwrap();
    let fresh = Fresh::start("subnets").await.unwrap();
    let subnets = fresh.account.seeded().unwrap().private_subnets.clone();
    let [a, b, c] = subnets.as_slice() else { panic!("three private subnets, not {subnets:?}") };
    let write = |subnets: &[&String]| {
        let text = root(&fresh, &format!("  subnet_ids = {subnets:?}"));
        std::fs::write(folder.path().join("main.tf"), text).unwrap();
    };
    write(&[a, c]);
    let name = "terraform plan with other subnets";
    let Some(workspace) = Workspace::init(name, folder.path()).await.unwrap() else { return };
    apply(&workspace, TAGS).await.unwrap();
    let tag =
        |action: &str, subnet: &str| format!("{action} module.karpenter.aws_ec2_tag.subnet[\"{subnet}\"]");
    for (subnets, expected) in [
        (vec![a, b, c], vec![tag("create", b)]),
        (vec![c, a, b], vec![]),
        (vec![b, c], vec![tag("delete", a)]),
    ] {
        write(&subnets);
        assert_eq!(changes(&workspace, TAGS).await.unwrap(), expected, "{subnets:?}");
        apply(&workspace, TAGS).await.unwrap();
    }
    fresh.account.stop().await.unwrap();
}

/// The documented way for subnets that Terraform makes: they are tagged where they are made, and nothing is ever undone.
/// The way the documentation warns of is tried as well, or this would also pass if nothing looked at tags.
#[tokio::test(flavor = "multi_thread")]
async fn subnets_of_the_same_configuration_keep_their_tag() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    let example = copy_module(folder.path()).unwrap().join("examples/vpc");
    let account =
        MotoAccount::start(Options { region: REGION.to_owned(), ..Options::default() }).await.unwrap();
    // A cluster of the emulator has the add-on from the start, and says how it is about zonal shifts.
    let emulated = format!(
        "{}\nresource \"aws_eks_addon\" \"pod_identity\" {{\n  count = 0\n}}\n\nresource \"aws_eks_cluster\" \"this\" {{\n  \
         zonal_shift_config {{\n    enabled = false\n  }}\n}}\n",
        provider(account.endpoint())
    );
    std::fs::write(example.join("emulator_override.tf"), emulated).unwrap();
    let name = "terraform apply of examples/vpc";
    let Some(workspace) = Workspace::init(name, &example).await.unwrap() else { return };
    apply(&workspace, &[]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(changes(&workspace, &[]).await.unwrap(), Vec::<String>::new());
        apply(&workspace, &[]).await.unwrap();
    }
    let wrong = "resource \"aws_subnet\" \"private\" {\n  tags = {}\n}\n\nmodule \"karpenter\" {\n  subnet_ids = [for subnet in \
                 aws_subnet.private : subnet.id]\n}\n";
    std::fs::write(example.join("wrong_override.tf"), wrong).unwrap();
    apply(&workspace, &[]).await.unwrap();
    let undone = changes(&workspace, &[]).await.unwrap();
    assert!(undone.iter().any(|change| change.starts_with("update aws_subnet.private")), "{undone:?}");
    account.stop().await.unwrap();
}
