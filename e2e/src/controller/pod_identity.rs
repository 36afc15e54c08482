//! The agent of EKS Pod Identity on the nodes of a kind cluster, and what EKS adds to the pods of a service account.
//!
//! On EKS an agent on each node answers at a link-local address, and a webhook adds two variables and a token to pods
//! whose service account is associated with a role. SDKs take credentials over plain HTTP from that address and from
//! loopback only. So each node gets the address, and `socat`, which every node image has, passes what comes in on to the
//! account. The chart's values add what the webhook would.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::PODS;
use crate::account::Control;
use crate::engine::Engine;

/// Address at which SDKs expect the agent.
const ADDRESS: &str = "169.254.170.23";

/// Folder in which the webhook mounts the token, followed by the name of its file.
const FOLDER: &str = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount";
const TOKEN: &str = "eks-pod-identity-token";

/// Lifetime of a token: the one that the webhook of EKS asks for.
const TOKEN_SECONDS: u32 = 24 * 60 * 60;

/// Replaces an agent that an earlier run has left in a cluster that was there before.
const AGENT: &str = r#"
set -e
ip address show dev lo | grep -q "$1/" || ip address add "$1/32" dev lo
id=/run/karpenter-e2e-agent.pid
[ ! -f "$id" ] || kill "$(cat "$id")" 2>/dev/null || true
echo $$ > "$id"
exec socat "TCP-LISTEN:80,bind=$1,fork,reuseaddr" "TCP:$2"
"#;

/// Starts the agent on a node; `account` is `address:port`. It ends with the node.
pub(super) async fn start_agent(engine: &Engine, node: &str, account: &str) -> Result<()> {
    engine
        .docker(&["exec", "--detach", node, "sh", "-c", AGENT, "agent", ADDRESS, account])
        .await
        .map(drop)
        .with_context(|| format!("start the agent of EKS Pod Identity on node `{node}`"))
}

/// The variables of a pod whose service account has a role in this cluster.
pub(super) fn variables(region: &str, cluster: &str) -> Vec<Value> {
    let credentials = format!("http://{ADDRESS}{}", Control::pod_identity_path(region, cluster));
    vec![
        json!({ "name": "AWS_CONTAINER_CREDENTIALS_FULL_URI", "value": credentials }),
        json!({ "name": "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "value": format!("{FOLDER}/{TOKEN}") }),
    ]
}

/// The volume with the token.
pub(super) fn volume() -> Value {
    let token = json!({ "audience": PODS, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN });
    json!({ "name": TOKEN, "projected": { "sources": [{ "serviceAccountToken": token }] } })
}

/// Returns the mount of that volume in the container.
pub(super) fn mount() -> Value {
    json!({ "name": TOKEN, "mountPath": FOLDER, "readOnly": true })
}
