//! Amazon Linux 2023: a nodeadm `NodeConfig`, last part of a MIME archive (spec aws-provider 6.8).
//!
//! nodeadm merges the documents it finds and later ones win, so ours comes last: a `NodeClass` may add settings
//! but cannot make the node join another cluster or register without its taints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::kubelet;
use super::mime::{self, Part, SHELL_SCRIPT};
use super::{Bootstrap, Error};

const NODE_CONFIG: &str = "application/node.eks.aws";

/// Renders the archive.
///
/// # Errors
/// When custom user data is malformed MIME, or the CA bundle is not base64.
pub fn render(bootstrap: &Bootstrap) -> Result<String, Error> {
    let mut parts = custom_parts(bootstrap.custom.as_deref())?;
    parts.push(Part::new(NODE_CONFIG, node_config(bootstrap)?));
    Ok(mime::write(&parts))
}

fn custom_parts(custom: Option<&str>) -> Result<Vec<Part>, Error> {
    let Some(text) = custom.filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    if mime::is_mime(text) {
        // Only the content type of a part survives: nodeadm and cloud-init choose by it alone.
        let parts = mime::parse(text)?;
        return Ok(parts.into_iter().map(|part| Part::new(part.content_type(), part.body.clone())).collect());
    }
    let content_type = if is_mapping(text) { NODE_CONFIG } else { SHELL_SCRIPT };
    Ok(vec![Part::new(content_type, text)])
}

/// Whether a text is a YAML (or JSON) mapping: its first document counts, and keys may be given twice, as nodeadm's own
/// reader has it. A shebang is a YAML comment, so scripts are recognised first.
fn is_mapping(text: &str) -> bool {
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let mut bytes = text.as_bytes();
    let first = || serde_saphyr::read_with_options::<_, Value>(&mut bytes, options).next();
    !text.trim_start().starts_with("#!")
        && first().is_some_and(|value| value.is_ok_and(|value| value.is_object()))
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

/// The kubelet block as the kubelet's own configuration file names it, with keys sorted.
fn kubelet_config(bootstrap: &Bootstrap) -> Result<Value, Error> {
    let encoded = serde_json::to_value(&bootstrap.kubelet)
        .map_err(|error| Error::Encode { format: "YAML", reason: error.to_string() })?;
    let mut config = match encoded {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    config.retain(|_, value| !value.is_null());
    let taints: Vec<Value> = bootstrap
        .taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => json!({"effect": taint.effect, "key": taint.key}),
            value => json!({"effect": taint.effect, "key": taint.key, "value": value}),
        })
        .collect();
    config.insert("registerWithTaints".to_owned(), Value::Array(taints));
    config.sort_keys();
    Ok(Value::Object(config))
}
