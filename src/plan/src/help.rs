//! Help for a pod that stays pending, by the reason.
//!
//! A reason nothing can be done about from outside has no advice; the text of the reason says what is in the way.

use karpenter_model::PoolName;
use karpenter_model::report::ReasonCode;

/// The advice for a reason, if there is any.
pub(crate) fn help(code: ReasonCode, pool: Option<&PoolName>) -> Option<String> {
    let pool = pool.map_or_else(|| "a pool".to_owned(), |pool| format!("pool `{pool}`"));
    let text = match code {
        ReasonCode::OptedOut => {
            "remove what the pod opts out with, or place it by another autoscaler".to_owned()
        }
        ReasonCode::InvalidRequirement => "correct the node selector or affinity of the pod".to_owned(),
        ReasonCode::MatchFields => "replace matchFields of the pod by matchExpressions".to_owned(),
        ReasonCode::InvalidVolume => {
            "create the volume claim and its storage class, or correct their names".to_owned()
        }
        ReasonCode::ResourceClaims => {
            "set ignore-dra-requests to false if devices are to be planned for".to_owned()
        }
        ReasonCode::InvalidClaim => "create the resource claim, or correct what it asks for".to_owned(),
        ReasonCode::NoPools => {
            "add a NodePool whose EC2NodeClass is ready; notes say why those there are not".to_owned()
        }
        ReasonCode::PoolNotReady => format!("make {pool} ready; its conditions say what is missing"),
        ReasonCode::NoInstanceTypes => {
            format!("correct the node class of {pool}; its conditions say what is missing")
        }
        ReasonCode::NoCompatibleInstanceTypes => {
            format!("widen the requirements of {pool}; no instance type meets them")
        }
        ReasonCode::Requirements => {
            format!("allow in {pool} what the pod asks for (labels, zones, capacity types), or ask for less")
        }
        ReasonCode::VolumeTopology => format!("let {pool} launch in the zone of the volumes"),
        ReasonCode::Taint => {
            format!("give the pod a toleration for the taint of {pool}, or add a pool without it")
        }
        ReasonCode::HostPort => "let the pod use another host port, or none".to_owned(),
        ReasonCode::InstanceTypes => {
            format!("ask for less per pod, or widen instance types, zones or capacity types of {pool}")
        }
        ReasonCode::Limits => format!("raise spec.limits of {pool}"),
        ReasonCode::MinValues => format!(
            "lower minValues of {pool}, widen its requirements, or set min-values-policy to BestEffort"
        ),
        ReasonCode::Devices => format!("allow instance types with the devices in {pool}"),
        ReasonCode::Topology => {
            "relax the spread constraint or affinity, or allow more zones and hosts".to_owned()
        }
        ReasonCode::Reservation => {
            "wait for a reservation to become free, or allow on-demand or spot".to_owned()
        }
        _ => return None,
    };
    Some(text)
}
