//! The kubelet settings of one type: those of the class, with its expressions evaluated.

use std::borrow::Cow;

use karpenter_api::ec2nodeclass::{AmiFamily, KubeletConfiguration, Place, Variables};
use karpenter_aws_api::ec2::InstanceTypeInfo;

use super::capacity::{capacity, interfaces};
use super::overhead;
use crate::catalogue::density;
use crate::class::expressions::Evaluated;
use crate::class::view::ClassView;
use crate::settings::Settings;

/// An expression without a result for a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct Failure {
    place: Place,
    cause: String,
}

/// Evaluates the expressions of the class, and adds what else its nodes reserve for Kubernetes where they are to state it;
/// the result is empty where it has neither.
///
/// # Errors
/// The first expression that has no result. Nothing is launched then: with the default in its place a node would take
/// other pods than its class allows.
pub fn evaluate(
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    settings: &Settings,
) -> Result<Evaluated, Failure> {
    let mut evaluated = expressions(info, view, settings)?;
    // User data of a custom image is sent as it is, so there is no document to state reservations in.
    if view.reserves_explicitly && view.family != AmiFamily::Custom {
        let kubelet = laid_over(view, &evaluated);
        let stated = kubelet.kube_reserved.as_ref();
        let computed =
            overhead::of_type(info, view, &kubelet, &capacity(info, view, &kubelet, settings)).kube_reserved;
        let left = computed
            .iter()
            .filter(|(name, _)| !stated.is_some_and(|stated| stated.contains_key(name.as_str())));
        evaluated.kube_reserved.extend(left.map(|(name, amount)| (name.to_string(), amount.to_string())));
    }
    Ok(evaluated)
}

fn expressions(
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    settings: &Settings,
) -> Result<Evaluated, Failure> {
    let mut evaluated = Evaluated::default();
    if view.expressions.is_empty() {
        return Ok(evaluated);
    }
    let network = interfaces(info, view);
    let pods = |max_pods| {
        let kubelet = KubeletConfiguration {
            max_pods,
            pods_per_core: view.kubelet.pods_per_core,
            ..KubeletConfiguration::default()
        };
        density::pods(view.family, Some(&kubelet), info.vcpus, network, settings.reserved_enis)
    };
    let mut variables = Variables {
        instance_type: info.name.as_str(),
        vcpus: info.vcpus.into(),
        memory_mib: i64::try_from(info.memory_mib).unwrap_or(i64::MAX),
        default_enis: network.count.into(),
        ips_per_eni: network.ipv4_each.into(),
        max_pods: pods(view.kubelet.max_pods).into(),
    };
    for (place, program) in view.expressions.iter() {
        let result = program.evaluate(&variables).and_then(|result| evaluated.put(place, result));
        result.map_err(|cause| Failure { place: place.clone(), cause })?;
        // It comes first in the list, so that the expressions after it see its result.
        if *place == Place::MaxPods {
            variables.max_pods = pods(evaluated.max_pods).into();
        }
    }
    Ok(evaluated)
}

/// The settings of the type; those of the class without expressions where one has no result.
pub(crate) fn settings_of<'a>(
    info: &InstanceTypeInfo,
    view: &'a ClassView<'_>,
    settings: &Settings,
) -> Cow<'a, KubeletConfiguration> {
    match evaluate(info, view, settings) {
        Ok(evaluated) if evaluated != Evaluated::default() => Cow::Owned(laid_over(view, &evaluated)),
        Ok(_) | Err(_) => Cow::Borrowed(&view.kubelet),
    }
}

fn laid_over(view: &ClassView<'_>, evaluated: &Evaluated) -> KubeletConfiguration {
    let mut kubelet = view.kubelet.clone();
    evaluated.lay_over(&mut kubelet);
    kubelet
}
