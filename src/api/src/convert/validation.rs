//! Rules of kube-apiserver about values of built-in kinds, which no schema states: names, selectors, operators, amounts.
//!
//! These are the rules about what is read here: pods, the workloads that make them, and objects that decide about pods. They
//! are worded as kube-apiserver words them, and expect an object whose structure is right. A rule that is missing lets an
//! object pass that an API server refuses; a conformance test compares both (docs/testing.md).

mod affinity;
mod amounts;
mod cluster;
mod container;
mod names;
mod pod;
mod workload;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    LimitRange, PersistentVolumeClaim, Pod, PodSpec, PodTemplate, ReplicationController,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;
use serde_json::Value;

use crate::schema::Cause;

pub(super) use amounts::is_extended;
pub(crate) use names::of_metadata;

/// Priority classes that every cluster has.
pub const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Everything that is wrong with the values of an object, metadata aside.
pub(crate) fn of_kind(object: &Value) -> Vec<Cause> {
    let mut found = Found(Vec::new());
    let kind = object["kind"].as_str().unwrap_or_default();
    match kind {
        "Pod" => check::<Pod>(object, |one| pod::pod(&one, &mut found)),
        "PodTemplate" => check::<PodTemplate>(object, |one| {
            pod::template(&one.template.unwrap_or_default(), "template", &mut found);
        }),
        "Deployment" => check::<Deployment>(object, |one| workload::deployment(&one, &mut found)),
        "ReplicaSet" => check::<ReplicaSet>(object, |one| workload::replica_set(&one, &mut found)),
        "ReplicationController" => check::<ReplicationController>(object, |one| {
            workload::replication_controller(&one, &mut found);
        }),
        "StatefulSet" => check::<StatefulSet>(object, |one| workload::stateful_set(&one, &mut found)),
        "DaemonSet" => check::<DaemonSet>(object, |one| workload::daemon_set(&one, &mut found)),
        "Job" => check::<Job>(object, |one| {
            workload::job(&one.spec.unwrap_or_default(), "spec", &mut found);
        }),
        "CronJob" => check::<CronJob>(object, |one| workload::cron_job(&one, &mut found)),
        "LimitRange" => check::<LimitRange>(object, |one| cluster::limit_range(&one, &mut found)),
        "RuntimeClass" => check::<RuntimeClass>(object, |one| cluster::runtime_class(&one, &mut found)),
        "PriorityClass" => check::<PriorityClass>(object, |one| cluster::priority_class(&one, &mut found)),
        "PodDisruptionBudget" => check::<PodDisruptionBudget>(object, |one| {
            cluster::budget(&one.spec.unwrap_or_default(), &mut found);
        }),
        "StorageClass" => check::<StorageClass>(object, |one| cluster::storage_class(&one, &mut found)),
        "PersistentVolumeClaim" => check::<PersistentVolumeClaim>(object, |one| {
            cluster::volume_claim(&one.spec.unwrap_or_default(), "spec", &mut found);
        }),
        _ => {}
    }
    found.0
}

/// Everything that is wrong with the amounts and the ports of a pod, which admission may have changed.
pub(crate) fn of_admitted(spec: &PodSpec) -> Vec<Cause> {
    let mut found = Found(Vec::new());
    pod::resources(spec, "spec", &mut found);
    pod::host_ports(spec, "spec", &mut found);
    found.0
}

/// Checks an object that can be read; the schema names what cannot.
fn check<T: for<'de> Deserialize<'de>>(object: &Value, with: impl FnOnce(T)) {
    if let Ok(read) = T::deserialize(object) {
        with(read);
    }
}

/// Causes, as they are found.
struct Found(Vec<Cause>);

impl Found {
    fn invalid(&mut self, field: &str, value: impl Into<Value>, why: &str) {
        self.0.push(Cause::invalid(field, &value.into(), why));
    }

    fn required(&mut self, field: &str, why: &str) {
        self.0.push(Cause::required(field, why));
    }

    fn forbidden(&mut self, field: &str, why: &str) {
        self.0.push(Cause::forbidden(field, why));
    }

    fn duplicate(&mut self, field: &str, value: impl Into<Value>) {
        self.0.push(Cause::duplicate(field, &value.into()));
    }

    fn not_found(&mut self, field: &str, value: &str) {
        self.0.push(Cause {
            reason: "FieldValueNotFound".to_owned(),
            message: format!("Not found: \"{value}\""),
            field: field.to_owned(),
        });
    }

    /// A value that is none of `allowed`; an absent one is fine where the API server has a default.
    fn one_of(&mut self, field: &str, value: Option<&String>, allowed: &[&str]) {
        if let Some(value) = value.filter(|value| !allowed.contains(&value.as_str()) && !value.is_empty()) {
            self.unsupported(field, value, allowed);
        }
    }

    fn unsupported(&mut self, field: &str, value: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|&one| one.to_owned()).collect();
        self.0.push(Cause::unsupported(field, &Value::from(value), &allowed));
    }

    fn not_negative(&mut self, field: &str, value: Option<impl Into<i64>>) {
        if let Some(value) = value.map(Into::into).filter(|value| *value < 0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }
}

#[cfg(test)]
mod tests;
