//! The Terraform module: formatted, valid, tested with a mocked provider; applied, compared, destroyed.
//!
//! Needs `terraform` on PATH, or its path in TERRAFORM; without it a test says so on a line that begins with `skipped:`,
//! which `scripts/test` counts. [`workspace`] says which AWS provider is used.

mod workspace;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::id::Arn;
use karpenter_e2e::prepare::{self, cache};

use super::{Fresh, MotoAccount, Options, REGION};
use workspace::{Workspace, versions};

/// Several Terraforms, with a provider and emulators each, would starve each other.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

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
    for version in versions("the module's own tests").await.unwrap() {
        let folder = folder();
        let module = copy_module(folder.path()).unwrap();
        let workspace = Workspace::init(&module, version.as_deref()).await.unwrap();
        workspace.run(&["fmt", "-check", "-recursive", "-diff"]).await.unwrap();
        workspace.run(&["validate", "-no-color"]).await.unwrap();
        let text = workspace.run(&["test", "-no-color"]).await.unwrap();
        assert!(text.contains(", 0 failed.") && !text.contains("! 0 passed"), "{text}");
        let parts = ["policies", "node-role", "queue"];
        let examples =
            ["complete", "existing-role", "irsa", "govcloud", "vpc"].map(|name| format!("examples/{name}"));
        for part in parts.into_iter().chain(examples.iter().map(String::as_str)) {
            let workspace = Workspace::init(&module.join(part), version.as_deref()).await.unwrap();
            workspace.run(&["validate", "-no-color"]).await.unwrap();
        }
    }
}

/// It needs the Helm provider besides, which fewer machines have.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_with_the_chart_is_valid() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    let chart = copy_module(folder.path()).unwrap().join("examples/chart");
    if versions("chart").await.unwrap().is_empty() {
        return;
    }
    let Some(workspace) = Workspace::init_with_others("chart", &chart).await.unwrap() else { return };
    workspace.run(&["validate", "-no-color"]).await.unwrap();
}

/// Values that `terraform/chart` passes to Helm render, image included. The values are a module without a provider, so this
/// runs where the Helm provider is not to be had.
#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_the_module_are_enough_for_the_chart() {
    let folder = folder();
    let module = copy_module(folder.path()).unwrap();
    if versions("the values of the chart").await.unwrap().is_empty() {
        return;
    }
    let values = module.join("chart/values");
    let workspace = Workspace::init(&values, None).await.unwrap();
    let variables = serde_json::json!({
        "chart_values": {
            "serviceAccount": { "name": "karpenter" },
            "settings": { "clusterName": "prod", "interruptionQueue": "prod", "enableZonalShift": false },
        },
        "image": { "repository": "registry.example.com/karpenter", "tag": "1.2.3" },
        "values": ["replicas: 1"],
    });
    std::fs::write(values.join("terraform.tfvars.json"), variables.to_string()).unwrap();
    workspace.apply(&[]).await.unwrap();
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
async fn live(
    version: Option<&str>,
    cluster: &str,
    roles: &[&str],
    flags: &[&str],
    variables: &str,
) -> Result<()> {
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
    let workspace = Workspace::init(folder.path(), version).await?;
    fresh.make_roles(roles).await?;
    let before = fresh.inventory().await?;

    workspace.apply(&[]).await?;
    let differences = expected.differences(&fresh.inventory().await?);
    ensure!(differences.is_empty(), "bootstrap | Terraform\n{}", differences.join("\n"));
    let outputs = folder.path().join("outputs.json");
    std::fs::write(&outputs, workspace.run(&["output", "-json"]).await?).context("write the outputs")?;
    let outputs = outputs.display().to_string();
    let report = fresh.bootstrap(&["check", "--terraform-outputs", &outputs], 0).await?;
    ensure!(report.contains("the account is ready"), "{report}");
    let changes = workspace.changes(&[]).await?;
    ensure!(changes.is_empty(), "the second plan is not empty: {changes:?}");

    workspace.run(&["destroy", "-auto-approve", "-no-color", "-input=false"]).await?;
    let differences = before.differences(&fresh.inventory().await?);
    ensure!(differences.is_empty(), "before | after terraform\n{}", differences.join("\n"));
    fresh.account.stop().await.context("stop the account")
}

/// Side by side: most of their time is the provider waiting for AWS to catch up with itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_module_is_what_bootstrap_makes_plain_and_with_every_option() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for version in versions("terraform apply, plan and destroy").await.unwrap() {
        let version = version.as_deref();
        let (plain, options) = tokio::join!(live(version, "plain", &[], &[], ""), every_option(version));
        plain.unwrap();
        options.unwrap();
    }
}

async fn every_option(version: Option<&str>) -> Result<()> {
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
    live(version, &"c".repeat(100), &["gpu-nodes", "windows-nodes"], &flags, &variables).await
}

/// Plans are empty because the account was read, not because nothing was looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_detached_by_hand_is_attached_again() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for version in versions("terraform plan of a changed account").await.unwrap() {
        let folder = folder();
        copy_module(folder.path()).unwrap();
        let fresh = Fresh::start("changed").await.unwrap();
        std::fs::write(folder.path().join("main.tf"), root(&fresh, "")).unwrap();
        let workspace = Workspace::init(folder.path(), version.as_deref()).await.unwrap();
        workspace.apply(&[]).await.unwrap();
        let policy = Arn::from("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore");
        let iam = fresh.iam().await.unwrap();
        iam.detach_role_policy("KarpenterNodeRole-changed", &policy).await.unwrap();
        let attachment = "aws_iam_role_policy_attachment.node[\"linux/AmazonSSMManagedInstanceCore\"]";
        let expected = [format!("create module.karpenter.{attachment}")];
        assert_eq!(workspace.changes(&[]).await.unwrap(), expected);
        fresh.account.stop().await.unwrap();
    }
}

/// A module that waits for a cluster as a whole knows ARNs only while it is applied, unless the caller says which account it
/// is. In neither case does an update of the cluster take a policy from the role of running nodes (terraform-aws-eks#3696).
#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_what_the_module_waits_for_takes_nothing_away() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for version in versions("terraform plan with depends_on").await.unwrap() {
        let fresh = Fresh::start("depends-on").await.unwrap();
        for account in
            ["", "  partition = \"aws\"\n  account_id = \"123456789012\"\n  region = \"us-west-2\"\n"]
        {
            let folder = folder();
            copy_module(folder.path()).unwrap();
            let cluster = "variable \"cluster\" {}\n\nresource \"terraform_data\" \"cluster\" {\n  input = var.cluster\n}\n";
            let waits = format!("{account}  depends_on = [terraform_data.cluster]");
            let text = format!("{}\n{cluster}", root(&fresh, &waits));
            std::fs::write(folder.path().join("main.tf"), text).unwrap();
            let workspace = Workspace::init(folder.path(), version.as_deref()).await.unwrap();
            workspace.apply(&["-var=cluster=1.34"]).await.unwrap();
            let changes = workspace.changes(&["-var=cluster=1.35"]).await.unwrap();
            assert!(changes.iter().all(|change| change.starts_with("update ")), "{changes:#?}");
            assert_eq!(changes.len() == 1, !account.is_empty(), "{changes:#?}");
            workspace.apply(&["-var=cluster=1.35"]).await.unwrap();
            assert_eq!(workspace.changes(&["-var=cluster=1.35"]).await.unwrap(), Vec::<String>::new());
            workspace.run(&["destroy", "-auto-approve", "-no-color", "-var=cluster=1.35"]).await.unwrap();
        }
        fresh.account.stop().await.unwrap();
    }
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
    if versions("terraform plan with other subnets").await.unwrap().is_empty() {
        return;
    }
    let workspace = Workspace::init(folder.path(), None).await.unwrap();
    workspace.apply(TAGS).await.unwrap();
    let tag =
        |action: &str, subnet: &str| format!("{action} module.karpenter.aws_ec2_tag.subnet[\"{subnet}\"]");
    for (subnets, expected) in [
        (vec![a, b, c], vec![tag("create", b)]),
        (vec![c, a, b], vec![]),
        (vec![b, c], vec![tag("delete", a)]),
    ] {
        write(&subnets);
        assert_eq!(workspace.changes(TAGS).await.unwrap(), expected, "{subnets:?}");
        workspace.apply(TAGS).await.unwrap();
    }
    fresh.account.stop().await.unwrap();
}

/// The documented way for subnets that Terraform makes: they are tagged where they are made, and nothing is ever undone.
/// The way the documentation warns of is tried as well, or this would also pass if nothing looked at tags.
#[tokio::test(flavor = "multi_thread")]
async fn subnets_of_the_same_configuration_keep_their_tag() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for version in versions("terraform apply of examples/vpc").await.unwrap() {
        let folder = folder();
        let example = copy_module(folder.path()).unwrap().join("examples/vpc");
        let account =
            MotoAccount::start(Options { region: REGION.to_owned(), ..Options::default() }).await.unwrap();
        // A cluster of the emulator has the add-on from the start, and says how it is about zonal shifts.
        let mut emulated = format!(
            "{}\nresource \"aws_eks_addon\" \"pod_identity\" {{\n  count = 0\n}}\n\nresource \"aws_eks_cluster\" \"this\" {{\n  \
             zonal_shift_config {{\n    enabled = false\n  }}\n}}\n",
            provider(account.endpoint())
        );
        // A stand-in makes subnets and their tags, and no cluster.
        let stands_in = version.is_some();
        let parts = ["-target=aws_subnet.private", "-target=module.karpenter.aws_ec2_tag.subnet"];
        let parts: &[&str] = if stands_in { &parts } else { &[] };
        if stands_in {
            emulated = provider(account.endpoint());
            emulated.push_str("\nmodule \"karpenter\" {\n  cluster_name = var.cluster_name\n}\n");
        }
        std::fs::write(example.join("emulator_override.tf"), emulated).unwrap();
        let workspace = Workspace::init(&example, version.as_deref()).await.unwrap();
        workspace.apply(parts).await.unwrap();
        for _ in 0..2 {
            assert_eq!(workspace.changes(parts).await.unwrap(), Vec::<String>::new());
            workspace.apply(parts).await.unwrap();
        }
        let wrong = "resource \"aws_subnet\" \"private\" {\n  tags = {}\n}\n\nmodule \"karpenter\" {\n  subnet_ids = [for subnet in \
                     aws_subnet.private : subnet.id]\n}\n";
        std::fs::write(example.join("wrong_override.tf"), wrong).unwrap();
        workspace.apply(parts).await.unwrap();
        let undone = workspace.changes(parts).await.unwrap();
        assert!(undone.iter().any(|change| change.starts_with("update aws_subnet.private")), "{undone:?}");
        account.stop().await.unwrap();
    }
}
