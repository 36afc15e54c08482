//! Launching one instance for one claim (spec aws-provider 5).
//!
//! Narrow the types, make sure their templates exist, ask EC2 for one instance of whichever it has, learn from
//! what it did not have. Idempotent: the fleet request carries the claim's token, so the same call again gives
//! the same instance.

pub mod bootstrap;
pub mod check;
pub mod draft;
pub mod filter;
pub mod fleet;
pub mod group;
mod learning;
pub mod limit;
mod lost;
pub mod outcome;
pub mod placed;
pub mod spot_failure;
pub mod template;
pub mod templates;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::ec2nodeclass::{AmiFamily, EC2NodeClass, Ec2NodeClassStatus};
use karpenter_aws_api::Clients;
use karpenter_aws_api::ec2::{FleetRequest, FleetResult};
use karpenter_cloud::{Error, Kind, LaunchRequest};
use karpenter_model::names::{annotation, label, reason};
use karpenter_model::{CapacityType, Clock, InstanceType, LabelRegistry};

use crate::calls::fault::launch_error;
use crate::calls::observer::Observer;
use crate::catalogue::Catalogue;
use crate::class::view::ClassView;
use crate::cluster::Cluster;
use crate::image::family::family_of;
use crate::market::reservations::Reservations;
use crate::market::unavailable::Unavailable;
use crate::network::addresses::Charge;
use crate::network::placement_groups::PlacementGroups;
use crate::network::subnets::{Subnets, ZonalSubnet};
use crate::settings::Settings;
use crate::tags;

use crate::launch::filter::reserved::Reserved;
use draft::{Draft, Drafts, Purchase, not_ready, status};
use fleet::TemplatedGroup;
use limit::Limit;
use placed::Placed;
use spot_failure::SpotFailure;
use templates::Templates;

const OPERATION: &str = "launch instance for claim";

/// Everything a launch needs besides the request itself. Shared by all launches.
pub struct Launcher {
    /// AWS.
    pub clients: Clients,
    pub settings: Arc<Settings>,
    /// Facts about the cluster.
    pub cluster: Arc<Cluster>,
    /// Types and zones as EC2 describes them.
    pub catalogue: Arc<Catalogue>,
    /// Subnets and their free addresses.
    pub subnets: Arc<Subnets>,
    pub templates: Arc<Templates>,
    /// Memory of failures.
    pub unavailable: Arc<Unavailable>,
    pub placement_groups: Arc<PlacementGroups>,
    /// Free capacity in reservations.
    pub reservations: Arc<Reservations>,
    /// Label keys.
    pub registry: Arc<LabelRegistry>,
    /// Largest number of concurrent fleet requests.
    pub fleets: Limit,
    /// Failures of requests for spot since the last success.
    pub spot_failure: SpotFailure,
    /// Receiver of counters.
    pub observer: Arc<dyn Observer>,
    /// The present time.
    pub clock: Arc<dyn Clock>,
}

/// Result of a launch.
#[derive(Clone, Debug)]
pub struct Launched {
    /// The instance's id.
    pub instance: String,
    pub instance_type: Arc<InstanceType>,
    /// Zone it runs in.
    pub zone: String,
    /// The zone's id, when known.
    pub zone_id: Option<String>,
    /// Capacity type it was bought as.
    pub capacity_type: CapacityType,
    /// Image it was started from.
    pub image: String,
    /// Runs on hardware of its own.
    pub dedicated: bool,
    /// The reservation it was launched into.
    pub reserved: Option<Reserved>,
    /// Place in a placement group that was requested for it.
    pub placed: Option<Placed>,
    /// Elastic fabric adapters are attached.
    pub efa: bool,
    /// Tags it was launched with.
    pub tags: BTreeMap<String, String>,
}

/// A launch that has been thought through but not asked for.
#[derive(Clone, Debug)]
struct Prepared {
    groups: Vec<TemplatedGroup>,
    subnets: BTreeMap<String, ZonalSubnet>,
    purchase: Purchase,
    tags: BTreeMap<String, String>,
}

impl std::fmt::Debug for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launcher").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Launcher {
    /// Launches an instance. The `NodeClass` must be ready.
    ///
    /// `asking` is called when all is ready, right before EC2 is asked, and returns whether an earlier request with the same
    /// token may have been carried out: a refusal of this one does not answer that, so it leaves the token as it is.
    ///
    /// # Errors
    /// `NoCapacity` when no offering is left, `NodeClassNotReady` when the `NodeClass` lacks something, and the
    /// classified failure of EC2 otherwise.
    pub async fn launch(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
        asking: impl FnOnce() -> bool + Send,
    ) -> Result<Launched, Error> {
        self.learn_service_cidr(request, class).await?;
        let prepared = self.prepare(request, class, types).await?;
        let fleet = fleet_request(request, class, &prepared)?;
        // Before the request: a launch at the same time must see that these addresses may be gone.
        let charges = self.charge(&prepared);
        let unsettled = asking();
        let mut answer = self.create_fleet(&fleet, &prepared).await;
        let mut renewed = Ok(());
        // Another client deleted a template: it is made again and the launch repeated, so that the claim does not lose a try.
        if lost::may_be_repeated(&answer) {
            renewed = self.prepare(request, class, types).await.map(drop);
            if renewed.is_ok() {
                answer = self.create_fleet(&fleet, &prepared).await;
            }
        }
        self.settle(&charges, answer.as_ref().ok());
        // Only now, so that the addresses of the refused request have been given back.
        renewed?;
        let result = answer.map_err(|error| {
            self.learn_failure(&error, &fleet, &prepared);
            let spent = outcome::spends_token(&error) && !unsettled;
            launch_error(OPERATION, request.claim.as_str(), &error).with_token_spent(spent)
        })?;
        self.learn(&result, &fleet, &prepared);
        self.launched(&result, &prepared).ok_or_else(|| learning::failure(request, &result, &prepared))
    }

    /// Asks for the instance, and forgets the templates that turn out to be gone.
    async fn create_fleet(
        &self,
        fleet: &FleetRequest,
        prepared: &Prepared,
    ) -> karpenter_aws_api::Result<FleetResult> {
        let answer = self.fleets.within(self.clients.ec2.create_fleet(fleet), outcome::is_throttled).await;
        for group in prepared.groups.iter().filter(|group| lost::says_gone(&answer, &group.template.name)) {
            self.templates.lost(&group.template);
        }
        answer
    }

    /// nodeadm needs the service range. Validation reads it, but a process that has just started may be
    /// asked to launch for a node class that was validated by its predecessor.
    async fn learn_service_cidr(&self, request: &LaunchRequest, class: &EC2NodeClass) -> Result<(), Error> {
        if family_of(&class.spec) == AmiFamily::AL2023 {
            let learnt = self.cluster.resolve_service_cidr().await;
            learnt.map_err(|error| launch_error(OPERATION, request.claim.as_str(), &error))?;
        }
        Ok(())
    }

    async fn prepare(
        &self,
        request: &LaunchRequest,
        class: &EC2NodeClass,
        types: &[Arc<InstanceType>],
    ) -> Result<Prepared, Error> {
        let claim = request.claim.as_str();
        let Drafts { drafts, purchase, tags } = self.draft(request, class, types)?;
        let subnets = self.subnets.for_launch(&status(claim, class)?.subnets);
        if subnets.is_empty() {
            return Err(not_ready(claim, "no subnets are resolved")
                .with_reason(reason::aws::SUBNET_RESOLUTION_FAILED));
        }
        let mut groups = Vec::new();
        for Draft { spec, image, reserved, candidates } in drafts {
            let ensured = self.templates.ensure(&spec).await;
            let template =
                ensured.map_err(|error| launch_error("create launch template for claim", claim, &error))?;
            groups.push(TemplatedGroup { template, image, reserved, candidates });
        }
        Ok(Prepared { groups, subnets, purchase, tags })
    }

    /// Returns the inputs of a template for a launch without special requests: on demand, on shared hardware.
    fn template_inputs<'a>(
        &'a self,
        view: &ClassView<'a>,
        status: &Ec2NodeClassStatus,
        profile: &'a str,
        image: &'a str,
        user_data: String,
        tags: &'a BTreeMap<String, String>,
    ) -> template::Inputs<'a> {
        template::Inputs {
            spec: &view.class.spec,
            family: view.family,
            security_groups: status.security_groups.iter().map(|group| group.id.as_str().into()).collect(),
            instance_profile: profile,
            image,
            user_data,
            tags,
            capacity_type: CapacityType::OnDemand,
            dedicated: false,
            adapters: &[],
            enclave: view.class.spec.runs_enclaves(),
            ipv6: self.settings.ipv6(),
            reserved_capacity: self.settings.reserved_capacity,
            reserved: None,
            placed: None,
            region: &self.clients.region,
        }
    }

    fn charge(&self, prepared: &Prepared) -> Vec<Charge> {
        fleet::addresses_per_zone(&prepared.groups, &prepared.subnets, prepared.purchase.capacity_type)
            .into_iter()
            .filter_map(|(zone, addresses)| {
                Some(self.subnets.addresses().charge(&prepared.subnets.get(&zone)?.id, addresses))
            })
            .collect()
    }

    /// Gives back the addresses of subnets the instance is not in.
    fn settle(&self, charges: &[Charge], result: Option<&FleetResult>) {
        let used = result.and_then(|result| result.instances.first()?.offering.as_ref());
        for charge in charges {
            if used.is_none_or(|offering| offering.subnet != *charge.subnet()) {
                self.subnets.addresses().give_back(charge);
            }
        }
    }
}

fn fleet_request(
    request: &LaunchRequest,
    class: &EC2NodeClass,
    prepared: &Prepared,
) -> Result<FleetRequest, Error> {
    let relaxed = request.annotations.get(annotation::MIN_VALUES_RELAXED).is_some_and(|v| v == "true");
    let overlaid = request.annotations.get(annotation::PRICE_OVERLAY_APPLIED).is_some_and(|v| v == "true");
    let mut tags = prepared.tags.clone();
    // The name is on the instance from its first moment: a later process finds it by this tag.
    tags.insert(tags::NODE_CLAIM.to_owned(), request.claim.to_string());
    let inputs = fleet::Inputs {
        groups: &prepared.groups,
        subnets: &prepared.subnets,
        capacity_type: prepared.purchase.capacity_type,
        prioritized: overlaid,
        tags,
        // Not for a claim whose `minValues` were relaxed (spec aws-provider 5.7).
        context: class.spec.context.clone().filter(|_| !relaxed),
        token: Some(request.token().to_string()),
    };
    fleet::request(inputs).ok_or_else(|| {
        let message = "none of the available offerings is in a zone the node class has a subnet in";
        Error::new(Kind::NoCapacity, OPERATION, request.claim.as_str(), message)
    })
}

/// Labels every node of a launch carries besides those of its claim.
pub(crate) fn launch_labels(custom_image: bool, capacity_type: CapacityType) -> BTreeMap<String, String> {
    let mut extra = BTreeMap::new();
    extra.insert(label::CAPACITY_TYPE.to_owned(), capacity_type.as_str().to_owned());
    if !custom_image {
        // The kubelet registers with all taints, so no controller has to copy them afterwards.
        extra.insert(label::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    extra
}
