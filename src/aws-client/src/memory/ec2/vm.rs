//! One machine and its life: pending, running, perhaps stopped, shutting down, terminated, forgotten.

use std::time::Duration;

use jiff::Timestamp;

use super::super::options::Options;
use crate::ec2::{
    CapacityReservationPreference, HealthStatus, Instance, InstanceInterface, InstanceState, Lifecycle,
    ScheduledEvent, Tenancy,
};
use crate::id::{
    FleetId, ImageId, InstanceId, InstanceType, PlacementGroupId, ReservationId, SecurityGroupId, SubnetId,
    VpcId, Zone, ZoneId,
};
use crate::{Secret, Tags};

/// How long EC2 still shows a terminated instance.
const REMEMBERED: Duration = Duration::from_hours(1);

/// One machine.
#[derive(Clone, Debug)]
pub(in crate::memory) struct Vm {
    pub(in crate::memory) id: InstanceId,
    pub(in crate::memory) instance_type: InstanceType,
    pub(in crate::memory) image: ImageId,
    pub(in crate::memory) zone: Zone,
    pub(in crate::memory) zone_id: Option<ZoneId>,
    pub(in crate::memory) vpc: VpcId,
    pub(in crate::memory) subnet: SubnetId,
    pub(in crate::memory) groups: Vec<SecurityGroupId>,
    pub(in crate::memory) interfaces: Vec<InstanceInterface>,
    pub(in crate::memory) addresses: u32,
    pub(in crate::memory) private_ip: String,
    pub(in crate::memory) private_dns: String,
    pub(in crate::memory) profile: Option<String>,
    pub(in crate::memory) tenancy: Tenancy,
    pub(in crate::memory) placement_group: Option<PlacementGroupId>,
    pub(in crate::memory) partition: Option<u32>,
    pub(in crate::memory) lifecycle: Option<Lifecycle>,
    pub(in crate::memory) spot_request: Option<String>,
    pub(in crate::memory) reservation: Option<ReservationId>,
    pub(in crate::memory) preference: Option<CapacityReservationPreference>,
    pub(in crate::memory) fleet: FleetId,
    /// vCPUs it counts for in the quota; 0 in a capacity reservation.
    pub(in crate::memory) quota_vcpus: u32,
    /// Capacity limits it counts against.
    pub(in crate::memory) limits: Vec<u64>,
    pub(in crate::memory) user_data: Option<Secret>,
    pub(in crate::memory) tags: Tags,
    pub(in crate::memory) launched_at: Timestamp,
    pub(in crate::memory) state: InstanceState,
    /// Ends instead of reaching `running`.
    pub(in crate::memory) doomed: bool,
    pub(in crate::memory) stop_at: Option<Timestamp>,
    pub(in crate::memory) shutdown_at: Option<Timestamp>,
    pub(in crate::memory) ended_at: Option<Timestamp>,
    pub(in crate::memory) instance_health: HealthStatus,
    pub(in crate::memory) system_health: HealthStatus,
    pub(in crate::memory) events: Vec<ScheduledEvent>,
}

impl Vm {
    pub(in crate::memory) fn is_spot(&self) -> bool {
        self.lifecycle == Some(Lifecycle::Spot)
    }

    /// Asks for its end; an earlier date wins.
    pub(in crate::memory) fn end_at(&mut self, at: Timestamp) {
        self.shutdown_at = Some(self.shutdown_at.map_or(at, |planned| planned.min(at)));
    }

    /// The next state and when it is entered; `None` when nothing more will happen by itself.
    pub(super) fn next_change(&self, options: &Options) -> Option<(InstanceState, Timestamp)> {
        let later = |at: Timestamp, delay| at.saturating_add(delay).unwrap_or(Timestamp::MAX);
        let shutdown = self.shutdown_at.map(|at| (InstanceState::ShuttingDown, at));
        let stop = self.stop_at.map(|at| (InstanceState::Stopping, at));
        let earlier = |first: Option<(InstanceState, Timestamp)>, second| {
            [first, second].into_iter().flatten().min_by_key(|(_, at)| *at)
        };
        match self.state {
            InstanceState::Pending => {
                let boot = later(self.launched_at, options.boot_delay);
                let outcome = if self.doomed { InstanceState::ShuttingDown } else { InstanceState::Running };
                earlier(shutdown, Some((outcome, boot)))
            }
            InstanceState::Running => earlier(shutdown, stop),
            InstanceState::Stopping => earlier(
                shutdown,
                self.stop_at.map(|at| (InstanceState::Stopped, later(at, options.shutdown_delay))),
            ),
            InstanceState::Stopped => shutdown,
            InstanceState::ShuttingDown => {
                let since = self.shutdown_at.unwrap_or(self.launched_at);
                Some((InstanceState::Terminated, later(since, options.shutdown_delay)))
            }
            InstanceState::Terminated => None,
        }
    }

    pub(super) fn enter(&mut self, state: InstanceState, at: Timestamp) {
        self.state = state;
        match state {
            InstanceState::ShuttingDown => self.shutdown_at = Some(at),
            InstanceState::Terminated => self.ended_at = Some(at),
            _ => {}
        }
    }

    /// EC2 no longer admits that it existed.
    pub(super) fn is_forgotten(&self, now: Timestamp) -> bool {
        self.ended_at.is_some_and(|at| at.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX) <= now)
    }

    /// `DescribeInstances` shows it: launched long enough ago, not forgotten yet.
    pub(super) fn is_visible(&self, delay: Duration, now: Timestamp) -> bool {
        let shown_from = self.launched_at.saturating_add(delay).unwrap_or(Timestamp::MAX);
        shown_from <= now && !self.is_forgotten(now)
    }

    pub(in crate::memory) fn describe(&self) -> Instance {
        let gone = self.state == InstanceState::Terminated;
        Instance {
            id: self.id.clone(),
            instance_type: self.instance_type.clone(),
            image: self.image.clone(),
            state: self.state,
            zone: self.zone.clone(),
            zone_id: self.zone_id.clone(),
            tenancy: self.tenancy,
            placement_group: self.placement_group.clone(),
            partition: self.partition,
            lifecycle: self.lifecycle.clone(),
            spot_request: self.spot_request.clone(),
            reservation: self.reservation.clone(),
            reservation_preference: self.preference,
            launched_at: self.launched_at,
            // A terminated instance has lost its place in the network.
            subnet: (!gone).then(|| self.subnet.clone()),
            vpc: (!gone).then(|| self.vpc.clone()),
            security_groups: if gone { Vec::new() } else { self.groups.clone() },
            interfaces: if gone { Vec::new() } else { self.interfaces.clone() },
            private_dns: (!gone).then(|| self.private_dns.clone()),
            private_ip: (!gone).then(|| self.private_ip.clone()),
            instance_profile: self.profile.clone(),
            tags: self.tags.clone(),
        }
    }
}
