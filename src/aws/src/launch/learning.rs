//! Evaluation of a fleet's answer: the instance that was launched, and the offerings without capacity (spec aws-provider 5.9).

use std::sync::Arc;

use crate::calls::refusal::LaunchFailure;
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::{FleetError, FleetInstances, FleetRequest, FleetResult};
use karpenter_cloud::{Error, LaunchRequest, OfferingKey};
use karpenter_model::CapacityType;

use super::filter::Candidate;
use super::fleet::TemplatedGroup;
use super::outcome;
use super::{Launched, Launcher, Prepared};
use crate::calls::observer::LaunchFailed;
use crate::launch::filter::reserved::Reserved;
use crate::market::unavailable::{Cause, Subject};

/// The error of a fleet that launched nothing.
pub(super) fn failure(request: &LaunchRequest, result: &FleetResult, prepared: &Prepared) -> Error {
    let placed = prepared.purchase.placed.as_ref();
    outcome::failure(request.claim.as_str(), &result.errors, placed).with_token_spent(true)
}

impl Launcher {
    /// Remembers what EC2 did not have, as far as it was tried.
    pub(super) fn learn(&self, result: &FleetResult, fleet: &FleetRequest, prepared: &Prepared) {
        let capacity_type = prepared.purchase.capacity_type;
        let placed = prepared.purchase.placed.as_ref();
        let attempt = outcome::Attempt { request: fleet, capacity_type, placed };
        if capacity_type == CapacityType::Spot {
            // EC2 has answered, if only with what it lacks.
            self.spot_failure.is_over();
        }
        let errors = outcome::conclusive(&result.errors);
        let out: Vec<_> = errors.iter().flat_map(|error| outcome::takes_out(error, attempt)).collect();
        let others = prepared.purchase.has_other_capacity_types || outcome::leaves_others(attempt, &out);
        for error in &errors {
            self.count(error, prepared);
            for (subject, cause) in outcome::takes_out(error, attempt) {
                // With nothing to fall back to, a growing pause would keep pods waiting after capacity is there again.
                let cause = if others { cause } else { cause.max(Cause::Wanted) };
                tracing::info!(?subject, code = %error.code, "offering unavailable");
                match &subject {
                    Subject::Subnet(subnet) => self.subnets.addresses().exhausted(subnet),
                    // A reservation has its own count. A full group is not an exhausted reservation, nor is one that was
                    // not tried.
                    Subject::Offering(_) | Subject::Placed(..) if capacity_type == CapacityType::Reserved => {
                        if !outcome::is_spread_full(error, placed)
                            && !outcome::is_not_tried(error)
                            && let Some(reserved) = reservation_of(error, prepared)
                        {
                            self.reservations.availability().exhausted(reserved.id.as_str());
                            continue;
                        }
                    }
                    Subject::Offering(_) | Subject::Placed(..) | Subject::CapacityType(_) => {}
                }
                self.unavailable.mark(subject, cause);
            }
        }
        if result.instances.is_empty() && errors.len() < result.errors.len() {
            self.pass_over(
                result.errors.iter().filter(|error| outcome::is_not_tried(error)),
                &errors,
                attempt,
            );
        }
    }

    /// Remembers what the failure of a whole call teaches: it names no offering, so it may be about any that was asked for.
    pub(super) fn learn_failure(
        &self,
        error: &karpenter_aws_api::Error,
        fleet: &FleetRequest,
        prepared: &Prepared,
    ) {
        // Without an answer, or after throttling, nothing is known about the offerings.
        let Some(code) = error.code.clone().filter(|_| error.kind != Kind::Throttled) else { return };
        let purchase = &prepared.purchase;
        let attempt = outcome::Attempt {
            request: fleet,
            capacity_type: purchase.capacity_type,
            placed: purchase.placed.as_ref(),
        };
        let refusal = FleetError {
            code,
            message: error.message.clone(),
            launch_template: None,
            instance_type: None,
            subnet: None,
            zone: None,
            spot: purchase.capacity_type == CapacityType::Spot,
        };
        let mut out = outcome::takes_out(&refusal, attempt);
        // EC2 can fail every call for spot for an hour with an error that names no offering (aws#9616), while
        // on-demand would be sold. One failure is a hiccup, so only those that last count.
        let fails = purchase.capacity_type == CapacityType::Spot && error.kind == Kind::Transient;
        if fails && self.spot_failure.lasts() && purchase.has_other_capacity_types {
            out =
                outcome::all_asked_for(attempt).into_iter().map(|subject| (subject, Cause::Wanted)).collect();
        }
        for (subject, cause) in out {
            tracing::info!(?subject, code = %refusal.code, "offering unavailable");
            self.unavailable.mark(subject, cause);
        }
    }

    /// Leaves alone for a moment what was not tried, where what was tried lacks capacity: with three offerings a try, a pool
    /// that has none would be tried again and again before another one, or another capacity type, has its turn. A quota
    /// that is used up is so for all.
    fn pass_over<'a>(
        &self,
        not_tried: impl Iterator<Item = &'a FleetError>,
        tried: &[&FleetError],
        attempt: outcome::Attempt<'_>,
    ) {
        let quota = tried.iter().any(|error| outcome::is_quota(error));
        // Reserved capacity is counted: a reservation that was not tried may have room.
        let may_be_there = attempt.capacity_type == CapacityType::Reserved && !quota;
        if may_be_there || !outcome::for_capacity(tried, attempt.placed) {
            return;
        }
        let cause = if quota { Cause::Wanted } else { Cause::Unnamed };
        for (subject, _) in not_tried.flat_map(|error| outcome::takes_out(error, attempt)) {
            self.unavailable.mark(subject, cause);
        }
    }

    fn count(&self, error: &FleetError, prepared: &Prepared) {
        let zone = error.zone.as_ref().map(ToString::to_string).unwrap_or_default();
        let zone_id = prepared.subnets.get(&zone).and_then(|subnet| subnet.zone_id.as_deref());
        let instance_type = error.instance_type.as_ref().map(ToString::to_string).unwrap_or_default();
        self.observer.launch_failed(&LaunchFailed {
            offering: OfferingKey {
                instance_type: instance_type.into(),
                zone: zone.into(),
                capacity_type: prepared.purchase.capacity_type,
            },
            zone_id: zone_id.unwrap_or_default(),
            reason: LaunchFailure::of(&error.code_and_message()).reason(),
        });
    }

    /// The first instance of the fleet; surplus ones, if any, are left to garbage collection.
    pub(super) fn launched(&self, result: &FleetResult, prepared: &Prepared) -> Option<Launched> {
        let group = result.instances.iter().find(|group| !group.ids.is_empty())?;
        let instance = group.ids.first()?.to_string();
        let subnet = group.offering.as_ref().map(|offering| &offering.subnet);
        let place = prepared.subnets.iter().find(|(_, place)| Some(&place.id) == subnet);
        let zone = match place {
            Some((zone, _)) => zone.clone(),
            None => group.offering.as_ref()?.zone.as_ref()?.to_string(),
        };
        let (templated, candidate) = templated(group, &zone, prepared)?;
        if let Some(reserved) = &templated.reserved {
            self.reservations.availability().launched(reserved.id.as_str(), self.clock.now());
        }
        Some(Launched {
            instance,
            instance_type: Arc::clone(&candidate.instance_type),
            zone_id: place.and_then(|(_, place)| place.zone_id.clone()),
            zone,
            capacity_type: prepared.purchase.capacity_type,
            image: templated.image.clone(),
            dedicated: prepared.purchase.dedicated,
            reserved: templated.reserved.clone(),
            placed: prepared.purchase.placed.clone(),
            // Set by the caller, which has the request of the claim.
            efa: false,
            tags: prepared.tags.clone(),
        })
    }
}

/// The template an instance was launched from, which EC2 does not repeat: a type in a zone is in one group only.
fn templated<'a>(
    instances: &FleetInstances,
    zone: &str,
    prepared: &'a Prepared,
) -> Option<(&'a TemplatedGroup, &'a Candidate)> {
    let matches = |candidate: &&Candidate| {
        candidate.instance_type.name.as_str() == instances.instance_type.as_str()
            && candidate.offerings.iter().any(|offering| offering.zone.as_str() == zone)
    };
    prepared.groups.iter().find_map(|templated| Some((templated, templated.candidates.iter().find(matches)?)))
}

/// The reservation a failure is about: that of its template, else of its type and zone.
fn reservation_of<'a>(error: &FleetError, prepared: &'a Prepared) -> Option<&'a Reserved> {
    let by_template = |group: &&TemplatedGroup| error.launch_template.as_ref() == Some(&group.template.name);
    let by_offering = |group: &&TemplatedGroup| {
        group.candidates.iter().any(|candidate| {
            let same_type = error
                .instance_type
                .as_ref()
                .is_some_and(|name| name.as_str() == candidate.instance_type.name.as_str());
            let zone = |offering: &karpenter_model::Offering| {
                error.zone.as_ref().is_none_or(|zone| zone.as_str() == offering.zone.as_str())
            };
            same_type && candidate.offerings.iter().any(zone)
        })
    };
    let found = prepared.groups.iter().find(by_template).or_else(|| prepared.groups.iter().find(by_offering));
    found?.reserved.as_ref()
}
