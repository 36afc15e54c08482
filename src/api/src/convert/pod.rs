//! `Pod` to the model.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{self, ContainerPort, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_model::names::{annotation, condition, reason};
use karpenter_model::{
    DoNotDisrupt, Effect, HostPort, OwnerUid, Pod, PodKey, PodOwner, PodPhase, PodTemplate, Protocol,
    ResourceClaimName, Toleration, TolerationOperator, VolumeClaim,
};

use super::affinity;
use super::labels;
use super::present;
use super::requests::{effective_limits, effective_requests, is_sidecar};
use super::{Error, FieldError};
use crate::duration::parse_go_duration;

#[cfg(test)]
mod tests;

const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Reads a pod.
pub fn pod(object: &v1::Pod) -> Result<Pod, Error> {
    let metadata = &object.metadata;
    let key = PodKey::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let shown = key.to_string();
    read(object, key).map_err(|error| error.of("Pod", &shown))
}

/// Reads what a pod is and takes up, and none of its rules about where it may be: for those that have a place already,
/// and have a part that cannot be read.
pub fn pod_without_rules(object: &v1::Pod) -> Result<Pod, Error> {
    let mut object = object.clone();
    if let Some(spec) = &mut object.spec {
        spec.affinity = None;
        spec.tolerations = None;
        spec.topology_spread_constraints = None;
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            container.ports = None;
        }
    }
    pod(&object)
}

/// Reads a pod under another key.
pub(super) fn read(object: &v1::Pod, key: PodKey) -> Result<Pod, FieldError> {
    let metadata = &object.metadata;
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let spec = object.spec.as_ref().unwrap_or(&no_spec);
    let status = object.status.as_ref().unwrap_or(&no_status);
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let deletion_cost = annotation(annotation::POD_DELETION_COST).and_then(|cost| cost.parse().ok());
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let template = PodTemplate {
        labels: labels(metadata.labels.as_ref()),
        requests: effective_requests(spec, Some(status))?,
        limits: effective_limits(spec)?,
        node_selector: labels(spec.node_selector.as_ref()),
        required_terms: affinity::required_terms(spec)?,
        preferred_terms: affinity::preferred_terms(spec)?,
        tolerations: tolerations(spec)?,
        host_ports: host_ports(spec)?,
        spread: affinity::spread(spec)?,
        pod_affinity: affinity::pod_affinity(spec),
        pod_anti_affinity: affinity::pod_anti_affinity(spec),
        volumes: volumes(spec, key.name.as_str()),
        owner: owner(owners),
        owner_uid: controller(owners),
        owner_path: owners.first().map(|owner| path(owner, key.namespace.as_str())).unwrap_or_default(),
        priority: spec.priority,
        preempts: spec.preemption_policy.as_deref() != Some("Never"),
        critical: spec.priority_class_name.as_deref().is_some_and(|class| CRITICAL.contains(&class)),
        grace_period: spec
            .termination_grace_period_seconds
            .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default())),
        disruption_cost: annotation(annotation::DISRUPTION_COST).map(|cost| cost.parse().unwrap_or_default()),
        deletion_cost: deletion_cost.unwrap_or_default(),
        do_not_disrupt: annotation(annotation::DO_NOT_DISRUPT)
            .map_or(DoNotDisrupt::No, |text| do_not_disrupt(text)),
        scheduler_name: spec.scheduler_name.clone().unwrap_or_else(|| "default-scheduler".to_owned()),
        has_resource_claims: has_resource_claims(spec),
        resource_claims: resource_claims(spec, status),
        claim_templates: Vec::new(),
    };
    Ok(Pod {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        template: Arc::new(template),
        phase: phase(status),
        created_at: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        bound_at: condition(status, condition::POD_SCHEDULED)
            .filter(|scheduled| scheduled.status == "True")
            .and_then(|scheduled| scheduled.last_transition_time.as_ref())
            .map(|time| time.0),
        started_at: status.start_time.as_ref().map(|time| time.0),
        deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        node_name: present(spec.node_name.as_ref()).map(Into::into),
        nominated_node: present(status.nominated_node_name.as_ref()).map(Into::into),
        unschedulable: condition(status, condition::POD_SCHEDULED)
            .is_some_and(|scheduled| scheduled.reason.as_deref() == Some(reason::UNSCHEDULABLE)),
        ready: condition(status, condition::READY).map(|ready| ready.status == "True"),
        written_deletion_cost: deletion_cost,
        buffer: None,
        key,
    })
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a v1::PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Owners are compared by exact API version and kind (spec disruption 0.5).
fn owner(references: &[OwnerReference]) -> PodOwner {
    const KNOWN: [(&str, &str, PodOwner); 5] = [
        ("apps/v1", "DaemonSet", PodOwner::DaemonSet),
        ("v1", "Node", PodOwner::Mirror),
        ("apps/v1", "StatefulSet", PodOwner::StatefulSet),
        ("apps/v1", "ReplicaSet", PodOwner::ReplicaSet),
        ("batch/v1", "Job", PodOwner::Job),
    ];
    let owned = |(api_version, kind, _): &(&str, &str, PodOwner)| {
        references.iter().any(|owner| owner.api_version == *api_version && owner.kind == *kind)
    };
    let other = if references.is_empty() { PodOwner::None } else { PodOwner::Other };
    KNOWN.into_iter().find(owned).map_or(other, |(_, _, owner)| owner)
}

/// The one owner that makes pods like this one; those that only keep it from being collected do not.
fn controller(references: &[OwnerReference]) -> Option<OwnerUid> {
    let controls = |owner: &&OwnerReference| owner.controller == Some(true);
    references.iter().find(controls).map(|owner| owner.uid.as_str().into())
}

/// Returns the path of an owner in `namespace` below the API server, as metrics show it.
fn path(owner: &OwnerReference, namespace: &str) -> String {
    let (version, kind) = (&owner.api_version, owner.kind.to_lowercase());
    format!("/apis/{version}/namespaces/{namespace}/{kind}s/{}", owner.name)
}

fn phase(status: &PodStatus) -> PodPhase {
    match status.phase.as_deref() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// `true` for ever, a positive duration for that long; anything else is worth a warning
/// (spec disruption 0.5).
fn do_not_disrupt(text: &str) -> DoNotDisrupt {
    if text == "true" {
        return DoNotDisrupt::Always;
    }
    match parse_go_duration(text) {
        Ok(span) if !span.is_zero() => DoNotDisrupt::For(span),
        _ => DoNotDisrupt::Invalid(text.to_owned()),
    }
}

fn tolerations(spec: &PodSpec) -> Result<Vec<Toleration>, FieldError> {
    let read = |(index, written): (usize, &v1::Toleration)| {
        let field = |name: &str| format!("spec.tolerations[{index}].{name}");
        let operator = match present(written.operator.as_ref()) {
            None | Some("Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some("Gt") => TolerationOperator::Gt,
            Some("Lt") => TolerationOperator::Lt,
            Some(other) => return Err(FieldError::unknown(&field("operator"), other)),
        };
        let effect = match present(written.effect.as_ref()) {
            None => None,
            Some(text) => {
                Some(Effect::parse(text).ok_or_else(|| FieldError::unknown(&field("effect"), text))?)
            }
        };
        Ok(Toleration {
            key: written.key.clone().unwrap_or_default(),
            operator,
            value: written.value.clone().unwrap_or_default(),
            effect,
        })
    };
    spec.tolerations.iter().flatten().enumerate().map(read).collect()
}

/// Host ports of the containers and of the sidecars among the init containers, as the scheduler counts them since
/// Kubernetes 1.33; other init containers give theirs back.
fn host_ports(spec: &PodSpec) -> Result<Vec<HostPort>, FieldError> {
    let containers = spec.containers.iter().enumerate().map(|(index, one)| ("containers", index, one));
    let init = spec.init_containers.iter().flatten().enumerate();
    let sidecars = init.filter(|(_, one)| is_sidecar(one));
    let sidecars = sidecars.map(|(index, one)| ("initContainers", index, one));
    let ports = containers.chain(sidecars).flat_map(|(list, container, written)| {
        let ports = written.ports.iter().flatten().enumerate();
        ports.map(move |(port, written)| (format!("spec.{list}[{container}].ports[{port}]"), written))
    });
    ports.filter_map(|(field, written)| host_port(written).map_err(|e| e.below(&field)).transpose()).collect()
}

fn host_port(written: &ContainerPort) -> Result<Option<HostPort>, FieldError> {
    let Some(number) = written.host_port.filter(|port| *port != 0) else { return Ok(None) };
    let port = u16::try_from(number)
        .map_err(|_| FieldError::new("hostPort", format_args!("{number} is not a port number")))?;
    let ip = match present(written.host_ip.as_ref()) {
        None => HostPort::tcp(port).ip,
        Some(text) => text.parse::<IpAddr>().map_err(|error| FieldError::new("hostIP", error))?,
    };
    let protocol = match present(written.protocol.as_ref()) {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(other) => return Err(FieldError::unknown("protocol", other)),
    };
    Ok(Some(HostPort { ip, port, protocol }))
}

/// Claims of the pod's volumes; a generic ephemeral volume has one named `<pod>-<volume>`.
fn volumes(spec: &PodSpec, pod: &str) -> Vec<VolumeClaim> {
    let claim = |volume: &v1::Volume| {
        let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.as_str().into(),
            (None, Some(_)) => format!("{pod}-{}", volume.name).into(),
            (None, None) => return None,
        };
        Some(VolumeClaim { name })
    };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

/// The claims a pod uses: those it names, and those its status lists as made for it. What is yet to be made, or was
/// found not to be needed, is left out (spec scheduling 22.2).
fn resource_claims(spec: &PodSpec, status: &PodStatus) -> Vec<ResourceClaimName> {
    let made = |name: &str| {
        let mut statuses = status.resource_claim_statuses.iter().flatten();
        statuses.find(|status| status.name == name)?.resource_claim_name.as_ref()
    };
    let used = spec.resource_claims.iter().flatten();
    let named = used.filter_map(|claim| claim.resource_claim_name.as_ref().or_else(|| made(&claim.name)));
    let mut names: Vec<ResourceClaimName> = named.map(|name| name.as_str().into()).collect();
    names.sort();
    names.dedup();
    names
}

fn has_resource_claims(spec: &PodSpec) -> bool {
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_container = |container: &v1::Container| {
        let claims = container.resources.as_ref().and_then(|resources| resources.claims.as_ref());
        claims.is_some_and(|claims| !claims.is_empty())
    };
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) || containers.any(of_container)
}
