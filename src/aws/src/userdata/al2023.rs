//! Amazon Linux 2023: a nodeadm `NodeConfig`, last part of a MIME archive (spec aws-provider 6.8).
//!
//! nodeadm merges the documents it finds and later ones win, so ours is last: a `NodeClass` may add settings
//! but cannot make the node join another cluster or register without its taints.

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
    let parts = cloud_init::parts(bootstrap.custom.as_deref(), own)?.into_iter();
    let mut parts = parts.map(plain).collect::<Result<Vec<_>, _>>()?;
    parts.push(Part::new(NODE_CONFIG, node_config(bootstrap)?));
    Ok(mime::write(&parts))
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
        Some(document) if is_node_config(&document) => Ok(Some(NODE_CONFIG)),
        Some(document) if document.is_object() => {
            let why = "it is YAML, but no NodeConfig, and has no first line that says of what kind; begin it with \
                       `#cloud-config`, or set apiVersion `node.eks.aws/v1alpha1` and kind `NodeConfig`";
            Err(Error::Unread(why.to_owned()))
        }
        _ => Ok(None),
    }
}

fn is_node_config(document: &Value) -> bool {
    let text = |key: &str| document[key].as_str().unwrap_or_default();
    text("kind") == "NodeConfig" || text("apiVersion").starts_with("node.eks.aws/")
}

/// Returns whether a text is a YAML (or JSON) mapping.
pub(super) fn is_mapping(text: &str) -> bool {
    first_document(text).is_some_and(|document| document.is_object())
}

/// The first YAML document of a text; keys may be given twice, as nodeadm's own reader has it.
fn first_document(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let mut bytes = text.as_bytes();
    serde_saphyr::read_with_options::<_, Value>(&mut bytes, options).next()?.ok()
}

fn node_config(bootstrap: &Bootstrap) -> Result<String, Error> {
    if let Some(ca) = &bootstrap.ca_bundle {
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
    Ok(format!("# Karpenter Generated NodeConfig\n{yaml}"))
}

/// Fields that come from the settings alone, in which expressions are results.
const MAY_BE_EXPRESSIONS: [&str; 3] = ["kubeReserved", "maxPods", "systemReserved"];

/// The kubelet block as the kubelet's own configuration file names it, with keys sorted.
fn kubelet_config(bootstrap: &Bootstrap) -> Result<Value, Error> {
    let encoded = serde_json::to_value(&bootstrap.kubelet)
        .map_err(|error| Error::Encode { format: "YAML", reason: error.to_string() })?;
    let mut config = bootstrap.block.fields().clone();
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
