//! Resources that a pod takes from its node (spec scheduling 9 and 26).
//!
//! - Plain init containers run one after the other, so the largest counts; restartable ones (sidecars) keep
//!   running, so they add to the containers and to every init container after them (KEP-753).
//! - While a resize is under way a container holds the larger of what it asks for and what it was given;
//!   when the kubelet has called the resize infeasible, only the latter.
//! - Requests at pod level replace the sum for the resources they name; overhead comes on top.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use karpenter_model::resources;
use karpenter_model::{Quantity, Resources};

use super::FieldError;

/// The requests the scheduler counts, including one pod slot.
pub(super) fn effective_requests(
    spec: &PodSpec,
    status: Option<&PodStatus>,
) -> Result<Resources, FieldError> {
    let held = Held(status);
    let mut total = over_time(spec, |part| match part {
        Part::Runs(container) => held.by_container(container),
        Part::Starts(container) => requested(container.resources.as_ref()),
        Part::Whole(requirements) => requested(requirements),
    })?;
    total.add(&super::resources("spec.overhead", spec.overhead.as_ref())?);
    Ok(total.with(resources::PODS, Quantity::ONE))
}

/// Requests of the containers, and of the pod as a whole; without overhead.
pub(super) fn written_requests(spec: &PodSpec) -> Result<Resources, FieldError> {
    over_time(spec, |part| requested(part.requirements()))
}

/// Requests of the containers alone.
pub(crate) fn container_requests(spec: &PodSpec) -> Result<Resources, FieldError> {
    over_time(spec, |part| match part {
        Part::Whole(_) => Ok(Resources::new()),
        Part::Runs(_) | Part::Starts(_) => requested(part.requirements()),
    })
}

/// Limits of the containers, and of the pod as a whole, where there are any; without overhead.
pub(super) fn written_limits(spec: &PodSpec) -> Result<Resources, FieldError> {
    over_time(spec, |part| {
        let limits = part.requirements().and_then(|requirements| requirements.limits.as_ref());
        super::resources("resources.limits", limits)
    })
}

/// Limits of the containers of a pod, where there are any; overhead comes on top of what has a limit.
pub(super) fn effective_limits(spec: &PodSpec) -> Result<Resources, FieldError> {
    let mut total = written_limits(spec)?;
    let overhead = super::resources("spec.overhead", spec.overhead.as_ref())?;
    for (name, quantity) in
        overhead.iter().filter(|(name, _)| !total.amount(name.as_str()).is_zero()).collect::<Vec<_>>()
    {
        total.set(name.as_str(), total.amount(name.as_str()).saturating_add(*quantity));
    }
    Ok(total)
}

/// Part of a pod that is added up.
enum Part<'a> {
    /// A container that keeps running: a regular one or a sidecar.
    Runs(&'a Container),
    /// An init container that ends before the next one starts.
    Starts(&'a Container),
    /// The pod as a whole.
    Whole(Option<&'a ResourceRequirements>),
}

impl<'a> Part<'a> {
    fn requirements(&self) -> Option<&'a ResourceRequirements> {
        match *self {
            Self::Runs(container) | Self::Starts(container) => container.resources.as_ref(),
            Self::Whole(requirements) => requirements,
        }
    }
}

/// Returns whether an init container runs beside the containers until the pod ends.
pub(super) fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// The most a pod has at any moment of its life, with the amounts that `of` returns for each part.
fn over_time(
    spec: &PodSpec,
    of: impl Fn(Part<'_>) -> Result<Resources, FieldError>,
) -> Result<Resources, FieldError> {
    let mut running = Resources::new();
    for (index, container) in spec.containers.iter().enumerate() {
        running.add(&of(Part::Runs(container)).map_err(|error| at("containers", index, error))?);
    }
    let (mut sidecars, mut starting) = (Resources::new(), Resources::new());
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let named = |error| at("initContainers", index, error);
        let taken = if is_sidecar(container) {
            let own = of(Part::Runs(container)).map_err(named)?;
            running.add(&own);
            sidecars.add(&own);
            sidecars.clone()
        } else {
            of(Part::Starts(container)).map_err(named)?.merge(&sidecars)
        };
        starting = Resources::max([&starting, &taken]);
    }
    let mut total = Resources::max([&running, &starting]);
    let whole_pod = of(Part::Whole(spec.resources.as_ref())).map_err(|error| error.below("spec"))?;
    for (name, quantity) in whole_pod.iter().filter(|(name, _)| pod_level(name.as_str())) {
        total.set(name.as_str(), *quantity);
    }
    Ok(total)
}

fn at(list: &str, index: usize, error: FieldError) -> FieldError {
    error.below(&format!("spec.{list}[{index}]"))
}

/// Resources that may be asked for by the pod as a whole.
pub(crate) fn pod_level(name: &str) -> bool {
    name == resources::CPU || name == resources::MEMORY || name.starts_with(resources::HUGE_PAGES_PREFIX)
}

/// Resources that the containers of one pod hold, by its status.
struct Held<'a>(Option<&'a PodStatus>);

impl Held<'_> {
    fn by_container(&self, container: &Container) -> Result<Resources, FieldError> {
        let asked = requested(container.resources.as_ref())?;
        let Some((status, actual)) = self.report(&container.name) else { return Ok(asked) };
        let actual = super::resources("status.resources.requests", actual.requests.as_ref())?;
        let allocated = super::resources("status.allocatedResources", status.allocated_resources.as_ref())?;
        Ok(if self.resize_is_infeasible() {
            Resources::max([&actual, &allocated])
        } else {
            Resources::max([&asked, &actual, &allocated])
        })
    }

    /// The kubelet's status of the container, if it has resources.
    fn report(&self, container: &str) -> Option<(&ContainerStatus, &ResourceRequirements)> {
        let status = self.0?;
        let mut all =
            status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
        let found = all.find(|status| status.name == container)?;
        Some((found, found.resources.as_ref()?))
    }

    fn resize_is_infeasible(&self) -> bool {
        let conditions = self.0.and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
        })
    }
}

fn requested(requirements: Option<&ResourceRequirements>) -> Result<Resources, FieldError> {
    let requests = requirements.and_then(|requirements| requirements.requests.as_ref());
    super::resources("resources.requests", requests)
}

#[cfg(test)]
mod tests;
