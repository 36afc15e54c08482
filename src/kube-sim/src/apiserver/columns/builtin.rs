//! The columns of built-in kinds.

use serde_json::{Value, json};

use super::{Column, Source};
use crate::apiserver::{
    jsonpath::JsonPath,
    object::{condition, label, list, text},
};

/// Columns of a built-in kind after its name.
pub(crate) fn columns_of(group: &str, plural: &str) -> Vec<Column> {
    let mut columns = match (group, plural) {
        ("", "pods") => vec![
            computed("Ready", pod_ready),
            computed("Status", pod_status),
            computed("Restarts", |_| json!("0")),
        ],
        ("", "nodes") => vec![computed("Status", node_status), computed("Roles", node_roles)],
        ("", "namespaces") => vec![path("Status", "string", ".status.phase")],
        ("" | "events.k8s.io", "events") => return event_columns(),
        ("", "services") => {
            vec![path("Type", "string", ".spec.type"), path("Cluster-IP", "string", ".spec.clusterIP")]
        }
        ("apps", "deployments") => vec![
            computed("Ready", |o| fraction(o, "/status/readyReplicas", "/spec/replicas")),
            computed("Up-to-date", |o| count(o, "/status/updatedReplicas")),
            computed("Available", |o| count(o, "/status/availableReplicas")),
        ],
        ("apps", "statefulsets") => {
            vec![computed("Ready", |o| fraction(o, "/status/readyReplicas", "/spec/replicas"))]
        }
        ("apps", "replicasets") => vec![
            computed("Desired", |o| count(o, "/spec/replicas")),
            computed("Current", |o| count(o, "/status/replicas")),
            computed("Ready", |o| count(o, "/status/readyReplicas")),
        ],
        ("apps", "daemonsets") => vec![
            computed("Desired", |o| count(o, "/status/desiredNumberScheduled")),
            computed("Current", |o| count(o, "/status/currentNumberScheduled")),
            computed("Ready", |o| count(o, "/status/numberReady")),
        ],
        ("policy", "poddisruptionbudgets") => vec![
            computed("Min Available", |o| or_none(o.pointer("/spec/minAvailable"))),
            computed("Max Unavailable", |o| or_none(o.pointer("/spec/maxUnavailable"))),
            computed("Allowed Disruptions", |o| count(o, "/status/disruptionsAllowed")),
        ],
        ("coordination.k8s.io", "leases") => vec![path("Holder", "string", ".spec.holderIdentity")],
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            return vec![path("Created At", "string", ".metadata.creationTimestamp")];
        }
        _ => Vec::new(),
    };
    columns.push(path("Age", "date", ".metadata.creationTimestamp"));
    columns.extend(wide_columns(group, plural));
    columns
}

fn wide_columns(group: &str, plural: &str) -> Vec<Column> {
    let columns = match (group, plural) {
        ("", "pods") => vec![
            path("IP", "string", ".status.podIP"),
            path("Node", "string", ".spec.nodeName"),
            path("Nominated Node", "string", ".status.nominatedNodeName"),
        ],
        ("", "nodes") => vec![
            path("Version", "string", ".status.nodeInfo.kubeletVersion"),
            path("Internal-IP", "string", ".status.addresses[?(@.type==\"InternalIP\")].address"),
            path("OS-Image", "string", ".status.nodeInfo.osImage"),
        ],
        _ => Vec::new(),
    };
    columns.into_iter().map(|c| Column { priority: i64::from(c.name != "Version"), ..c }).collect()
}

fn event_columns() -> Vec<Column> {
    vec![
        Column { kind: "date".to_owned(), ..path("Last Seen", "date", ".lastTimestamp") },
        path("Type", "string", ".type"),
        path("Reason", "string", ".reason"),
        computed("Object", |o| {
            let kind = text(o, "/involvedObject/kind").to_lowercase();
            json!(format!("{kind}/{}", text(o, "/involvedObject/name")))
        }),
        path("Message", "string", ".message"),
    ]
}

fn path(name: &str, kind: &str, json_path: &str) -> Column {
    let path = JsonPath::parse(json_path).expect("invariant: the paths in this file parse");
    Column { name: name.to_owned(), kind: kind.to_owned(), priority: 0, source: Source::Path(path) }
}

fn computed(name: &str, compute: fn(&Value) -> Value) -> Column {
    Column {
        name: name.to_owned(),
        kind: "string".to_owned(),
        priority: 0,
        source: Source::Computed(compute),
    }
}

fn count(object: &Value, pointer: &str) -> Value {
    json!(object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).to_string())
}

fn fraction(object: &Value, part: &str, whole: &str) -> Value {
    let number = |pointer| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    json!(format!("{}/{}", number(part), number(whole)))
}

fn or_none(value: Option<&Value>) -> Value {
    match value {
        None => json!("N/A"),
        Some(Value::String(text)) => json!(text),
        Some(other) => json!(other.to_string()),
    }
}

fn pod_ready(pod: &Value) -> Value {
    let statuses = list(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|s| s["ready"] == true).count();
    json!(format!("{ready}/{}", list(pod, "/spec/containers").len()))
}

fn pod_status(pod: &Value) -> Value {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return json!("Terminating");
    }
    let running = text(pod, "/status/phase") == "Pending" && !text(pod, "/spec/nodeName").is_empty();
    json!(if running { "ContainerCreating" } else { text(pod, "/status/phase") })
}

fn node_status(node: &Value) -> Value {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some("False") => "NotReady",
        _ => "Unknown",
    };
    let cordoned = node.pointer("/spec/unschedulable") == Some(&json!(true));
    json!(if cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() })
}

fn node_roles(node: &Value) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flat_map(|l| l.keys())
        .filter_map(|key| key.strip_prefix("node-role.kubernetes.io/"))
        .chain(label(node, "kubernetes.io/role"))
        .collect();
    json!(if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") })
}
