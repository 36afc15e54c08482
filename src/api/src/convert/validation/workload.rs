//! Workloads, which make pods from a template.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, JobSpec};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::container::name;
use super::{Found, affinity, cluster, names, pod};
use crate::convert;

/// Most pods that an indexed Job runs at once.
const PARALLEL_INDEXED_MAX: i32 = 100_000;

pub(super) fn deployment(one: &Deployment, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    found.not_negative("spec.replicas", spec.replicas);
    found.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    let kind = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_ref());
    found.one_of("spec.strategy.type", kind, &["Recreate", "RollingUpdate"]);
    if spec.strategy.as_ref().is_some_and(|one| one.rolling_update.is_some())
        && kind.is_some_and(|kind| kind == "Recreate")
    {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        found.forbidden("spec.strategy.rollingUpdate", why);
    }
    always_running("deployment", &spec.selector, &spec.template, &[], found);
}

pub(super) fn replica_set(one: &ReplicaSet, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    found.not_negative("spec.replicas", spec.replicas);
    found.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    always_running("deployment", &spec.selector, &spec.template.unwrap_or_default(), &[], found);
}

pub(super) fn replication_controller(one: &ReplicationController, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    found.not_negative("spec.replicas", spec.replicas);
    found.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    let template = spec.template.unwrap_or_default();
    let of_template = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    let match_labels = spec.selector.filter(|labels| !labels.is_empty()).or(of_template);
    let selector = LabelSelector { match_labels, match_expressions: None };
    always_running("deployment", &selector, &template, &[], found);
}

pub(super) fn stateful_set(one: &StatefulSet, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    found.not_negative("spec.replicas", spec.replicas);
    let policies = ["OrderedReady", "Parallel"];
    found.one_of("spec.podManagementPolicy", spec.pod_management_policy.as_ref(), &policies);
    let claims = spec.volume_claim_templates.iter().flatten();
    for (index, claim) in spec.volume_claim_templates.iter().flatten().enumerate() {
        let path = format!("spec.volumeClaimTemplates[{index}]");
        cluster::volume_claim(&claim.spec.clone().unwrap_or_default(), &format!("{path}.spec"), found);
        name(claim.metadata.name.as_deref().unwrap_or_default(), &format!("{path}.metadata.name"), found);
    }
    let volumes: Vec<&str> = claims.filter_map(|claim| claim.metadata.name.as_deref()).collect();
    always_running("statefulset", &spec.selector, &spec.template, &volumes, found);
}

pub(super) fn daemon_set(one: &DaemonSet, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    found.not_negative("spec.minReadySeconds", spec.min_ready_seconds);
    always_running("daemonset", &spec.selector, &spec.template, &[], found);
}

/// Checks a template whose pods are made again when they end, and the selector that finds them.
fn always_running(
    kind: &str,
    selector: &LabelSelector,
    template: &PodTemplateSpec,
    volumes: &[&str],
    found: &mut Found,
) {
    let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if is_empty {
        found.invalid("spec.selector", "{}", &format!("empty selector is invalid for {kind}"));
    }
    affinity::label_selector(selector, "spec.selector", found);
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    let own = labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    let read = convert::selector(Some(selector));
    if !is_empty && read.is_some_and(|selector| !selector.matches(&own)) {
        let written = serde_json::to_string(&labels).unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        found.invalid("spec.template.metadata.labels", written, why);
    }
    pod::template_with(template, volumes, "spec.template", found);
    let policy = template.spec.as_ref().and_then(|spec| spec.restart_policy.as_ref());
    if let Some(other) = policy.filter(|policy| ["OnFailure", "Never"].contains(&policy.as_str())) {
        found.unsupported("spec.template.spec.restartPolicy", other, &["Always"]);
    }
    if template.spec.as_ref().is_some_and(|spec| spec.active_deadline_seconds.is_some()) {
        let field = "spec.template.spec.activeDeadlineSeconds";
        found.forbidden(field, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

pub(super) fn job(spec: &JobSpec, path: &str, found: &mut Found) {
    let at = |field: &str| format!("{path}.{field}");
    found.not_negative(&at("parallelism"), spec.parallelism);
    found.not_negative(&at("completions"), spec.completions);
    found.not_negative(&at("activeDeadlineSeconds"), spec.active_deadline_seconds);
    found.not_negative(&at("backoffLimit"), spec.backoff_limit);
    found.not_negative(&at("backoffLimitPerIndex"), spec.backoff_limit_per_index);
    found.not_negative(&at("ttlSecondsAfterFinished"), spec.ttl_seconds_after_finished);
    let mode = spec.completion_mode.as_ref();
    found.one_of(&at("completionMode"), mode, &["NonIndexed", "Indexed"]);
    let is_indexed = mode.is_some_and(|mode| mode == "Indexed");
    // A Job without either has one pod to complete; a template of Jobs is not completed so.
    let is_one = path == "spec" && spec.parallelism.is_none();
    if is_indexed && spec.completions.is_none() && !is_one {
        found.required(&at("completions"), "when completion mode is Indexed");
    }
    if let Some(many) = spec.parallelism.filter(|many| is_indexed && *many > PARALLEL_INDEXED_MAX) {
        let why =
            format!("must be less than or equal to {PARALLEL_INDEXED_MAX} when completion mode is Indexed");
        found.invalid(&at("parallelism"), many, &why);
    }
    if let Some(limit) = spec.backoff_limit_per_index.filter(|_| !is_indexed) {
        found.invalid(&at("backoffLimitPerIndex"), limit, "requires indexed completion mode");
    }
    if let Some(policy) = &spec.pod_replacement_policy {
        found.one_of(&at("podReplacementPolicy"), Some(policy), &["Failed", "TerminatingOrFailed"]);
    }
    pod::template(&spec.template, &at("template"), found);
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if !policy.is_some_and(|policy| ["OnFailure", "Never"].contains(&policy)) {
        found.required(&at("template.spec.restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
    }
}

/// Checks the form of a schedule, not the numbers in it.
fn schedule(written: &str, found: &mut Found) {
    let fields = written.split_whitespace().count();
    if written.is_empty() {
        found.required("spec.schedule", "");
    } else if written.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        found.invalid("spec.schedule", written, why);
    } else if !written.starts_with('@') && fields != 5 {
        found.invalid("spec.schedule", written, &format!("expected exactly 5 fields, found {fields}"));
    }
}

pub(super) fn cron_job(one: &CronJob, found: &mut Found) {
    let spec = one.spec.clone().unwrap_or_default();
    schedule(&spec.schedule, found);
    let policies = ["Allow", "Forbid", "Replace"];
    found.one_of("spec.concurrencyPolicy", spec.concurrency_policy.as_ref(), &policies);
    if let Some(metadata) = &spec.job_template.metadata {
        names::labels(metadata.labels.as_ref(), "spec.jobTemplate.metadata.labels", found);
    }
    job(&spec.job_template.spec.unwrap_or_default(), "spec.jobTemplate.spec", found);
}
