//! `karpenter bootstrap render`: the prerequisites in the words of other tools. Asks no account unless it must.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use karpenter_bootstrap::render::{cloudformation, eksctl, iam_json, terraform};

use super::{account, print};
use crate::flags::bootstrap::BootstrapFlags;

/// Arguments of `karpenter bootstrap render`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// The CloudFormation template, the same for every cluster
    Cloudformation,
    /// The parameters of that template for one cluster, as `aws cloudformation deploy --parameter-overrides` takes them;
    /// needs no credentials, unless --identity irsa leaves --oidc-issuer to be looked up
    CloudformationParameters {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
    /// The policy documents that the Terraform module reads
    TerraformPolicies {
        /// Write them into this folder instead of printing them
        #[arg(long, value_name = "FOLDER")]
        directory: Option<PathBuf>,
    },
    /// All IAM documents of one cluster, as JSON; needs no credentials if --account and --region are given
    IamJson {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
    /// The part of an eksctl configuration that concerns Karpenter; needs no credentials if --account and --region are
    /// given
    Eksctl {
        #[command(flatten)]
        flags: BootstrapFlags,
    },
}

/// Prints the requested output.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    print(&text(arguments.tool).await?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the text to print; empty when it is written to files instead.
async fn text(tool: Tool) -> Result<String> {
    Ok(match tool {
        Tool::Cloudformation => cloudformation::template(),
        Tool::CloudformationParameters { flags } => {
            // No parameter depends on account or region, which the template finds out: any will do.
            let account = flags.account.as_deref().unwrap_or("000000000000");
            let region = flags.region.as_deref().unwrap_or("us-east-1");
            let settings = if flags.lacks_issuer() {
                account::settings(&flags).await?
            } else {
                flags.settings(account, region, None)?
            };
            let parameters = cloudformation::parameters(&settings).into_iter();
            parameters.map(|(name, value)| format!("{name}={value}\n")).collect()
        }
        Tool::TerraformPolicies { directory: Some(folder) } => {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create `{}`", folder.display()))?;
            for (name, content) in terraform::files() {
                let path = folder.join(name);
                std::fs::write(&path, content)
                    .with_context(|| format!("cannot write `{}`", path.display()))?;
            }
            String::new()
        }
        Tool::TerraformPolicies { directory: None } => {
            terraform::files().into_iter().map(|(name, content)| format!("# {name}\n{content}\n")).collect()
        }
        Tool::IamJson { flags } => {
            format!("{:#}\n", iam_json::document(&account::settings(&flags).await?))
        }
        Tool::Eksctl { flags } => eksctl::config(&account::settings(&flags).await?),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// Returns the output of `karpenter bootstrap render` for these words; none of them needs an account.
    async fn rendered(words: &[&str]) -> String {
        let all = ["render"].iter().chain(words).copied();
        text(Cli::parse_from(all).arguments.tool).await.unwrap()
    }

    const WHO: [&str; 6] = ["--cluster-name", "prod", "--account", "123456789012", "--region", "eu-west-1"];

    async fn rendered_for(tool: &str, flags: &[&str]) -> String {
        rendered(&[&[tool], WHO.as_slice(), flags].concat()).await
    }

    #[tokio::test]
    async fn the_template_is_the_committed_one() {
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cloudformation/karpenter.yaml");
        let committed = std::fs::read_to_string(committed).unwrap();
        assert!(rendered(&["cloudformation"]).await == committed, "run `cargo xtask generate`");
    }

    #[tokio::test]
    async fn parameters_are_one_to_a_line_as_deploy_takes_them() {
        assert_eq!(rendered_for("cloudformation-parameters", &[]).await, "ClusterName=prod\n");
        let flags = ["--iam-path", "/team/", "--zonal-shift", "--extra-node-role", "arn:aws:iam::1:role/gpu"];
        assert_eq!(
            rendered_for("cloudformation-parameters", &flags).await,
            "ClusterName=prod\nIamPath=/team/\nExtraNodeRoleArns=arn:aws:iam::1:role/gpu\nZonalShift=true\n"
        );
    }

    #[tokio::test]
    async fn parameters_ask_no_account_for_what_arguments_say() {
        for (flags, expected) in [
            (&[][..], "ClusterName=prod\n"),
            (&["--node-role-name", "nodes"], "ClusterName=prod\nNodeRoleName=nodes\n"),
            (
                &["--identity", "irsa", "--oidc-issuer", "https://issuer.invalid/id/A"],
                "ClusterName=prod\nControllerIdentity=IRSA\nOidcIssuer=issuer.invalid/id/A\n",
            ),
        ] {
            let words = [&["cloudformation-parameters", "--cluster-name", "prod"], flags].concat();
            assert_eq!(rendered(&words).await, expected);
        }
    }

    #[tokio::test]
    async fn what_is_asked_of_no_cluster_says_its_addresses_and_names() {
        let flags = ["--policy-suffix", "prod-eu", "--ip-family", "ipv6"];
        assert_eq!(
            rendered_for("cloudformation-parameters", &flags).await,
            "ClusterName=prod\nClusterIpFamily=ipv6\nPolicySuffix=prod-eu\n"
        );
        let text = rendered_for("iam-json", &flags).await;
        for name in ["KarpenterIntegration-prod-eu", "policy/AmazonEKS_CNI_IPv6_Policy"] {
            assert!(text.contains(name), "no `{name}` in\n{text}");
        }
    }

    #[tokio::test]
    async fn terraforms_documents_are_printed_or_written_and_are_the_committed_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(rendered(&["terraform-policies", "--directory", path]).await, "");
        let printed = rendered(&["terraform-policies"]).await;
        let committed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../terraform/generated"));
        let mut count = 0;
        for entry in std::fs::read_dir(committed).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let content = std::fs::read_to_string(entry.path()).unwrap();
            assert_eq!(std::fs::read_to_string(folder.path().join(&name)).unwrap(), content, "{name}");
            assert!(printed.contains(&format!("# {name}\n{content}\n")), "{name}");
            count += 1;
        }
        assert_eq!(count, std::fs::read_dir(folder.path()).unwrap().count());
    }

    #[tokio::test]
    async fn documents_of_one_cluster_are_one_object() {
        let text = rendered_for("iam-json", &["--queue-kms-key", "arn:aws:kms:eu-west-1:1:key/k"]).await;
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["policies", "roles", "queue", "rules", "accessEntries"]);
        assert!(value["queue"]["prod"]["keyPolicyStatement"].is_object(), "{text}");
    }

    #[tokio::test]
    async fn eksctls_configuration_names_cluster_and_region() {
        let text = rendered_for("eksctl", &["--windows"]).await;
        for part in ["kind: ClusterConfig\n", "  name: prod\n  region: eu-west-1\n", "type: EC2_WINDOWS\n"] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
    }
}
