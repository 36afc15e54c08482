//! Our reading of objects against a real kube-apiserver: what it refuses is refused here, and what it stores is what our
//! admission makes of it.
//!
//! Objects are created with `dryRun=All` and `fieldValidation=Strict`, so nothing stays. Those of the documentation come first,
//! then drawn ones: `ADMITTED_OBJECTS` many, from `FRESH_SEED` on.

mod draw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fastrand::Rng;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert::Admission;
use karpenter_api::manifest::{admitted, is_checked, refusals, unknown_fields};
use karpenter_api::yaml::without_nulls;
use karpenter_e2e::{prepare, wait};
use karpenter_model::Quantity;
use karpenter_plan::read_stream;
use karpenter_testkit::number;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

/// Number of objects that are drawn, unless configured otherwise.
const OBJECTS: u64 = 600;

/// Kinds whose objects are in no namespace.
const OF_CLUSTER: [&str; 11] = [
    "CSINode",
    "DeviceClass",
    "EC2NodeClass",
    "Namespace",
    "Node",
    "NodeOverlay",
    "NodePool",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
];

/// Folders whose manifests are sent.
const FOLDERS: [&str; 2] = ["docs", "scenarios"];

pub(crate) async fn the_api_server_takes_and_refuses_what_we_do(client: &Client) {
    let server = Server::prepared(client.clone()).await.expect("namespaces and classes are made");
    let written = documented();
    assert!(written.len() >= 20, "{}", written.len());
    let mut differ = Vec::new();
    let mut refused = 0;
    for (place, object) in written {
        differ.extend(server.compare(&object, &mut refused).await.map(|text| format!("{place}: {text}")));
    }
    let first = number("FRESH_SEED").unwrap_or(1);
    let count = number("ADMITTED_OBJECTS").unwrap_or(OBJECTS);
    for seed in first..first + count {
        let object = draw::object(seed, &mut Rng::with_seed(seed));
        differ.extend(server.compare(&object, &mut refused).await.map(|text| format!("seed {seed}: {text}")));
    }
    eprintln!("{count} objects drawn, {refused} refused by the API server, {} differences", differ.len());
    assert!(differ.is_empty(), "{} differences:\n{}", differ.len(), differ.join("\n"));
    // With all of them refused, or none, nothing would have been compared.
    assert!((count / 5..=count * 4 / 5).contains(&refused), "{refused} of {count}");
}

/// Every object of a documented file, with its place.
fn documented() -> Vec<(String, Value)> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&prepare::cache::repository().join(folder), &mut files);
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for manifest in read_stream(&file.display().to_string(), &text).manifests {
            let mut object = manifest.object;
            // Exports and files of a cluster have objects that are stored already.
            if is_checked(&object) && object["metadata"]["uid"].is_null() {
                if !object["metadata"]["namespace"].is_null() {
                    object["metadata"]["namespace"] = json!("default");
                }
                all.push((manifest.origin.unwrap().to_string(), object));
            }
        }
    }
    all
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            files.push(path);
        }
    }
}

struct Server {
    client: Client,
    admission: Admission,
}

impl Server {
    /// Makes what pods are admitted by, and waits until the API server admits by it.
    async fn prepared(client: Client) -> Result<Self> {
        let mut objects =
            vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}})];
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ranged"}}));
        let range = |namespace: &str, limits: Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": namespace}, "spec": {"limits": limits}});
        objects.push(range("limited", json!([{"type": "Container", "max": {"cpu": "3", "memory": "2Gi"}}])));
        objects.push(range(
            "ranged",
            json!([
                {"type": "Container", "min": {"cpu": "100m"}, "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}},
                {"type": "Pod", "max": {"cpu": "4"}, "maxLimitRequestRatio": {"memory": "4"}},
            ]),
        ));
        for (name, value, policy, default) in
            [("high", 1000, None, false), ("late", -5, Some("Never"), false), ("usual", 7, None, true)]
        {
            objects.push(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
                "preemptionPolicy": policy, "globalDefault": default,
            }));
        }
        let class = |name: &str, rest: Value| {
            let mut class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "runc"});
            class.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            class
        };
        objects.push(class("plain", json!({})));
        objects.push(class("sandbox", json!({
            "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
        })));
        objects.push(class("picky", json!({"scheduling": {"nodeSelector": {"app": "sandbox"}}})));
        for name in ["gp2", "gp3"] {
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "ebs.csi.aws.com",
                "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            }));
        }
        let mut made = Vec::new();
        for mut object in objects {
            without_nulls(&mut object);
            made.push(post(&client, &object, false).await.map_err(|why| anyhow::anyhow!("{why}: {object}"))?);
        }
        let server = Self { client, admission: Admission::of(&made) };
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}],
                "runtimeClassName": "picky", "priorityClassName": "late"},
        });
        for namespace in ["default", "limited", "ranged"] {
            let mut probe = probe.clone();
            probe["metadata"]["namespace"] = json!(namespace);
            wait::until("pods to be admitted", || async {
                Ok(post(&server.client, &probe, true).await.map(drop))
            })
            .await
            .context("probe admission")?;
        }
        Ok(server)
    }

    /// Compares both readings of an object; `None` when they agree.
    async fn compare(&self, object: &Value, refused: &mut u64) -> Option<String> {
        let theirs = post(&self.client, object, true).await;
        *refused += u64::from(theirs.is_err());
        match (theirs, self.ours(object)) {
            (Err(_), Err(_)) => None,
            (Ok(theirs), Ok(ours)) => {
                let (theirs, ours) = (essence(&theirs), essence(&ours));
                (theirs != ours).then(|| format!("stored {theirs}\n  but here {ours}\n  of {object}"))
            }
            (Ok(_), Err(why)) => Some(format!("taken, but here refused: {}\n  {object}", why.join("; "))),
            (Err(why), Ok(_)) => Some(format!("refused, but here taken: {why}\n  {object}")),
        }
    }

    /// The object as our reading has it stored, or why it is refused.
    fn ours(&self, object: &Value) -> Result<Value, Vec<String>> {
        let mut why: Vec<String> = unknown_fields(object).into_iter().map(|one| one.field).collect();
        why.extend(refusals(object).into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)));
        if !why.is_empty() {
            return Err(why);
        }
        let mut stored = admitted(object).map_err(|_| Vec::new())?;
        without_nulls(&mut stored);
        match object["kind"].as_str() {
            Some("Pod") => {
                let mut pod = Pod::deserialize(&stored).map_err(|error| vec![error.to_string()])?;
                pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
                let refused = self.admission.admit(&mut pod);
                if !refused.is_empty() {
                    return Err(refused.iter().map(ToString::to_string).collect());
                }
                Ok(json!(pod))
            }
            Some("PersistentVolumeClaim") => {
                if stored["spec"]["storageClassName"].is_null() {
                    stored["spec"]["storageClassName"] = json!(self.admission.default_storage_class());
                }
                Ok(stored)
            }
            _ => Ok(stored),
        }
    }
}

/// Creates an object; of a dry run nothing stays. Returns why it is refused.
async fn post(client: &Client, object: &Value, dry_run: bool) -> Result<Value, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let prefix = if version.contains('/') { "apis" } else { "api" };
    let kind = text("kind");
    let definition = karpenter_api::crds().into_iter().find(|one| one.spec.names.kind == kind);
    let plural = definition.map_or_else(|| plural_of(kind), |one| one.spec.names.plural);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let namespace =
        if OF_CLUSTER.contains(&kind) { String::new() } else { format!("namespaces/{namespace}/") };
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let path = format!("/{prefix}/{version}/{namespace}{plural}?fieldValidation=Strict{dry_run}");
    let body = serde_json::to_vec(object).map_err(|error| error.to_string())?;
    let request = Request::post(path).header("content-type", "application/json").body(Body::from(body));
    let response =
        client.send(request.map_err(|error| error.to_string())?).await.expect("the API server answers");
    let is_taken = response.status().is_success();
    let said = response.into_body().collect().await.expect("it answers in full").to_bytes();
    let said: Value = serde_json::from_slice(&said).map_err(|error| error.to_string())?;
    if is_taken { Ok(said) } else { Err(said["message"].as_str().unwrap_or_default().to_owned()) }
}

fn plural_of(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix("ss") {
        Some(_) => kind + "es",
        None => kind + "s",
    }
}

/// The parts of an object that decide about pods and nodes, with amounts as numbers: what the API server adds beside is of no
/// consequence here.
fn essence(object: &Value) -> Value {
    let mut parts = BTreeMap::new();
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => {
            let spec = &object["spec"];
            for field in [
                "affinity",
                "hostNetwork",
                "nodeSelector",
                "overhead",
                "preemptionPolicy",
                "priority",
                "priorityClassName",
                "resources",
                "runtimeClassName",
                "schedulingGates",
                "topologySpreadConstraints",
            ] {
                parts.insert(field.to_owned(), spec[field].clone());
            }
            let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
            let field = |one: &Value, field: &str| one[field].to_string();
            tolerations
                .sort_by_key(|one| ["key", "operator", "effect", "value"].map(|name| field(one, name)));
            parts.insert("tolerations".to_owned(), json!(tolerations));
            for list in ["containers", "initContainers"] {
                let containers = spec[list].as_array().into_iter().flatten();
                let containers = containers.map(|one| {
                    let ports = one["ports"].as_array().into_iter().flatten();
                    let ports: Vec<Value> = ports
                        .map(|port| {
                            json!([port["containerPort"], port["hostPort"].as_u64().unwrap_or_default()])
                        })
                        .collect();
                    json!({"resources": one["resources"], "ports": ports})
                });
                parts.insert(list.to_owned(), containers.collect());
            }
        }
        "PersistentVolumeClaim" => {
            parts.insert("class".to_owned(), object["spec"]["storageClassName"].clone());
        }
        "NodePool" | "EC2NodeClass" | "NodeOverlay" | "CapacityBuffer" | "NodeClaim" => {
            return object["spec"].clone();
        }
        _ => return Value::Null,
    }
    let mut whole = json!(parts);
    plain(&mut whole);
    whole
}

/// Drops what is empty, and writes every amount in the same way.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, below) in fields.iter_mut() {
                let is_amounts = ["requests", "limits", "overhead"].contains(&name.as_str());
                for (_, amount) in below.as_object_mut().filter(|_| is_amounts).into_iter().flatten() {
                    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                    if let Ok(read) = text.parse::<Quantity>() {
                        *amount = json!(read.nanos().to_string());
                    }
                }
                plain(below);
            }
            fields.retain(|_, below| ![json!(null), json!({}), json!([]), json!("")].contains(below));
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
