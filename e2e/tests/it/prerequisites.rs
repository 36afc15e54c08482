//! Three ways to the same account: `karpenter bootstrap apply`, the CloudFormation template, the Terraform module.
//!
//! Each is carried out in a fresh emulated account, and what exists afterwards is read through another client and
//! compared. What a tool cannot do is named in [`inventory`] and left out there, nowhere else.

mod cloudformation;
mod inventory;
mod submodule;
mod terraform;

use std::sync::Arc;

use anyhow::{Result, ensure};
use karpenter_aws_api::Tags;
use karpenter_aws_api::iam::{Iam, RoleSpec};
use karpenter_aws_sdk as sdk;
use karpenter_e2e::account::control::Seeded;
use karpenter_e2e::account::moto::{MotoAccount, Options};
use karpenter_e2e::command_line::{self, AwsEnvironment};

const REGION: &str = "us-west-2";

/// An account with an EKS cluster and without anything for Karpenter.
struct Fresh {
    account: MotoAccount,
    environment: AwsEnvironment,
}

impl Fresh {
    async fn start(cluster: &str) -> Result<Self> {
        let options =
            Options { cluster: Some(cluster.to_owned()), region: REGION.to_owned(), ..Options::default() };
        let account = MotoAccount::start(options).await?;
        let environment = AwsEnvironment {
            endpoint: account.endpoint().to_owned(),
            region: REGION.to_owned(),
            cluster: cluster.to_owned(),
        };
        Ok(Self { account, environment })
    }

    /// Replaces the content of the account by this cluster.
    async fn renew(&mut self, cluster: &str) -> Result<Seeded> {
        cluster.clone_into(&mut self.environment.cluster);
        self.account.control().renew(cluster, REGION, &Options::default().kubernetes).await
    }

    /// Returns the account as `karpenter bootstrap apply` makes it with these roles and flags.
    async fn reference(&self, roles: &[&str], flags: &[&str]) -> Result<inventory::Inventory> {
        self.make_roles(roles).await?;
        self.bootstrap(&[&["apply"], flags].concat(), 0).await?;
        self.inventory().await
    }

    /// Runs `karpenter bootstrap` to its end and expects this exit code.
    async fn bootstrap(&self, arguments: &[&str], code: i32) -> Result<String> {
        let arguments: Vec<&str> = ["bootstrap"].iter().chain(arguments).copied().collect();
        let (found, text) = command_line::run(&self.environment, &arguments).await?;
        ensure!(found == code, "`karpenter {}` ended with {found}:\n{text}", arguments.join(" "));
        Ok(text)
    }

    /// A client that belongs to none of the three ways.
    async fn iam(&self) -> Result<Arc<dyn Iam>> {
        let config = sdk::Config {
            region: Some(self.environment.region.clone()),
            endpoint_url: Some(self.environment.endpoint.clone()),
            credentials: sdk::Credentials::Emulator,
            ..sdk::Config::default()
        };
        Ok(sdk::connect(config).await?.iam)
    }

    /// Roles that are managed elsewhere; nodes that have one are to join.
    async fn make_roles(&self, names: &[&str]) -> Result<()> {
        let iam = self.iam().await?;
        for name in names {
            let role = RoleSpec {
                name: (*name).to_owned(),
                path: "/".to_owned(),
                description: String::new(),
                trust: r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#.to_owned(),
                permissions_boundary: None,
                tags: Tags::new(),
            };
            iam.create_role(&role).await?;
        }
        Ok(())
    }

    async fn inventory(&self) -> Result<inventory::Inventory> {
        inventory::read(&self.environment).await
    }
}
