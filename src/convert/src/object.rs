//! One object of the input: which kind it is, what is made of it, and what is passed on.

use k8s_openapi::Resource as _;
use karpenter_api::{EC2NodeClass, Ec2NodeClassSpec, NodeClaim, NodeClaimSpec, NodePool};
use serde_json::{Value, json};

use crate::Options;
use crate::fields::{Fields, Found};
use crate::kind::claim;
use crate::kind::class;
use crate::kind::pool::{self, Pool};
use crate::log::{Kind, Log};
use crate::metadata::Metadata;
use crate::validate;
use crate::workload;
use karpenter_api::yaml::Node;

/// Object of v1 made from one of an older version.
pub(crate) enum Made {
    Pool { metadata: Metadata, pool: Box<Pool> },
    Class { metadata: Metadata, spec: Box<Ec2NodeClassSpec> },
    Claim { metadata: Metadata, spec: Box<NodeClaimSpec> },
}

/// Result of the conversion of an object of the input.
pub(crate) enum Outcome {
    /// Converted; nothing when it was refused.
    Made(Vec<Made>),
    /// Passed on as it is written.
    AsIs,
    /// Object of another kind, with names of today.
    Rewritten(Value),
}

/// Kinds of older versions that are converted.
#[derive(Clone, Copy)]
enum Old {
    Provisioner,
    Template,
    Machine,
    Pool,
    Class,
    Claim,
}

impl Made {
    /// The object as an API server takes it.
    pub(crate) fn object(&self) -> Value {
        match self {
            Self::Pool { metadata, pool } => {
                metadata.object(NodePool::API_VERSION, NodePool::KIND, &json!(pool.spec))
            }
            Self::Class { metadata, spec } => {
                metadata.object(EC2NodeClass::API_VERSION, EC2NodeClass::KIND, &json!(spec))
            }
            Self::Claim { metadata, spec } => {
                metadata.object(NodeClaim::API_VERSION, NodeClaim::KIND, &json!(spec))
            }
        }
    }
}

/// Kind and name, for the report.
pub(crate) fn title(node: &Node) -> String {
    let text = |node: Option<&Node>| node.and_then(Node::text).unwrap_or("?").to_owned();
    format!(
        "{}/{}",
        text(node.get("kind")),
        text(node.get("metadata").and_then(|metadata| metadata.get("name")))
    )
}

/// The name of the class that the object is or will be, to keep names apart.
pub(crate) fn class_name(node: &Node) -> Option<&str> {
    let kind = node.get("kind").and_then(Node::text)?;
    let is_class = kind == "AWSNodeTemplate" || kind == EC2NodeClass::KIND;
    is_class.then(|| node.get("metadata")?.get("name")?.text()).flatten()
}

/// Converts an object. `taken` says which names of classes other objects have.
pub(crate) fn convert(node: &Node, taken: &dyn Fn(&str) -> bool, options: &Options, log: &Log) -> Outcome {
    let text = |name: &str| node.get(name).and_then(Node::text).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let Some((group, version)) = version.split_once('/') else { return other(node, log) };
    let old = match (group, version, kind) {
        ("karpenter.sh", "v1alpha5", "Provisioner") => Old::Provisioner,
        ("karpenter.sh", "v1alpha5", "Machine") => Old::Machine,
        ("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate") => Old::Template,
        ("karpenter.sh", "v1beta1", "NodePool") => Old::Pool,
        ("karpenter.sh", "v1beta1", "NodeClaim") => Old::Claim,
        ("karpenter.k8s.aws", "v1beta1", "EC2NodeClass") => Old::Class,
        ("karpenter.sh" | "karpenter.k8s.aws", "v1", _) => {
            for problem in validate::problems(&node.to_value()) {
                log.say(
                    Kind::Decide,
                    "",
                    format!("is v1 already, and an API server would refuse it: {problem}"),
                );
            }
            return Outcome::AsIs;
        }
        (_, _, "Provisioner" | "AWSNodeTemplate" | "Machine" | "NodePool" | "EC2NodeClass" | "NodeClaim")
            if group.contains("karpenter") =>
        {
            let text = format!("`{group}/{version}` is not known; write it as v1alpha5 or v1beta1 first");
            log.at(Kind::Refused, "apiVersion", node.line, text);
            return Outcome::Made(Vec::new());
        }
        _ => return other(node, log),
    };
    let made = old_object(node, old, taken, options, log);
    Outcome::Made(if log.is_refused() { Vec::new() } else { made })
}

fn old_object(
    node: &Node,
    old: Old,
    taken: &dyn Fn(&str) -> bool,
    options: &Options,
    log: &Log,
) -> Vec<Made> {
    let whole = Found { path: String::new(), line: node.line, value: node.clone() };
    let mut object = Fields::of(whole, log);
    object.take("apiVersion");
    object.take("kind");
    let metadata = Metadata::read(&mut object, log);
    if object.take("status").is_some() {
        log.say(Kind::Noted, "status", "left out: the controller writes it again");
    }
    let spec = object.section("spec");
    object.finish();
    let Some(spec) = spec else {
        log.say(Kind::Refused, "spec", "is missing; there is nothing to convert");
        return Vec::new();
    };
    match old {
        Old::Provisioner => {
            let inline = if taken(&metadata.name) {
                format!("{}-inline", metadata.name)
            } else {
                metadata.name.clone()
            };
            let pool = pool::from_alpha(spec, &inline, log);
            let provider = pool.provider.clone();
            let mut made = vec![Made::Pool { metadata: metadata.clone(), pool: Box::new(pool) }];
            if let Some(provider) = provider {
                let fields = Fields::of(provider, log);
                let spec = class::from_alpha(fields, "spec.provider", options, log);
                made.extend(spec.map(|spec| {
                    let metadata = Metadata::default().renamed(&inline);
                    Made::Class { metadata, spec: Box::new(spec) }
                }));
            }
            made
        }
        Old::Pool => vec![Made::Pool { metadata, pool: Box::new(pool::from_beta(spec, log)) }],
        Old::Template => made_class(metadata, class::from_alpha(spec, "spec", options, log)),
        Old::Class => made_class(metadata, class::from_beta(spec, options, log)),
        Old::Machine => {
            vec![Made::Claim { metadata, spec: Box::new(claim::from_old(spec, "machineTemplateRef", log)) }]
        }
        Old::Claim => {
            vec![Made::Claim { metadata, spec: Box::new(claim::from_old(spec, "nodeClassRef", log)) }]
        }
    }
}

fn made_class(metadata: Metadata, spec: Option<Ec2NodeClassSpec>) -> Vec<Made> {
    spec.map(|spec| Made::Class { metadata, spec: Box::new(spec) }).into_iter().collect()
}

/// An object of another kind: its pods may select nodes by names of older versions.
fn other(node: &Node, log: &Log) -> Outcome {
    let object = node.to_value();
    if object["kind"] == "ConfigMap" && object["metadata"]["name"] == "karpenter-global-settings" {
        let text = "settings are values of the chart in v1: write them as values and use `--helm-values`";
        log.say(Kind::Decide, "", text);
    }
    let rewritten = workload::rewrite(&object);
    if rewritten.changes.is_empty() {
        return Outcome::AsIs;
    }
    for (path, text) in rewritten.changes {
        log.say(Kind::Mapped, &path, text);
    }
    Outcome::Rewritten(rewritten.object)
}
