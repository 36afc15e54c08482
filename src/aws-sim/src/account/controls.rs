//! Operations of a test on the account that no customer has: capacity, prices, faults, bad luck.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::eks::Cluster;
use karpenter_aws_api::iam::OidcProvider;
use karpenter_aws_api::id::{Arn, ImageId, InstanceId, InstanceType, ReservationId, SubnetId, Zone};
use karpenter_aws_api::{Result, Secret};
use karpenter_model::clock::later;

use super::ec2::{OfferingSelector, Template, Vm};
use super::eks::ClusterEntry;
use super::notices;
use super::{Account, State};
use crate::calls::CallLog;
use crate::faults::Fault;
use crate::options::Quotas;
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityReservation, HealthStatus, Image, Instance, InstanceState, InstanceTypeInfo,
    LaunchTemplate, LaunchTemplateData, PlacementGroup, RunInstancesRequest, ScheduledEvent, SecurityGroup,
    Subnet, TagSpecification,
};

/// Status check that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impairment {
    /// The operating system cannot be reached.
    Instance,
    /// The hardware cannot be reached.
    System,
}

/// Faults, capacity and prices.
impl Account {
    /// Injects a fault; the first one that matches a call wins.
    pub fn inject(&self, fault: Fault) {
        self.truth(|state, _| state.inject(fault));
    }

    /// Throttles an operation: `burst` calls at once, refilled at `per_second`.
    pub fn throttle(&self, operation: &str, burst: u32, per_second: u32) {
        self.truth(|state, now| state.throttle(operation, burst, per_second, now));
    }

    /// Removes all faults and throttles.
    pub fn heal(&self) {
        self.truth(|state, _| state.clear_faults());
    }

    /// Limits these offerings together to this number of further instances; 0 is an insufficient-capacity error.
    pub fn limit_capacity(&self, offerings: OfferingSelector, remaining: u32) {
        self.truth(|state, _| state.compute.capacity.limit(offerings, remaining));
    }

    /// Removes the limit set on exactly these offerings.
    pub fn unlimit_capacity(&self, offerings: &OfferingSelector) {
        self.truth(|state, _| state.compute.capacity.unlimit(offerings));
    }

    /// Changes the account's quotas.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.truth(|state, _| state.compute.capacity.quotas = quotas);
    }

    /// On-demand price in billionths of a dollar per hour.
    pub fn set_on_demand_price(&self, instance_type: &str, nanos: u64) {
        self.truth(|state, _| state.catalogue.on_demand.insert(instance_type.into(), nanos));
    }

    /// Spot price in billionths of a dollar per hour.
    pub fn set_spot_price(&self, instance_type: &str, zone: &str, nanos: u64) {
        self.truth(|state, _| state.catalogue.spot.insert((instance_type.into(), zone.into()), nanos));
    }

    /// Changes the prices of offerings: `percent` of what each costs now.
    pub fn scale_prices(&self, offerings: &OfferingSelector, percent: u64) {
        self.truth(|state, _| {
            let catalogue = &mut state.catalogue;
            for (name, price) in &mut catalogue.on_demand {
                let of_type = offerings.instance_type.as_ref().is_none_or(|wanted| wanted == name);
                // On-demand prices are the same in every zone.
                if of_type && offerings.zone.is_none() && offerings.spot != Some(true) {
                    *price = price.saturating_mul(percent) / 100;
                }
            }
            for ((name, zone), price) in &mut catalogue.spot {
                if offerings.matches(name, zone, true) {
                    *price = price.saturating_mul(percent) / 100;
                }
            }
        });
    }

    /// Publishes a newer release of every image AWS names `recommended` or `latest`, called `release` from now on.
    pub fn release_images(&self, release: &str) {
        self.truth(|state, now| {
            let names = |path: &&String| {
                path.ends_with("/recommended/image_id") || path.ends_with("/latest/image_id")
            };
            let named: Vec<String> = state.parameters.keys().filter(names).cloned().collect();
            for path in named {
                let old = state.parameters.get(&path).map(|id| ImageId::from(id.as_str()));
                let Some(mut image) = old.and_then(|id| state.compute.images.get(&id)).cloned() else {
                    continue;
                };
                let base = image.name.rsplit_once('-').map_or(image.name.as_str(), |(base, _)| base);
                image.name = format!("{base}-{release}");
                // The images of the account's first day have lower numbers.
                image.id = ImageId::from(format!("ami-{:017x}", state.compute.images.len() + 0x0b00));
                image.created_at = now;
                state.parameters.insert(path, image.id.to_string());
                state.compute.images.insert(image.id.clone(), image);
            }
        });
    }

    /// Free addresses of a subnet from now on; `false` when there is no such subnet.
    pub fn set_free_addresses(&self, subnet: &SubnetId, free: u32) -> bool {
        self.truth(|state, _| {
            let found = state.compute.network.subnets.get_mut(subnet);
            found.map(|subnet| subnet.free_addresses = free).is_some()
        })
    }

    /// Lets this number of the next instances end instead of reaching `running`.
    pub fn doom_next_boots(&self, count: u32) {
        self.truth(|state, _| state.compute.doomed_boots = count);
    }
}

/// Other objects of the account.
impl Account {
    /// Writes a policy into a role, as `PutRolePolicy` would; true when the role exists.
    pub fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> bool {
        self.truth(|state, _| {
            let found = state.directory.roles.get_mut(role);
            found.map(|entry| entry.inline.insert(policy.to_owned(), document.to_owned())).is_some()
        })
    }

    /// Adds, or replaces, an identity provider that roles may trust.
    pub fn put_oidc_provider(&self, arn: Arn, provider: OidcProvider) {
        self.truth(|state, _| state.directory.providers.insert(arn, provider));
    }

    /// Adds, or replaces, a subnet.
    pub fn put_subnet(&self, subnet: Subnet) {
        self.truth(|state, _| state.compute.network.subnets.insert(subnet.id.clone(), subnet));
    }

    /// Adds, or replaces, a security group.
    pub fn put_security_group(&self, group: SecurityGroup) {
        self.truth(|state, _| state.compute.network.groups.insert(group.id.clone(), group));
    }

    /// Adds, or replaces, an image.
    pub fn put_image(&self, image: Image) {
        self.truth(|state, _| state.compute.images.insert(image.id.clone(), image));
    }

    /// Sells an instance type in these zones too, on-demand and as spot, at these billionths of a dollar per hour.
    pub fn sell(&self, info: InstanceTypeInfo, zones: &[Zone], on_demand: u64, spot: u64) {
        self.truth(|state, _| {
            let catalogue = &mut state.catalogue;
            for zone in zones {
                catalogue.offerings.insert((info.name.clone(), zone.clone()));
                catalogue.spot.insert((info.name.clone(), zone.clone()), spot);
            }
            catalogue.on_demand.insert(info.name.clone(), on_demand);
            catalogue.types.insert(info.name.clone(), info);
        });
    }

    /// Stops selling a type in a zone; offerings that were read before still name it.
    pub fn withdraw(&self, instance_type: &str, zone: &str) {
        let offering = (InstanceType::from(instance_type), Zone::from(zone));
        self.truth(|state, _| state.catalogue.offerings.remove(&offering));
    }

    /// Adds, or replaces, a launch template that another client has created.
    pub fn put_launch_template(&self, summary: LaunchTemplate, data: LaunchTemplateData) {
        self.truth(|state, _| {
            state.compute.templates.insert(summary.name.clone(), Template { summary, data })
        });
    }

    /// Adds an instance that another client has launched; it has its addresses already.
    pub fn put_instance(&self, instance: Instance, user_data: Option<Secret>) {
        self.truth(|state, _| {
            let vm = Vm::found(instance, user_data);
            state.compute.touch(&vm.id);
            state.compute.vms.insert(vm);
        });
    }

    /// Sets a parameter.
    pub fn put_parameter(&self, name: &str, value: &str) {
        self.truth(|state, _| state.parameters.insert(name.to_owned(), value.to_owned()));
    }

    /// Adds, or replaces, a capacity reservation.
    pub fn put_capacity_reservation(&self, reservation: CapacityReservation) {
        self.truth(|state, _| state.compute.reservations.insert(reservation.id.clone(), reservation));
    }

    /// Ends a capacity reservation: its instances go on as on-demand ones.
    pub fn end_reservation(&self, id: &ReservationId) {
        self.truth(|state, _| {
            state.compute.reservations.remove(id);
            for vm in state.compute.vms.select_mut(|vm| vm.reservation.as_ref() == Some(id)) {
                vm.reservation = None;
                vm.lifecycle = None;
            }
        });
    }

    /// Adds, or replaces, a placement group.
    pub fn put_placement_group(&self, group: PlacementGroup) {
        self.truth(|state, _| state.compute.placement_groups.insert(group.id.clone(), group));
    }

    /// Adds a cluster, or replaces it together with its access entries.
    pub fn put_cluster(&self, cluster: Cluster) {
        self.truth(|state, _| {
            state.clusters.clusters.insert(cluster.name.clone(), ClusterEntry::new(cluster))
        });
    }

    /// Removes an add-on of a cluster; `false` when it was not there.
    pub fn remove_addon(&self, cluster: &str, addon: &str) -> bool {
        self.truth(|state, _| {
            let entry = state.clusters.clusters.get_mut(cluster);
            entry.is_some_and(|entry| entry.addons.remove(addon).is_some())
        })
    }
}

/// Events of instances. An id that does not exist is an error.
impl Account {
    /// Reclaims a spot instance: warning now, end after [`crate::Options::spot_notice`].
    pub fn interrupt_spot(&self, id: &InstanceId) -> Result<()> {
        let notice = self.options().spot_notice;
        self.strike_instance(id, |state, now| {
            end_after(state, id, notice, now)?;
            notices::spot_interruption(state, id, now);
            Ok(())
        })
    }

    /// Recommends to rebalance a spot instance.
    pub fn recommend_rebalance(&self, id: &InstanceId) -> Result<()> {
        self.strike_instance(id, |state, now| {
            notices::rebalance(state, id, now);
            Ok(())
        })
    }

    /// Takes an instance back into its interruptible capacity reservation.
    pub fn interrupt_reservation(&self, id: &InstanceId) -> Result<()> {
        let notice = self.options().spot_notice;
        self.strike_instance(id, |state, now| {
            end_after(state, id, notice, now)?;
            notices::reservation_interruption(state, id, now);
            Ok(())
        })
    }

    /// Schedules maintenance: a health notice, and an event in the instance's status.
    pub fn schedule_event(&self, id: &InstanceId, code: &str, not_before: Timestamp) -> Result<()> {
        self.strike_instance(id, |state, now| {
            let event = ScheduledEvent {
                code: code.to_owned(),
                description: "The instance is running on degraded hardware".to_owned(),
                not_before: Some(not_before),
            };
            state.compute.find("schedule", id)?.events.push(event);
            notices::scheduled_change(state, id, now);
            Ok(())
        })
    }

    /// A status check begins to fail.
    pub fn impair(&self, id: &InstanceId, which: Impairment) -> Result<()> {
        self.strike_instance(id, |state, now| {
            let vm = state.compute.find("impair", id)?;
            let status =
                HealthStatus { status: "impaired".to_owned(), failed: true, impaired_since: Some(now) };
            match which {
                Impairment::Instance => vm.instance_health = status,
                Impairment::System => vm.system_health = status,
            }
            Ok(())
        })
    }

    /// Lets both status checks pass again.
    pub fn recover(&self, id: &InstanceId) -> Result<()> {
        self.strike_instance(id, |state, _| {
            let vm = state.compute.find("recover", id)?;
            let status = HealthStatus { status: "ok".to_owned(), failed: false, impaired_since: None };
            vm.instance_health = status.clone();
            vm.system_health = status;
            Ok(())
        })
    }

    /// Another client stops the instance.
    pub fn stop(&self, id: &InstanceId) -> Result<()> {
        self.strike_instance(id, |state, now| {
            state.compute.find("stop", id)?.stop_at = Some(now);
            state.compute.touch(id);
            Ok(())
        })
    }

    /// Another client terminates the instance: not a call of ours, so not in the log.
    pub fn terminate_behind_our_back(&self, id: &InstanceId) -> Result<()> {
        self.strike_instance(id, |state, now| end_after(state, id, Duration::ZERO, now))
    }

    fn strike_instance(
        &self,
        id: &InstanceId,
        act: impl FnOnce(&mut State, Timestamp) -> Result<()>,
    ) -> Result<()> {
        self.truth(|state, now| {
            state.compute.find("control", id)?;
            act(state, now)
        })
    }
}

/// The truth.
impl Account {
    /// Every instance that ever was, terminated and invisible ones included.
    pub fn instances(&self) -> Vec<Instance> {
        self.truth(|state, _| state.compute.vms.values().map(Vm::describe).collect())
    }

    /// Instances that still hold capacity: everything but `terminated`.
    pub fn live_instances(&self) -> Vec<Instance> {
        let mut instances = self.instances();
        instances.retain(|instance| instance.state != InstanceState::Terminated);
        instances
    }

    /// Returns the instances that still hold capacity, shared; the same allocation as the last time when none of them has
    /// changed.
    pub fn live(&self) -> Arc<Vec<Arc<Instance>>> {
        self.truth(|state, _| state.compute.vms.live())
    }

    /// User data of an instance as the machine would read it.
    pub fn user_data(&self, id: &InstanceId) -> Option<Secret> {
        self.truth(|state, _| state.compute.vms.get(id).and_then(|vm| vm.user_data.clone()))
    }

    /// Volumes that the launch template of an instance asked for.
    pub fn volumes(&self, id: &InstanceId) -> Vec<BlockDevice> {
        self.truth(|state, _| state.compute.vms.get(id).map(|vm| vm.volumes.clone()).unwrap_or_default())
    }

    /// Number of times that an instance was rebooted, of which EC2 shows nothing.
    pub fn reboots(&self, id: &InstanceId) -> u32 {
        self.truth(|state, _| state.compute.vms.get(id).map_or(0, |vm| vm.reboots))
    }

    /// Every launch template with its content.
    pub fn launch_templates(&self) -> Vec<(LaunchTemplate, LaunchTemplateData)> {
        let content = |template: &Template| (template.summary.clone(), template.data.clone());
        self.truth(|state, _| state.compute.templates.values().map(content).collect())
    }

    /// Tags that the latest dry run of an operation would have put on what it launches.
    pub fn dry_run_tags(&self, operation: &str) -> Vec<TagSpecification> {
        self.truth(|state, _| state.compute.dry_run_tags.get(operation).cloned().unwrap_or_default())
    }

    /// The launches that were checked by dry runs of `RunInstances`, the latest last.
    pub fn dry_runs(&self) -> Vec<RunInstancesRequest> {
        self.truth(|state, _| state.compute.dry_runs.clone())
    }

    /// On-demand price in billionths of a dollar per hour.
    pub fn on_demand_price(&self, instance_type: &str) -> Option<u64> {
        self.truth(|state, _| state.catalogue.on_demand.get(instance_type).copied())
    }

    /// Spot price in billionths of a dollar per hour.
    pub fn spot_price(&self, instance_type: &str, zone: &str) -> Option<u64> {
        self.truth(|state, _| state.catalogue.spot.get(&(instance_type.into(), zone.into())).copied())
    }

    /// All calls so far.
    pub fn calls(&self) -> CallLog {
        self.truth(|state, _| state.calls.clone())
    }

    /// Forgets the calls so far, for tests that count from here.
    pub fn forget_calls(&self) {
        self.truth(|state, _| state.calls = CallLog::default());
    }
}

fn end_after(state: &mut State, id: &InstanceId, delay: Duration, now: Timestamp) -> Result<()> {
    let at = later(now, delay);
    state.compute.find("end", id)?.end_at(at);
    state.compute.touch(id);
    Ok(())
}
