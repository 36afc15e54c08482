//! The provider port on AWS: the parts of this crate put together.

mod asked;
mod described;
mod drifted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::{ConditionStatus, EC2NodeClass};
use karpenter_aws_api::Clients;
use karpenter_aws_api::ec2::{Instance as Ec2Instance, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_cloud::{
    DriftReason, Error, Instance, Kind, LaunchRequest, NodeClassKind, Provider, Read, RegistrationHook,
    RepairPolicy, Result, Termination,
};
use karpenter_model::names::{condition, reason};
use karpenter_model::{
    Claim, ClaimName, Clock, InstanceType, InstanceTypeName, LabelRegistry, NodeClassRef, NodeName, Pool,
    Price, ProviderId, Zone,
};

use self::asked::Asked;
use self::described::Joined;
use crate::calls::fault::{cloud_error, launch_error};
use crate::calls::observer::Observer;
use crate::catalogue::Catalogue;
use crate::catalogue::discovered::DiscoveredMemory;
use crate::catalogue::instance_type::capacity::EFA;
use crate::catalogue::instance_types::{self, InstanceTypes, Sources};
use crate::class::instance_profiles::InstanceProfiles;
use crate::class::store::{Lookup, NodeClassStore};
use crate::cluster::Cluster;
use crate::image::resolve::Images;
use crate::instances::provider_id::{instance_of, provider_id};
use crate::instances::{Instances, registration, repair, view};
use crate::launch::Launcher;
use crate::launch::limit::Limit;
use crate::launch::templates::Templates;
use crate::market::prices::Prices;
use crate::market::prices::estimate::by_size;
use crate::market::reservations::Reservations;
use crate::market::unavailable::Unavailable;
use crate::network::placement_groups::{Group, PlacementGroups, is_wanted};
use crate::network::security_groups::SecurityGroups;
use crate::network::subnets::Subnets;
use crate::network::zonal_shifts::ZonalShifts;
use crate::network::zone_names::ZoneNames;
use crate::registry::label_registry;
use crate::settings::Settings;

/// The one kind of node class this provider owns.
pub const NODE_CLASS_KIND: NodeClassKind = NodeClassKind { group: "karpenter.k8s.aws", kind: "EC2NodeClass" };

/// Karpenter's view of one AWS account and region. Cheap to share; the parts are public because the AWS
/// controllers fill and refresh them.
pub struct AwsProvider {
    /// Provider settings.
    pub settings: Arc<Settings>,
    /// `NodeClasses`, filled by their reconciler.
    pub classes: Arc<NodeClassStore>,
    /// Facts about the cluster.
    pub cluster: Arc<Cluster>,
    /// Instance types and where they are sold.
    pub catalogue: Arc<Catalogue>,
    /// Prices.
    pub prices: Arc<Prices>,
    /// Recent capacity failures.
    pub unavailable: Arc<Unavailable>,
    /// Memory real nodes reported.
    pub discovered: Arc<DiscoveredMemory>,
    /// Placement groups.
    pub placement_groups: Arc<PlacementGroups>,
    /// Capacity reservations.
    pub reservations: Arc<Reservations>,
    /// Zones the cluster is shifted away from.
    pub zonal_shifts: Arc<ZonalShifts>,
    /// The join of [`Sources`].
    pub types: Arc<InstanceTypes>,
    /// Subnets.
    pub subnets: Arc<Subnets>,
    /// Security groups.
    pub security_groups: Arc<SecurityGroups>,
    /// Images.
    pub images: Arc<Images>,
    /// Instance profiles.
    pub profiles: Arc<InstanceProfiles>,
    /// Launch templates.
    pub templates: Arc<Templates>,
    /// Instances.
    pub instances: Arc<Instances>,
    zone_names: Arc<ZoneNames>,
    launcher: Launcher,
    registry: Arc<LabelRegistry>,
    clock: Arc<dyn Clock>,
    asked: Asked,
}

impl std::fmt::Debug for AwsProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsProvider").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl AwsProvider {
    /// Puts the parts together. Nothing is called yet; see [`AwsProvider::refresh_catalogue`].
    #[expect(clippy::needless_pass_by_value, reason = "every part gets a handle of its own")]
    pub fn new(
        clients: Clients,
        settings: Settings,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let settings = Arc::new(settings);
        let registry = Arc::new(label_registry());
        let ec2 = || Arc::clone(&clients.ec2);
        let time = || Arc::clone(&clock);
        let name = settings.cluster_name.as_str();
        let cluster = Arc::new(Cluster::new(Arc::clone(&clients.eks), name));
        let catalogue = Arc::new(Catalogue::new(ec2()));
        let prices = Arc::new(prices(&clients, time(), &settings));
        let longest = Duration::from_secs(settings.capacity_backoff_seconds);
        let unavailable = Arc::new(Unavailable::new(time(), longest));
        let discovered = Arc::new(DiscoveredMemory::new(time()));
        let refresh = Duration::from_secs(settings.subnet_refresh_seconds);
        let zone_names = Arc::new(ZoneNames::default());
        let zones = Arc::clone(&zone_names);
        let subnets = Arc::new(Subnets::new(ec2(), time(), refresh, zones, Arc::clone(&unavailable)));
        let templates = Arc::new(Templates::new(ec2(), time(), name));
        let refresh = Duration::from_secs(settings.ami_refresh_seconds);
        let placement_groups = Arc::new(PlacementGroups::new(ec2(), &clock));
        let reservations = Arc::new(Reservations::new(ec2(), time()));
        let zonal_shifts = Arc::new(ZonalShifts::new(Arc::clone(&clients.shifts), time()));
        let sources = Sources {
            catalogue: Arc::clone(&catalogue),
            prices: Arc::clone(&prices),
            unavailable: Arc::clone(&unavailable),
            discovered: Arc::clone(&discovered),
            placement_groups: Arc::clone(&placement_groups),
            reservations: Arc::clone(&reservations),
            zonal_shifts: Arc::clone(&zonal_shifts),
            classes: Arc::default(),
        };
        let types = InstanceTypes::new(sources, &settings, &clients.region, &registry);
        let launcher = Launcher {
            clients: clients.clone(),
            settings: Arc::clone(&settings),
            cluster: Arc::clone(&cluster),
            subnets: Arc::clone(&subnets),
            templates: Arc::clone(&templates),
            unavailable: Arc::clone(&unavailable),
            placement_groups: Arc::clone(&placement_groups),
            reservations: Arc::clone(&reservations),
            registry: Arc::clone(&registry),
            fleets: Limit::default(),
            observer: Arc::clone(&observer),
            clock: time(),
        };
        let iam = Arc::clone(&clients.iam);
        Self {
            classes: Arc::clone(types.classes()),
            security_groups: Arc::new(SecurityGroups::new(ec2(), time())),
            images: Arc::new(Images::new(ec2(), Arc::clone(&clients.ssm), time(), refresh)),
            profiles: Arc::new(InstanceProfiles::new(iam, &clock, name, &clients.region)),
            instances: Arc::new(Instances::new(ec2(), time(), name, observer, Arc::clone(&zone_names))),
            types: Arc::new(types),
            clock: time(),
            asked: Asked::new(time()),
            cluster,
            catalogue,
            prices,
            unavailable,
            discovered,
            placement_groups,
            reservations,
            zonal_shifts,
            subnets,
            templates,
            zone_names,
            launcher,
            registry,
            settings,
        }
    }

    /// Reads the catalogue, without which nothing can be planned.
    ///
    /// # Errors
    /// When EC2 does not answer completely.
    pub async fn refresh_catalogue(&self) -> karpenter_aws_api::Result<bool> {
        let changed = self.catalogue.refresh().await?;
        let contents = self.catalogue.contents();
        let sizes = contents.types.values().map(|info| (info.name.as_str().into(), by_size(info)));
        self.prices.set_types(sizes.collect());
        Ok(changed)
    }

    /// Asks which zones the cluster is shifted away from.
    ///
    /// # Errors
    /// When EKS does not name the cluster, and those of [`ZonalShifts::refresh`].
    pub async fn refresh_zonal_shifts(&self) -> karpenter_aws_api::Result<()> {
        let cluster = self.cluster.resolve_arn().await?;
        self.zonal_shifts.refresh(&cluster).await
    }

    /// The launcher, for validation by dry runs.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// The clients of the account.
    pub fn clients(&self) -> &Clients {
        &self.launcher.clients
    }

    /// The CA bundle as it goes into hashes.
    pub fn ca_bundle(&self) -> &str {
        self.settings.cluster_ca_bundle.as_deref().unwrap_or_default()
    }

    /// The present time.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn class(&self, operation: &'static str, reference: &NodeClassRef) -> Result<Arc<EC2NodeClass>> {
        if !NODE_CLASS_KIND.owns(reference) {
            let text = format!("{} of {} is not a node class of AWS", reference.kind, reference.group);
            return Err(Error::new(Kind::Invalid, operation, reference.name.as_str(), text));
        }
        match self.classes.get(&reference.name) {
            Lookup::Found(class) if class.metadata.deletion_timestamp.is_none() => Ok(class),
            Lookup::Found(_) => Err(not_ready(operation, &reference.name, "the node class is being deleted")),
            Lookup::Absent => Err(not_ready(operation, &reference.name, "the node class does not exist")),
            Lookup::NotSynced => {
                let text = "node classes have not been read yet";
                Err(Error::new(Kind::Transient, operation, reference.name.as_str(), text))
            }
        }
    }

    fn list(&self, operation: &'static str, class: &Arc<EC2NodeClass>) -> Result<instance_types::List> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        self.types.list(class).map_err(|error| match error {
            instance_types::Error::NoSubnets => not_ready(operation, name, &error.to_string()),
            instance_types::Error::NoCatalogue | instance_types::Error::NoPlacementGroup => {
                Error::new(Kind::Transient, operation, name, error.to_string())
                    .with_reason(reason::aws::INSTANCE_TYPE_RESOLUTION_FAILED)
            }
        })
    }

    /// The placement group of a `NodeClass`; the last known one while EC2 does not answer.
    async fn placement_group(
        &self,
        operation: &'static str,
        subject: &str,
        class: &EC2NodeClass,
    ) -> Result<Option<Group>> {
        match self.placement_groups.resolve(class).await {
            Ok(None) if is_wanted(class) => {
                let text = "the placement group of the node class does not exist or is not available";
                Err(Error::new(Kind::Transient, operation, subject, text))
            }
            Ok(group) => Ok(group),
            Err(error) => match self.placement_groups.last_known(class) {
                Some(group) => {
                    tracing::warn!(subject, %error, "placement group not read, the last known one is used");
                    Ok(Some(group))
                }
                None => Err(launch_error(operation, subject, &error)),
            },
        }
    }

    /// The instance that was launched for this claim before, if it may be there.
    async fn launched_before(&self, request: &LaunchRequest) -> Result<Option<Ec2Instance>> {
        if !self.asked.before(request) {
            return Ok(None);
        }
        let claim = request.claim.as_str();
        let living = [InstanceState::Pending, InstanceState::Running];
        let found = self.instances.of_claim(claim, &living).await;
        found.map_err(|error| cloud_error("find instance of claim", claim, &error))
    }
}

#[async_trait]
impl Provider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        std::slice::from_ref(&NODE_CLASS_KIND)
    }

    fn label_registry(&self) -> Arc<LabelRegistry> {
        Arc::clone(&self.registry)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Instance> {
        const OPERATION: &str = "launch instance for claim";
        let claim = request.claim.as_str();
        let class = self.class(OPERATION, &request.node_class)?;
        ready(OPERATION, claim, &class)?;
        if let Some(machine) = self.asked.answered(request) {
            tracing::info!(claim, instance = %machine.provider_id, "launched a moment ago, not again");
            return Ok(machine);
        }
        if let Some(instance) = self.launched_before(request).await? {
            tracing::info!(claim, instance = %instance.id, "adopted instance launched before");
            self.asked.heard(request);
            return Ok(Joined::new(self, request.overlays.as_ref()).view(&instance));
        }
        self.placement_group(OPERATION, claim, &class).await?;
        let types = request.seen(&self.list(OPERATION, &class)?, &self.registry);
        let mut unsettled = None;
        let asking = || {
            unsettled = self.asked.unsettled(request);
            self.asked.now(request);
            unsettled.is_some()
        };
        let launched = self.launcher.launch(request, &class, &types, asking).await;
        match &launched {
            Err(error) if !error.token_spent => {
                // How the earlier request went is still not known, and when that was made is what counts.
                if let Some(earlier) = unsettled.filter(|_| error.code.is_some()) {
                    self.asked.unheard_since(request, earlier);
                }
            }
            _ => self.asked.heard(request),
        }
        let mut launched = launched?;
        let id = InstanceId::from(launched.instance.as_str());
        self.instances.launched(&id);
        let wants_efa = !request.requests.amount(EFA).is_zero();
        launched.efa = wants_efa || class.spec.network_interfaces.is_some();
        let machine = view::of_launched(&launched, claim, &class, self.ca_bundle(), self.clock.now());
        self.asked.launched(request, &machine);
        Ok(machine)
    }

    async fn terminate(&self, id: &ProviderId) -> Result<Termination> {
        const OPERATION: &str = "terminate instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let ended = self.instances.terminate(&instance).await;
        let ended = ended.map_err(|error| cloud_error(OPERATION, id.as_str(), &error))?;
        self.asked.ended(id);
        if ended == Termination::AlreadyGone
            && let Some(gone) = self.instances.take_ended(&instance)
            && let Some(reservation) = view::reservation_of(&gone, self.settings.reserved_capacity)
        {
            self.reservations.availability().terminated(reservation.as_str());
        }
        Ok(ended)
    }

    async fn instance(&self, id: &ProviderId, read: Read) -> Result<Instance> {
        const OPERATION: &str = "read instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let found = self.instances.get(&instance, read).await;
        let found = found.map_err(|error| cloud_error(OPERATION, id.as_str(), &error))?;
        found.map(|instance| Joined::new(self, None).view(&instance)).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                OPERATION,
                id.as_str(),
                "EC2 has no such instance, or it is terminated",
            )
        })
    }

    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>> {
        const OPERATION: &str = "find instance of claim";
        let found = self.instances.of_claim(claim.as_str(), &InstanceState::ALIVE).await;
        let found = found.map_err(|error| cloud_error(OPERATION, claim.as_str(), &error))?;
        let found = found.map(|instance| provider_id(instance.zone.as_str(), instance.id.as_str()));
        let found = found.or_else(|| self.asked.machine_of(claim));
        if found.is_none() && self.asked.may_be_launched(claim) {
            let text = "the answer of its launch was lost, and EC2 may show the machine up to a minute later; asking again";
            return Err(Error::new(Kind::Transient, OPERATION, claim.as_str(), text));
        }
        Ok(found)
    }

    async fn instances(&self) -> Result<Vec<Instance>> {
        let listed = self.instances.list().await;
        let listed =
            listed.map_err(|error| cloud_error("list instances of", &self.settings.cluster_name, &error))?;
        let mut joined = Joined::new(self, None);
        Ok(listed.iter().map(|instance| joined.view(instance)).collect())
    }

    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>> {
        const OPERATION: &str = "list instance types for node class";
        let class = self.class(OPERATION, &pool.template.node_class)?;
        self.list(OPERATION, &class)
    }

    fn preview_prices(&self, prices: BTreeMap<InstanceTypeName, Price>) {
        self.types.preview(prices);
    }

    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>> {
        self.drifted(claim).await
    }

    async fn registration_hooks(&self, claim: &Claim) -> Vec<RegistrationHook> {
        vec![registration::placement_group(claim, &self.instances).await]
    }

    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()> {
        const OPERATION: &str = "tag instance";
        let Some(instance) = instance_of(id) else { return Err(foreign(OPERATION, id)) };
        let tagged = self.instances.tag(&instance, claim.as_str(), node.as_str()).await;
        tagged.map(drop).map_err(|error| cloud_error(OPERATION, id.as_str(), &error))
    }

    /// Shifts name zones by their ids. Which names those are is said by what has been described since the start, and
    /// by node classes that were resolved before.
    fn zones_away(&self) -> BTreeSet<Zone> {
        let ids = self.zonal_shifts.away();
        if ids.is_empty() {
            return BTreeSet::new();
        }
        let classes = self.classes.all().unwrap_or_default();
        let subnets = classes.iter().flat_map(|class| &class.status).flat_map(|status| &status.subnets);
        let away = subnets.filter(|subnet| subnet.zone_id.as_deref().is_some_and(|id| ids.contains(id)));
        let resolved = away.map(|subnet| subnet.zone.as_str().into());
        let described = self.zone_names.of(&ids);
        resolved.chain(described.iter().map(|zone| zone.as_str().into())).collect()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &repair::POLICIES
    }
}

fn prices(clients: &Clients, clock: Arc<dyn Clock>, settings: &Settings) -> Prices {
    let prices = Prices::new(clients.clone(), clock, settings.isolated_vpc);
    prices.with_file(settings.price_file.clone())
}

fn named<'a>(types: &'a [Arc<InstanceType>], name: &str) -> Option<&'a InstanceType> {
    // The catalogue is ordered by name.
    let position = types.binary_search_by(|one| one.name.as_str().cmp(name)).ok()?;
    types.get(position).map(Arc::as_ref)
}

/// Refuses a `NodeClass` that is not known to be launchable as it is now (spec aws-provider 5.1).
fn ready(operation: &'static str, claim: &str, class: &EC2NodeClass) -> Result<()> {
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition.kind == condition::READY);
    let unknown = || {
        let text = "the readiness of the node class is not known yet";
        Error::new(Kind::Transient, operation, claim, text).with_reason(reason::NODE_CLASS_READINESS_UNKNOWN)
    };
    let condition = condition.ok_or_else(unknown)?;
    match condition.status {
        ConditionStatus::False => Err(not_ready(operation, claim, &condition.message)),
        ConditionStatus::Unknown => Err(unknown()),
        ConditionStatus::True if condition.observed_generation != class.metadata.generation => {
            Err(not_ready(operation, claim, "the node class was changed and is being resolved again"))
        }
        ConditionStatus::True => Ok(()),
    }
}

fn not_ready(operation: &'static str, subject: &str, message: &str) -> Error {
    Error::new(Kind::NodeClassNotReady, operation, subject, message)
}

fn foreign(operation: &'static str, id: &ProviderId) -> Error {
    Error::new(
        Kind::Invalid,
        operation,
        id.as_str(),
        "not a provider id of EC2, expected aws:///<zone>/<instance>",
    )
}
