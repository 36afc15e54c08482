//! What `terraform output -json` says about a module that was applied.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::flags::bootstrap::{BootstrapFlags, IdentityKind, TrustKind};

/// Outputs by name.
pub(super) struct Outputs(BTreeMap<String, Value>);

#[derive(Deserialize)]
struct Output {
    value: Value,
}

/// Reads the outputs in `file`; `-` is standard input.
pub(super) fn read(file: &str) -> Result<Outputs> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{file}`"))?;
    }
    parse(&text).with_context(|| format!("`{file}` is not what `terraform output -json` prints"))
}

fn parse(text: &str) -> Result<Outputs> {
    let outputs: BTreeMap<String, Output> = serde_json::from_str(text)?;
    // A root module that passes the whole module on has one output with an object in it.
    let nested = outputs.values().find_map(|output| output.value.get("cluster_name").map(|_| &output.value));
    if let Some(Value::Object(fields)) = nested {
        return Ok(Outputs(fields.clone().into_iter().collect()));
    }
    Ok(Outputs(outputs.into_iter().map(|(name, output)| (name, output.value)).collect()))
}

impl Outputs {
    /// Puts every name the module chose where a flag would have put it.
    pub(super) fn fill(&self, flags: &mut BootstrapFlags) -> Result<()> {
        let text = |name: &str| self.0.get(name).and_then(Value::as_str).map(str::to_owned);
        let cluster = text("cluster_name").context("the outputs have no `cluster_name`")?;
        flags.cluster_name = Some(cluster);
        flags.region = text("region").or(flags.region.take());
        flags.node_role_arn = text("node_role_arn").or(flags.node_role_arn.take());
        flags.controller_role_name = text("controller_role_name").or(flags.controller_role_name.take());
        flags.policy_suffix = text("policy_suffix").or(flags.policy_suffix.take());
        flags.queue_name = text("queue_name").or(flags.queue_name.take());
        flags.instance_profile_name = text("instance_profile_name").or(flags.instance_profile_name.take());
        flags.windows_node_role_name = text("windows_node_role_name").or(flags.windows_node_role_name.take());
        flags.windows = flags.windows || flags.windows_node_role_name.is_some();
        flags.namespace = text("namespace").unwrap_or_else(|| flags.namespace.clone());
        flags.service_account = text("service_account").unwrap_or_else(|| flags.service_account.clone());
        flags.iam_path = text("iam_path").unwrap_or_else(|| flags.iam_path.clone());
        // A module that made none says so; one of an earlier version says nothing.
        flags.no_access_entry |= self.0.get("access_entry").and_then(Value::as_bool) == Some(false);
        match text("pod_identity_trust").as_deref() {
            Some("session-tags") => flags.pod_identity_trust = TrustKind::SessionTags,
            Some("cluster-arn") => flags.pod_identity_trust = TrustKind::ClusterArn,
            _ => {}
        }
        match text("identity").as_deref() {
            Some("irsa") => flags.identity = IdentityKind::Irsa,
            Some("none") => flags.identity = IdentityKind::None,
            Some("pod-identity") => flags.identity = IdentityKind::PodIdentity,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: BootstrapFlags,
    }

    #[test]
    fn names_come_from_outputs_at_the_root_or_in_one_object() {
        let root = r#"{"cluster_name":{"value":"prod"},"queue_name":{"value":"q"},"identity":{"value":"irsa"},"windows_node_role_name":{"value":null}}"#;
        let nested = r#"{"karpenter":{"sensitive":false,"value":{"cluster_name":"prod","queue_name":"q","identity":"irsa"}}}"#;
        for text in [root, nested] {
            let mut flags = Cli::parse_from(["bootstrap"]).flags;
            parse(text).unwrap().fill(&mut flags).unwrap();
            assert_eq!(flags.cluster_name.as_deref(), Some("prod"), "{text}");
            assert_eq!(flags.queue_name.as_deref(), Some("q"), "{text}");
            assert_eq!(flags.identity, IdentityKind::Irsa, "{text}");
            assert!(!flags.windows, "{text}");
        }
    }

    /// The form of what `terraform output -json` prints for a root module that passes the whole module on:
    /// `sensitive`, `type` and `value`, with lists and objects among the outputs.
    const PRINTED: &str = r#"{
  "karpenter": {
    "sensitive": false,
    "type": ["object", {"chart_values": ["object", {"settings": ["object", {"clusterName": "string"}]}],
      "cluster_name": "string", "controller_policy_arns": ["list", "string"], "controller_role_arn": "string",
      "controller_role_name": "string", "iam_path": "string", "identity": "string",
      "instance_profile_name": "string", "namespace": "string", "node_role_arn": "string",
      "node_role_name": "string", "policy_suffix": "string", "queue_arn": "string", "queue_name": "string", "queue_url": "string",
      "region": "string", "service_account": "string", "windows_node_role_name": "string"}],
    "value": {
      "chart_values": {"settings": {"clusterName": "prod"}},
      "cluster_name": "prod",
      "controller_policy_arns": ["arn:aws:iam::123456789012:policy/platform/KarpenterIntegration-prod"],
      "controller_role_arn": "arn:aws:iam::123456789012:role/platform/prod-karpenter",
      "controller_role_name": "prod-karpenter",
      "iam_path": "/platform/",
      "identity": "pod-identity",
      "instance_profile_name": "KarpenterNodeInstanceProfile-prod",
      "namespace": "karpenter",
      "node_role_arn": "arn:aws:iam::123456789012:role/platform/KarpenterNodeRole-prod",
      "node_role_name": "KarpenterNodeRole-prod",
      "policy_suffix": "prod-eu",
      "queue_arn": "arn:aws:sqs:eu-west-1:123456789012:interruptions",
      "queue_name": "interruptions",
      "queue_url": "https://sqs.eu-west-1.amazonaws.com/123456789012/interruptions",
      "region": "eu-west-1",
      "service_account": "karpenter",
      "windows_node_role_name": "KarpenterWindowsNodeRole-prod"
    }
  }
}"#;

    #[test]
    fn every_name_the_module_chose_becomes_a_setting() {
        let mut flags = Cli::parse_from(["bootstrap"]).flags;
        parse(PRINTED).unwrap().fill(&mut flags).unwrap();
        let settings = flags.settings("123456789012", flags.region.as_deref().unwrap(), None).unwrap();
        assert_eq!((settings.cluster.as_str(), settings.region.as_str()), ("prod", "eu-west-1"));
        assert_eq!(settings.queue(), "interruptions");
        assert_eq!(settings.policy_suffix(), "prod-eu");
        assert_eq!(settings.controller_role_arn(), "arn:aws:iam::123456789012:role/platform/prod-karpenter");
        assert_eq!(
            settings.node_role_arn(),
            "arn:aws:iam::123456789012:role/platform/KarpenterNodeRole-prod"
        );
        assert_eq!(settings.windows_node_role(), "KarpenterWindowsNodeRole-prod");
        assert!(settings.windows && settings.namespace == "karpenter");
        assert_eq!(settings.instance_profile(), "KarpenterNodeInstanceProfile-prod");
    }

    #[test]
    fn outputs_of_something_else_are_refused() {
        let mut flags = Cli::parse_from(["bootstrap"]).flags;
        let error = parse(r#"{"vpc":{"value":"vpc-1"}}"#).unwrap().fill(&mut flags).unwrap_err();
        assert_eq!(error.to_string(), "the outputs have no `cluster_name`");
        assert!(parse("[]").is_err());
    }
}
