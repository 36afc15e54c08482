//! The form reservations have in a `NodeClass`'s status (spec aws-provider 1.6, 9).

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{
    AmiFamily, CapacityReservation as StatusReservation, ReservationMatch, ReservationState, ReservationType,
};
use karpenter_aws_api::ec2::CapacityReservation;
use karpenter_model::clock::later;

use crate::image::family::{FamilyTraits, family_of};

/// Prefixes of the platforms that are a Linux.
const LINUX: [&str; 5] = ["Linux", "Red Hat", "RHEL", "SUSE", "Ubuntu"];

/// Time before its end at which a capacity block is left. EC2 takes its instances 30 minutes before the end.
pub(crate) const LEFT_BEFORE_END: Duration = Duration::from_mins(40);

/// EC2's spelling of which instances a reservation accepts.
pub fn criteria(wanted: ReservationMatch) -> &'static str {
    match wanted {
        ReservationMatch::Open => "open",
        ReservationMatch::Targeted => "targeted",
    }
}

/// Returns whether the instances of the reservation have to be gone by now. Only capacity blocks end under their instances:
/// instances of an ordinary reservation go on as on-demand ones.
pub fn is_expiring(reservation: &CapacityReservation, now: Timestamp) -> bool {
    let block = kind(reservation) == Some(ReservationType::CapacityBlock);
    block && reservation.ends_at.is_some_and(|end| later(now, LEFT_BEFORE_END) >= end)
}

/// The status entries, in the order given. Reservations of a kind that did not exist when this was written are left
/// out and logged: the way to launch into them is unknown. So are those that no launch of the class enters: classes do
/// not ask for dedicated hardware, their pools do, and `dedicated` is true if one does.
pub fn to_status(
    reservations: &[CapacityReservation],
    class: &EC2NodeClass,
    dedicated: bool,
    now: Timestamp,
) -> Vec<StatusReservation> {
    reservations
        .iter()
        .filter_map(|reservation| {
            let entry = entry(reservation, now);
            if entry.is_none() {
                tracing::warn!(reservation = %reservation.id, kind = ?reservation.kind,
                    criteria = reservation.match_criteria, "capacity reservation of an unknown kind left out");
            } else if !is_for(reservation, family_of(&class.spec), dedicated) {
                tracing::warn!(reservation = %reservation.id, platform = ?reservation.platform,
                    tenancy = ?reservation.tenancy, "capacity reservation of another platform or tenancy left out");
                return None;
            }
            entry
        })
        .collect()
}

/// Returns whether such instances may run in the reservation. In doubt they may.
fn is_for(reservation: &CapacityReservation, family: AmiFamily, dedicated: bool) -> bool {
    let platform = reservation.platform.as_deref().unwrap_or_default();
    let runs = if family.windows() {
        !LINUX.iter().any(|linux| platform.starts_with(linux))
    } else {
        // The platform of a custom image is not known.
        family == AmiFamily::Custom || !platform.starts_with("Windows")
    };
    runs && (dedicated || reservation.tenancy.as_deref() != Some("dedicated"))
}

fn entry(reservation: &CapacityReservation, now: Timestamp) -> Option<StatusReservation> {
    let instance_match_criteria = match reservation.match_criteria.as_str() {
        "open" => ReservationMatch::Open,
        "targeted" => ReservationMatch::Targeted,
        _ => return None,
    };
    let expiring = is_expiring(reservation, now);
    Some(StatusReservation {
        availability_zone: reservation.zone.to_string(),
        end_time: reservation.ends_at.map(Into::into),
        id: reservation.id.to_string(),
        instance_match_criteria,
        instance_type: reservation.instance_type.to_string(),
        owner_id: reservation.owner.clone(),
        reservation_type: kind(reservation)?,
        interruptible: reservation.interruptible.unwrap_or_default(),
        state: if expiring { ReservationState::Expiring } else { ReservationState::Active },
    })
}

fn kind(reservation: &CapacityReservation) -> Option<ReservationType> {
    match reservation.kind.as_deref() {
        None | Some("" | "default") => Some(ReservationType::Default),
        Some("capacity-block") => Some(ReservationType::CapacityBlock),
        Some(_) => None,
    }
}
