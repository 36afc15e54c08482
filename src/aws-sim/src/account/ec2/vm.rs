//! One machine and its life: pending, running, perhaps stopped, shutting down, terminated, forgotten.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::{Secret, Tags};
use karpenter_model::clock::later;

use crate::options::Options;
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityReservationPreference, HealthStatus, Instance, InstanceInterface, InstanceState,
    Lifecycle, ScheduledEvent, Tenancy,
};
use karpenter_aws_api::id::{
    FleetId, ImageId, InstanceId, InstanceType, PlacementGroupId, ReservationId, SecurityGroupId, SubnetId,
    VpcId, Zone, ZoneId,
};

/// Time for which EC2 still shows a terminated instance.
const REMEMBERED: Duration = Duration::from_hours(1);

/// One machine.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub(crate) id: InstanceId,
    pub(crate) instance_type: InstanceType,
    pub(crate) image: ImageId,
    pub(crate) zone: Zone,
    pub(crate) zone_id: Option<ZoneId>,
    pub(crate) vpc: VpcId,
    pub(crate) subnet: SubnetId,
    pub(crate) groups: Vec<SecurityGroupId>,
    pub(crate) interfaces: Vec<InstanceInterface>,
    pub(crate) addresses: u32,
    pub(crate) private_ip: String,
    pub(crate) private_dns: String,
    pub(crate) profile: Option<String>,
    pub(crate) tenancy: Tenancy,
    pub(crate) placement_group: Option<PlacementGroupId>,
    pub(crate) partition: Option<u32>,
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) spot_request: Option<String>,
    pub(crate) reservation: Option<ReservationId>,
    pub(crate) preference: Option<CapacityReservationPreference>,
    pub(crate) fleet: FleetId,
    /// vCPUs it counts for in the quota; 0 in a capacity reservation.
    pub(crate) quota_vcpus: u32,
    /// Capacity limits it counts against.
    pub(crate) limits: Vec<u64>,
    pub(crate) user_data: Option<Secret>,
    /// Volumes its launch template asked for.
    pub(crate) volumes: Vec<BlockDevice>,
    pub(crate) tags: Tags,
    pub(crate) launched_at: Timestamp,
    /// Reboots since then.
    pub(crate) reboots: u32,
    pub(crate) state: InstanceState,
    /// Ends instead of reaching `running`.
    pub(crate) doomed: bool,
    pub(crate) stop_at: Option<Timestamp>,
    pub(crate) shutdown_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) instance_health: HealthStatus,
    pub(crate) system_health: HealthStatus,
    pub(crate) events: Vec<ScheduledEvent>,
}

impl Vm {
    /// An instance as `DescribeInstances` shows it, whose launch the account knows nothing about: it counts against
    /// neither quotas nor limits.
    pub(crate) fn found(instance: Instance, user_data: Option<Secret>) -> Self {
        let healthy = HealthStatus { status: "ok".to_owned(), failed: false, impaired_since: None };
        Self {
            id: instance.id,
            instance_type: instance.instance_type,
            image: instance.image,
            zone: instance.zone,
            zone_id: instance.zone_id,
            vpc: instance.vpc.unwrap_or_else(|| "".into()),
            subnet: instance.subnet.unwrap_or_else(|| "".into()),
            groups: instance.security_groups,
            interfaces: instance.interfaces,
            addresses: 1,
            private_ip: instance.private_ip.unwrap_or_default(),
            private_dns: instance.private_dns.unwrap_or_default(),
            profile: instance.instance_profile,
            tenancy: instance.tenancy,
            placement_group: instance.placement_group,
            partition: instance.partition,
            lifecycle: instance.lifecycle,
            spot_request: instance.spot_request,
            reservation: instance.reservation,
            preference: instance.reservation_preference,
            fleet: instance.tags.get("aws:ec2:fleet-id").cloned().unwrap_or_default().into(),
            quota_vcpus: 0,
            limits: Vec::new(),
            user_data,
            volumes: Vec::new(),
            tags: instance.tags,
            launched_at: instance.launched_at,
            reboots: 0,
            state: instance.state,
            doomed: false,
            stop_at: None,
            shutdown_at: None,
            ended_at: None,
            instance_health: healthy.clone(),
            system_health: healthy,
            events: Vec::new(),
        }
    }

    pub(crate) fn is_spot(&self) -> bool {
        self.lifecycle == Some(Lifecycle::Spot)
    }

    /// Asks for its end; an earlier date wins.
    pub(crate) fn end_at(&mut self, at: Timestamp) {
        self.shutdown_at = Some(self.shutdown_at.map_or(at, |planned| planned.min(at)));
    }

    /// The next state and when it is entered; `None` when nothing more will happen by itself.
    pub(super) fn next_change(&self, options: &Options) -> Option<(InstanceState, Timestamp)> {
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
        self.ended_at.is_some_and(|at| later(at, REMEMBERED) <= now)
    }

    /// `DescribeInstances` shows it: launched long enough ago, not forgotten yet.
    pub(super) fn is_visible(&self, delay: Duration, now: Timestamp) -> bool {
        let shown_from = later(self.launched_at, delay);
        shown_from <= now && !self.is_forgotten(now)
    }

    pub(crate) fn describe(&self) -> Instance {
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
