//! Amazon Linux 2023: a nodeadm `NodeConfig`, last part of a MIME archive (spec aws-provider 6.8).
//!
//! nodeadm merges the documents it finds and later ones win, so ours is last: a `NodeClass` may add settings
//! but cannot make the node join another cluster or register without its taints. It reads one document of a part, so
//! each document of the user is a part of its own.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::mime::{self, Part};
use super::{Bootstrap, Error, cloud_init, kubelet};

const NODE_CONFIG: &str = "application/node.eks.aws";

/// Renders the archive.
///
/// # Errors
/// When custom user data is malformed MIME, nothing on the node would read it, or the CA bundle is not base64.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut parts = parts(bootstrap.custom.as_deref())?;
    parts.push(Part::new(NODE_CONFIG, node_config(bootstrap)?));
    Ok(mime::write(&parts))
}

/// Returns each `NodeConfig` of the user in the order in which nodeadm merges them; none of user data that is refused.
pub(super) fn node_configs(custom: &str) -> Vec<Value> {
    let parts = parts(Some(custom)).unwrap_or_default();
    let configs = parts.iter().filter(|part| part.media_type() == NODE_CONFIG);
    configs.filter_map(|part| first_document(&part.body)?.ok()).collect()
}

/// The parts of the user.
pub(super) fn parts(custom: Option<&str>) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    for part in cloud_init::parts(custom, own)? {
        let part = plain(part)?;
        if part.media_type() != NODE_CONFIG {
            parts.push(part);
            continue;
        }
        let documents = documents(&part.body);
        for (index, document) in documents.iter().enumerate() {
            check(document).map_err(|why| {
                let which =
                    if documents.len() > 1 { format!("document {} of ", index + 1) } else { String::new() };
                Error::Unread(format!("{which}a part of type `{NODE_CONFIG}` {why}"))
            })?;
            parts.push(Part { headers: part.headers.clone(), body: (*document).to_owned() });
        }
    }
    Ok(parts)
}

/// Returns a part with only those headers that nodeadm and cloud-init act upon.
fn plain(part: Part) -> Result<Part, Error> {
    if part.is_binary() && part.media_type() == NODE_CONFIG {
        let why = "a part of type `application/node.eks.aws` is no text, and nodeadm reads text only";
        return Err(Error::Unread(why.to_owned()));
    }
    let mut kept = Part::new(part.content_type(), String::new());
    let acted_upon = |(name, _): &(String, String)| {
        ["content-transfer-encoding", "merge-type", "x-merge-type"]
            .contains(&name.to_ascii_lowercase().as_str())
    };
    kept.headers.extend(part.headers.into_iter().filter(acted_upon));
    Ok(Part { body: part.body, ..kept })
}

/// A `NodeConfig` is for nodeadm. Other YAML without a first line that names its kind has no reader: sent as a
/// `NodeConfig`, it would keep the node from joining.
fn own(text: &str) -> Result<Option<&'static str>, Error> {
    match first_document(text) {
        Some(Ok(document)) if names_node_config(&document) => Ok(Some(NODE_CONFIG)),
        Some(Ok(document)) if document.is_object() => {
            let why = "it is YAML, but no NodeConfig, and has no first line that says of what kind; begin it with \
                       `#cloud-config`, or set apiVersion `node.eks.aws/v1alpha1` and kind `NodeConfig`";
            Err(Error::Unread(why.to_owned()))
        }
        Some(Err(error)) if begins_like_node_config(text) => {
            Err(Error::Unread(format!("it begins like a NodeConfig and is no YAML: {error}")))
        }
        _ => Ok(None),
    }
}

fn names_node_config(document: &Value) -> bool {
    let text = |key: &str| document[key].as_str().unwrap_or_default();
    text("kind") == "NodeConfig" || text("apiVersion").starts_with("node.eks.aws/")
}

/// Returns whether a text is a `NodeConfig`, whatever family it is given to.
pub(super) fn is_node_config(text: &str) -> bool {
    first_document(text).is_some_and(|document| document.is_ok_and(|document| names_node_config(&document)))
}

/// Returns whether a text that is no YAML was meant to be a `NodeConfig`: a script has no such first line.
fn begins_like_node_config(text: &str) -> bool {
    let first = text.lines().find(|line| !is_blank(line)).unwrap_or_default();
    ["apiVersion:", "kind:", "{"].iter().any(|start| first.starts_with(start))
        && text.contains("node.eks.aws/")
}

/// nodeadm ends with an error, and the node does not join, at a document that it cannot decode.
fn check(document: &str) -> Result<(), String> {
    let value = match first_document(document) {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(format!("is no YAML: {error}")),
        None => Value::Null,
    };
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (version, "NodeConfig") if version.starts_with("node.eks.aws/") => Ok(()),
        (version, kind) => Err(format!(
            "has the apiVersion `{version}` and the kind `{kind}`; set apiVersion `node.eks.aws/v1alpha1` and kind \
             `NodeConfig`"
        )),
    }
}

/// Returns whether a text is a YAML (or JSON) mapping.
pub(super) fn is_mapping(text: &str) -> bool {
    first_document(text).is_some_and(|document| document.is_ok_and(|document| document.is_object()))
}

/// The first YAML document of a text; keys may be given twice, as nodeadm's own reader has it.
pub(super) fn first_document(text: &str) -> Option<Result<Value, String>> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins, with_snippet: false
    };
    let mut bytes = documents(text).first()?.as_bytes();
    let document = serde_saphyr::read_with_options::<_, Value>(&mut bytes, options).next()?;
    Some(document.map_err(|error| error.to_string()))
}

/// The documents of a text that have more than comments, each with what stands before it. Only a marker begins a line
/// with three hyphens in YAML.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut at, mut filled) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let marks = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marks && filled {
            documents.extend(text.get(start..at));
            (start, filled) = (at, false);
        }
        filled |= !is_blank(line);
        at += line.len();
    }
    if filled {
        documents.extend(text.get(start..));
    }
    documents
}

/// Returns whether a line has no content of a document: nothing, a comment, a directive or a bare marker.
fn is_blank(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim();
    line.is_empty() || line == "..." || line.starts_with(['#', '%'])
}

fn node_config(bootstrap: &Bootstrap) -> Result<String, Error> {
    if let Some(ca) = &bootstrap.ca_bundle {
        // Checked here, because a node would find out at boot only (spec aws-provider 6.8).
        STANDARD.decode(ca).map_err(|error| Error::CaBundle(error.to_string()))?;
    }
    let mut cluster = Map::new();
    cluster.insert("apiServerEndpoint".to_owned(), json!(bootstrap.cluster_endpoint));
    if let Some(ca) = &bootstrap.ca_bundle {
        cluster.insert("certificateAuthority".to_owned(), json!(ca));
    }
    if let Some(cidr) = &bootstrap.cluster_cidr {
        cluster.insert("cidr".to_owned(), json!(cidr));
    }
    cluster.insert("name".to_owned(), json!(bootstrap.cluster_name));
    let storage = if bootstrap.raid0 { json!({"strategy": "RAID0"}) } else { json!({}) };
    let mut kubelet = Map::new();
    kubelet.insert("config".to_owned(), kubelet_config(bootstrap)?);
    if let Some(labels) = kubelet::node_labels(&bootstrap.labels) {
        kubelet.insert("flags".to_owned(), json!([format!("--node-labels=\"{labels}\"")]));
    }
    // Empty fields are written, too, so that the document is that of the reference (spec aws-provider 6.8).
    let document = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": cluster,
            "containerd": {},
            "instance": {"localStorage": storage},
            "kubelet": kubelet,
        },
    });
    // Labels may be long; a folded scalar would be valid too, but cannot be grepped for.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let yaml = serde_saphyr::to_string_with_options(&document, options)
        .map_err(|error| Error::Encode { format: "YAML", reason: error.to_string() })?;
    let lines =
        yaml.split_inclusive('\n').map(|line| unquoted_address(line).unwrap_or_else(|| line.to_owned()));
    Ok(format!("# Karpenter Generated NodeConfig\n{}", lines.collect::<String>()))
}

/// The item of a list without its quotes if it is an address, as the reference writes it: no address is a number.
fn unquoted_address(line: &str) -> Option<String> {
    let (indent, item) = line.split_once("- \"")?;
    let address = item.trim_end().strip_suffix('"')?;
    let plain = indent.trim().is_empty() && address.parse::<IpAddr>().is_ok();
    plain.then(|| format!("{indent}- {address}\n"))
}

/// Fields that come from the settings alone, in which expressions are results.
const MAY_BE_EXPRESSIONS: [&str; 3] = ["kubeReserved", "maxPods", "systemReserved"];

/// The kubelet block as the kubelet's own configuration file names it, with keys sorted.
fn kubelet_config(bootstrap: &Bootstrap) -> Result<Value, Error> {
    let encoded = serde_json::to_value(&bootstrap.kubelet)
        .map_err(|error| Error::Encode { format: "YAML", reason: error.to_string() })?;
    let mut config = bootstrap.block.fields().clone();
    // The text of an expression is not what a kubelet reads; its result comes with the settings below.
    config.retain(|field, value| !value.is_null() && !MAY_BE_EXPRESSIONS.contains(&field.as_str()));
    if let Value::Object(fields) = encoded {
        config.extend(fields);
    }
    let taints: Vec<Value> = bootstrap
        .taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => json!({"effect": taint.effect, "key": taint.key}),
            value => json!({"effect": taint.effect, "key": taint.key, "value": value}),
        })
        .collect();
    config.insert("registerWithTaints".to_owned(), Value::Array(taints));
    let mut config = Value::Object(config);
    config.sort_all_objects();
    Ok(config)
}
