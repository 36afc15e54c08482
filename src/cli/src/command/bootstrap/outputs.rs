//! Outputs of an applied module, from `terraform output -json`.
//!
//! A flag that is given wins over the output of its name. Only outputs for another cluster or region than the given one are
//! refused: none of their names would belong to that cluster.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::given::Given;
use crate::flags::bootstrap::BootstrapFlags;

/// Outputs of the root module by name.
pub(super) struct Outputs(Map<String, Value>);

#[derive(Deserialize)]
struct Output {
    value: Value,
}

/// Outputs of one module, for flags that were not given.
struct Module<'a> {
    outputs: &'a Map<String, Value>,
    given: &'a Given,
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
    Ok(Outputs(outputs.into_iter().map(|(name, output)| (name, output.value)).collect()))
}

impl Outputs {
    /// The flags, and where none was given what the module chose.
    pub(super) fn fill(&self, given: &Given) -> Result<BootstrapFlags> {
        let module = self.module(given)?;
        let mut flags = given.flags.clone();
        module.is_of("cluster_name", flags.cluster_name.as_deref())?;
        module.is_of("region", flags.region.as_deref())?;
        for (flag, name) in [
            (&mut flags.cluster_name, "cluster_name"),
            (&mut flags.region, "region"),
            (&mut flags.controller_role_name, "controller_role_name"),
            (&mut flags.policy_suffix, "policy_suffix"),
            (&mut flags.queue_name, "queue_name"),
            (&mut flags.instance_profile_name, "instance_profile_name"),
            (&mut flags.windows_node_role_name, "windows_node_role_name"),
        ] {
            *flag = module.text(name)?.or(flag.take());
        }
        // A node role that is given by its name is given.
        if !given.has("node_role_name") {
            flags.node_role_arn = module.text("node_role_arn")?.or(flags.node_role_arn.take());
        }
        for (flag, name) in [
            (&mut flags.namespace, "namespace"),
            (&mut flags.service_account, "service_account"),
            (&mut flags.iam_path, "iam_path"),
        ] {
            *flag = module.text(name)?.unwrap_or_else(|| flag.clone());
        }
        flags.windows |= flags.windows_node_role_name.is_some();
        // A module that made none says so; one of an earlier version says nothing.
        flags.no_access_entry |= module.fact("access_entry")? == Some(false);
        let hint = "say with --pod-identity-trust which it is";
        flags.pod_identity_trust =
            module.choice("pod_identity_trust", hint)?.unwrap_or(flags.pod_identity_trust);
        let hint = "say with --identity how the controller gets its credentials, and with --controller-role-name which \
                    role it has if the module did not make it";
        flags.identity = module.choice("identity", hint)?.unwrap_or(flags.identity);
        Ok(flags)
    }

    /// The outputs of our module: those of the root, or an output that passes the whole module on. Other modules name a
    /// cluster too, but no queue.
    fn module<'a>(&'a self, given: &'a Given) -> Result<Module<'a>> {
        let is_ours = |fields: &&Map<String, Value>| {
            ["cluster_name", "queue_name"].iter().all(|name| fields.contains_key(*name))
        };
        let passed_on: Vec<_> = self.0.values().filter_map(Value::as_object).filter(is_ours).collect();
        let outputs = match passed_on.as_slice() {
            [] => &self.0,
            [one] => *one,
            several => of_cluster(several, given.flags.cluster_name.as_deref())?,
        };
        let module = Module { outputs, given };
        let whole =
            "give the outputs of the whole module, as `output \"karpenter\" { value = module.karpenter }`";
        ensure!(module.output("cluster_name").is_some(), "the outputs have no `cluster_name`; {whole}");
        Ok(module)
    }
}

impl Module<'_> {
    /// Refuses outputs of another cluster or region than the given one.
    fn is_of(&self, name: &str, flag: Option<&str>) -> Result<()> {
        let recorded = self.output(name).and_then(Value::as_str);
        if let Some((flag, recorded)) = flag.filter(|_| self.given.has(name)).zip(recorded) {
            let spelled = name.replace('_', "-");
            ensure!(
                flag == recorded,
                "--{spelled} is `{flag}` and the outputs are of `{recorded}`; give the outputs of `{flag}`, or leave the \
                 flag and its environment variable out"
            );
        }
        Ok(())
    }

    /// Returns the output for the flag of this name; `None` if the flag was given.
    fn text(&self, name: &str) -> Result<Option<String>> {
        let output = self.output(name).filter(|_| !self.given.has(name));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        output.map(|value| text(value).with_context(|| unexpected(name, value, "a text"))).transpose()
    }

    /// Returns the output for a flag that takes one of some values.
    fn choice<T: ValueEnum>(&self, name: &str, hint: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let Ok(chosen) = T::from_str(&text, false) else {
            let allowed = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let allowed: Vec<_> = allowed.map(|value| format!("`{}`", value.get_name())).collect();
            bail!("output `{name}` is `{text}`, expected one of {}; {hint}", allowed.join(", "))
        };
        Ok(Some(chosen))
    }

    fn fact(&self, name: &str) -> Result<Option<bool>> {
        let fact = |value: &Value| value.as_bool().with_context(|| unexpected(name, value, "true or false"));
        self.output(name).map(fact).transpose()
    }

    /// An output that is there: what the module did not make is null.
    fn output(&self, name: &str) -> Option<&Value> {
        self.outputs.get(name).filter(|value| !value.is_null())
    }
}

/// Of several modules the one of the cluster.
fn of_cluster<'a>(
    modules: &[&'a Map<String, Value>],
    cluster: Option<&str>,
) -> Result<&'a Map<String, Value>> {
    let named = |fields: &Map<String, Value>| fields["cluster_name"].as_str().map(str::to_owned);
    let found: Vec<_> = modules.iter().filter(|fields| named(fields).as_deref() == cluster).collect();
    if let [one] = found.as_slice() {
        return Ok(one);
    }
    let clusters = modules.iter().filter_map(|fields| named(fields));
    let clusters: Vec<_> = clusters.map(|name| format!("`{name}`")).collect();
    bail!("the outputs are of clusters {}; choose one with --cluster-name", clusters.join(", "))
}

fn unexpected(name: &str, value: &Value, expected: &str) -> String {
    format!("output `{name}` is `{value}`, expected {expected}; give the outputs as Terraform printed them")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::bootstrap::{IdentityKind, TrustKind};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        given: Given,
    }

    #[test]
    fn names_come_from_outputs_at_the_root_or_in_one_object() {
        let root = r#"{"cluster_name":{"value":"prod"},"queue_name":{"value":"q"},"identity":{"value":"irsa"},"windows_node_role_name":{"value":null}}"#;
        let nested = r#"{"karpenter":{"sensitive":false,"value":{"cluster_name":"prod","queue_name":"q","identity":"irsa"}}}"#;
        for text in [root, nested] {
            let flags = filled(&[], text).unwrap();
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
        let flags = filled(&[], PRINTED).unwrap();
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

    /// The flags of these words, filled in from what Terraform printed.
    fn filled(words: &[&str], text: &str) -> Result<BootstrapFlags> {
        parse(text)?.fill(&Cli::parse_from(["bootstrap"].iter().chain(words)).given)
    }

    #[test]
    fn a_flag_that_is_given_wins_over_the_output_of_its_name() {
        let own = "arn:aws:iam::123456789012:role/own";
        let words = [
            &["--cluster-name", "prod", "--region", "eu-west-1", "--node-role-arn", own][..],
            &["--controller-role-name", "c", "--policy-suffix", "s", "--queue-name", "q"],
            &["--instance-profile-name", "i", "--windows", "--windows-node-role-name", "w"],
            &["--namespace", "kube-system", "--service-account", "a", "--iam-path", "/"],
            &["--pod-identity-trust", "cluster-arn", "--identity", "none"],
        ];
        let text = PRINTED.replace(
            r#""namespace": "karpenter""#,
            r#""pod_identity_trust": "session-tags", "namespace": "karpenter""#,
        );
        let flags = filled(&words.concat(), &text).unwrap();
        assert_eq!(flags.node_role_arn.as_deref(), Some(own));
        assert_eq!(flags.controller_role_name.as_deref(), Some("c"));
        assert_eq!(flags.policy_suffix.as_deref(), Some("s"));
        assert_eq!(flags.queue_name.as_deref(), Some("q"));
        assert_eq!(flags.instance_profile_name.as_deref(), Some("i"));
        assert_eq!(flags.windows_node_role_name.as_deref(), Some("w"));
        // Given, although each is the default: the outputs differ.
        assert_eq!((flags.namespace.as_str(), flags.iam_path.as_str()), ("kube-system", "/"));
        assert_eq!(flags.service_account, "a");
        assert_eq!((flags.identity, flags.pod_identity_trust), (IdentityKind::None, TrustKind::ClusterArn));
    }

    #[test]
    fn the_name_of_a_node_role_that_is_given_wins_over_the_arn_in_the_outputs() {
        let flags = filled(&["--node-role-name", "own"], PRINTED).unwrap();
        assert_eq!((flags.node_role_arn, flags.node_role_name.as_deref()), (None, Some("own")));
    }

    #[test]
    fn outputs_of_another_cluster_or_region_than_the_given_one_are_refused() {
        for (words, both) in [
            (["--cluster-name", "test"], ["`test`", "`prod`"]),
            (["--region", "eu-north-1"], ["`eu-north-1`", "`eu-west-1`"]),
        ] {
            let error = filled(&words, PRINTED).unwrap_err().to_string();
            assert!(error.contains(words[0]) && both.iter().all(|one| error.contains(one)), "{error}");
        }
    }

    #[test]
    fn an_identity_that_is_not_known_is_refused_with_what_is_allowed() {
        let text = |value: &str| {
            PRINTED.replace(r#""identity": "pod-identity""#, &format!(r#""identity": {value}"#))
        };
        let error = filled(&[], &text(r#""policies-only""#)).unwrap_err().to_string();
        for part in ["`identity`", "`policies-only`", "pod-identity", "irsa", "none", "--identity"] {
            assert!(error.contains(part), "no {part} in: {error}");
        }
        // A role that another module made is checked by what the flags say of it.
        let words = ["--identity", "pod-identity", "--controller-role-name", "own"];
        let flags = filled(&words, &text(r#""policies-only""#)).unwrap();
        assert_eq!(flags.identity, IdentityKind::PodIdentity);
        let error = filled(&[], &text("3")).unwrap_err().to_string();
        assert!(error.contains("`identity`") && error.contains('3'), "{error}");
        assert_eq!(filled(&[], &text("null")).unwrap().identity, IdentityKind::PodIdentity);
    }

    #[test]
    fn outputs_of_another_module_with_a_cluster_name_are_passed_over() {
        let text = |more: &str| {
            format!(r#"{{"eks":{{"value":{{"cluster_name":"prod","cluster_arn":"a"}}}},{more}}}"#)
        };
        let ours = |output: &str, cluster: &str| {
            format!(r#""{output}":{{"value":{{"cluster_name":"{cluster}","queue_name":"{output}"}}}}"#)
        };
        let flags = filled(&[], &text(&ours("karpenter", "prod"))).unwrap();
        assert_eq!(flags.queue_name.as_deref(), Some("karpenter"));
        let two = text(&format!("{},{}", ours("blue", "b"), ours("green", "g")));
        let flags = filled(&["--cluster-name", "g"], &two).unwrap();
        assert_eq!(flags.queue_name.as_deref(), Some("green"));
        let error = filled(&[], &two).unwrap_err().to_string();
        for part in ["`b`", "`g`", "--cluster-name"] {
            assert!(error.contains(part), "no {part} in: {error}");
        }
    }

    #[test]
    fn outputs_of_something_else_are_refused() {
        let error = filled(&[], r#"{"vpc":{"value":"vpc-1"}}"#).unwrap_err().to_string();
        assert!(error.starts_with("the outputs have no `cluster_name`; "), "{error}");
        assert!(parse("[]").is_err());
    }
}
