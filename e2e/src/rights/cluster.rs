//! The verbs of the controller from the API server's audit log, held against the roles of the chart.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize;

use super::{Right, Rights};
use crate::manifests;

/// The audit policy: who did what to which object, without bodies, of the controller only.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: [\"system:serviceaccount:kube-system:karpenter\"]
  - level: None
";

/// The part of an audit event that rights are about.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    object_ref: Option<Object>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    #[serde(default)]
    api_group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Object {
    /// Returns the resource as rules name it: `pods/eviction`.
    fn kind(&self) -> String {
        match &self.subresource {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.clone(),
        }
    }
}

/// One right of a rule: in every namespace or in one, on every object or on one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Granted {
    namespace: Option<String>,
    group: String,
    kind: String,
    name: Option<String>,
    verb: String,
}

impl Granted {
    fn covers(&self, event: &Event, object: &Object) -> bool {
        let within = |own: &Option<String>, other: &Option<String>| own.is_none() || own == other;
        self.verb == event.verb
            && self.group == object.api_group
            && self.kind == object.kind()
            && within(&self.namespace, &object.namespace)
            && within(&self.name, &object.name)
    }

    fn right(&self) -> Right {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        let of = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let within = self.namespace.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        Right::new(&format!("{group}/{}{of}{within}", self.kind), &self.verb)
    }
}

/// Reads the log and compares; fails with every request that was never allowed, and when there was none at all. An API
/// server that has just started forbids what it allows a moment later, when it has read the roles.
pub fn check(log: &Path) -> Result<Rights> {
    let granted = granted(manifests::RBAC)?;
    let mut rights = Rights { granted: granted.iter().map(Granted::right).collect(), used: BTreeSet::new() };
    let (mut forbidden, mut allowed) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = false;
    read(log, |event| {
        seen = true;
        let path = event.uri.split('?').next().unwrap_or_default();
        let request = format!("{} {path}", event.verb);
        if event.annotations.get("authorization.k8s.io/decision").is_some_and(|decision| decision == "forbid")
        {
            forbidden.insert(request);
            return;
        }
        allowed.insert(request);
        if let Some(object) = &event.object_ref {
            let used = granted.iter().filter(|granted| granted.covers(event, object));
            rights.used.extend(used.map(Granted::right));
        }
    })?;
    ensure!(seen, "the audit log `{}` knows nothing of the controller", log.display());
    let never: Vec<String> = forbidden.difference(&allowed).cloned().collect();
    ensure!(never.is_empty(), "the chart's roles do not allow:\n{}", never.join("\n"));
    Ok(rights)
}

/// Number of the controller's writes in the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Everything but events; evictions and renewals of the Lease are writes.
    pub objects: u64,
    pub events: u64,
}

/// Counts the writes in the log.
pub fn writes(log: &Path) -> Result<Writes> {
    let mut writes = Writes::default();
    read(log, |event| {
        let writing =
            matches!(event.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection");
        match &event.object_ref {
            Some(object) if writing && object.resource == "events" => writes.events += 1,
            Some(_) if writing => writes.objects += 1,
            _ => {}
        }
    })?;
    Ok(writes)
}

/// Passes every event of the log on.
fn read(log: &Path, mut take: impl FnMut(&Event)) -> Result<()> {
    let file = std::fs::File::open(log).with_context(|| format!("open the audit log `{}`", log.display()))?;
    for line in BufReader::new(file).lines() {
        let line = line.context("read the audit log")?;
        // The API server may be in the middle of the last line.
        if let Ok(event) = serde_json::from_str::<Event>(&line) {
            take(&event);
        }
    }
    Ok(())
}

/// Every right of the roles of a manifest, which are all bound to the controller.
fn granted(manifest: &str) -> Result<BTreeSet<Granted>> {
    let mut all = BTreeSet::new();
    for document in manifests::documents(manifest)? {
        if !matches!(document["kind"].as_str(), Some("Role" | "ClusterRole")) {
            continue;
        }
        let namespace = document["metadata"]["namespace"].as_str().map(str::to_owned);
        let rules: Vec<PolicyRule> =
            serde_json::from_value(document["rules"].clone()).context("read the rules of a role")?;
        all.extend(rules.iter().flat_map(|rule| of_rule(rule, namespace.as_ref())));
    }
    Ok(all)
}

fn of_rule(rule: &PolicyRule, namespace: Option<&String>) -> Vec<Granted> {
    let names: Vec<Option<String>> = match &rule.resource_names {
        Some(names) => names.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for kind in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                all.extend(names.iter().map(|name| Granted {
                    namespace: namespace.cloned(),
                    group: group.clone(),
                    kind: kind.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn log(lines: &[Value]) -> tempfile::NamedTempFile {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text + "{\"verb\": \"ge").unwrap();
        file
    }

    fn event(verb: &str, decision: &str, object: Value) -> Value {
        json!({
            "verb": verb, "requestURI": "/api/v1/x?watch=true", "objectRef": object,
            "annotations": {"authorization.k8s.io/decision": decision},
        })
    }

    #[test]
    fn verbs_are_those_of_the_chart_by_group_kind_namespace_and_name() {
        let lease = json!({"apiGroup": "coordination.k8s.io", "resource": "leases", "namespace": "kube-system",
            "name": "karpenter-leader-election"});
        let foreign = json!({"apiGroup": "coordination.k8s.io", "resource": "leases", "namespace": "default", "name": "x"});
        let file = log(&[
            event(
                "create",
                "allow",
                json!({"resource": "pods", "subresource": "eviction", "namespace": "a"}),
            ),
            event("list", "allow", json!({"resource": "nodes"})),
            event("patch", "allow", lease),
            event("get", "allow", foreign),
        ]);
        let rights = check(file.path()).unwrap();
        let used: Vec<_> = rights.used.iter().map(ToString::to_string).collect();
        assert_eq!(
            used,
            [
                "coordination.k8s.io/leases karpenter-leader-election in kube-system: patch",
                "core/nodes: list",
                "core/pods/eviction: create",
            ]
        );
        assert!(rights.granted.is_superset(&rights.used) && rights.unused().count() > 20);
    }

    #[test]
    fn what_was_forbidden_is_named() {
        let file = log(&[event("list", "forbid", json!({"resource": "secrets"}))]);
        let error = check(file.path()).unwrap_err().to_string();
        assert_eq!(error, "the chart's roles do not allow:\nlist /api/v1/x");
    }

    #[test]
    fn what_is_allowed_later_was_forbidden_by_a_server_that_did_not_know_the_roles_yet() {
        let secrets = || json!({"resource": "secrets"});
        let file = log(&[event("list", "forbid", secrets()), event("list", "allow", secrets())]);
        assert!(check(file.path()).is_ok());
    }

    #[test]
    fn a_log_without_the_controller_proves_nothing() {
        assert!(check(log(&[]).path()).unwrap_err().to_string().contains("knows nothing of the controller"));
    }

    #[test]
    fn the_audit_policy_is_about_the_service_account_of_the_manifest() {
        let account = manifests::documents(manifests::RBAC).unwrap().remove(0);
        let (namespace, name) = (&account["metadata"]["namespace"], &account["metadata"]["name"]);
        let user =
            format!("system:serviceaccount:{}:{}", namespace.as_str().unwrap(), name.as_str().unwrap());
        assert_eq!(manifests::documents(AUDIT_POLICY).unwrap()[0]["rules"][0]["users"], json!([user]));
    }
}
