//! The parts of this crate put together into the provider of one AWS account and region, and brought up to date.
//!
//! The mapping from the port's operations to these parts is in `provider/port.rs`.

mod classes;
mod described;
mod drifted;
mod launch_ledger;
mod launching;
mod port;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_api::Clients;
use karpenter_cloud::NodeClassKind;
use karpenter_model::{Clock, LabelRegistry};

use self::launch_ledger::LaunchLedger;
use crate::calls::observer::Observer;
use crate::catalogue::Catalogue;
use crate::catalogue::discovered::DiscoveredMemory;
use crate::catalogue::instance_types::{InstanceTypes, Sources};
use crate::class::instance_profiles::InstanceProfiles;
use crate::class::store::NodeClassStore;
use crate::cluster::Cluster;
use crate::image::resolve::Images;
use crate::instances::Instances;
use crate::launch::Launcher;
use crate::launch::limit::Limit;
use crate::launch::spot_failure::SpotFailure;
use crate::launch::templates::Templates;
use crate::market::prices::Prices;
use crate::market::prices::estimate::by_size;
use crate::market::reservations::Reservations;
use crate::market::unavailable::Unavailable;
use crate::network::placement_groups::PlacementGroups;
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
    pub settings: Arc<Settings>,
    /// `NodeClasses`, filled by their reconciler.
    pub classes: Arc<NodeClassStore>,
    /// Facts about the cluster.
    pub cluster: Arc<Cluster>,
    /// Instance types and where they are sold.
    pub catalogue: Arc<Catalogue>,
    pub prices: Arc<Prices>,
    /// Recent capacity failures.
    pub unavailable: Arc<Unavailable>,
    /// Memory real nodes reported.
    pub discovered: Arc<DiscoveredMemory>,
    pub placement_groups: Arc<PlacementGroups>,
    /// Capacity reservations.
    pub reservations: Arc<Reservations>,
    /// Zones the cluster is shifted away from.
    pub zonal_shifts: Arc<ZonalShifts>,
    /// The join of [`Sources`].
    pub types: Arc<InstanceTypes>,
    pub subnets: Arc<Subnets>,
    pub security_groups: Arc<SecurityGroups>,
    pub images: Arc<Images>,
    pub profiles: Arc<InstanceProfiles>,
    pub templates: Arc<Templates>,
    pub instances: Arc<Instances>,
    zone_names: Arc<ZoneNames>,
    launcher: Launcher,
    registry: Arc<LabelRegistry>,
    clock: Arc<dyn Clock>,
    ledger: LaunchLedger,
}

impl std::fmt::Debug for AwsProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsProvider").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl AwsProvider {
    /// Puts the parts together. Nothing is called yet; see [`AwsProvider::refresh_catalogue`].
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
        let zone_names = Arc::new(ZoneNames::default());
        let [images_refresh, refresh, groups_refresh] = settings.refresh();
        let subnets = Subnets::new(ec2(), time(), refresh, Arc::clone(&zone_names), Arc::clone(&unavailable));
        let (subnets, templates) = (Arc::new(subnets), Arc::new(Templates::new(ec2(), time(), name)));
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
            catalogue: Arc::clone(&catalogue),
            subnets: Arc::clone(&subnets),
            templates: Arc::clone(&templates),
            unavailable: Arc::clone(&unavailable),
            placement_groups: Arc::clone(&placement_groups),
            reservations: Arc::clone(&reservations),
            registry: Arc::clone(&registry),
            fleets: Limit::default(),
            spot_failure: SpotFailure::new(time()),
            observer: Arc::clone(&observer),
            clock: time(),
        };
        Self {
            classes: Arc::clone(types.classes()),
            security_groups: Arc::new(SecurityGroups::new(ec2(), time(), groups_refresh)),
            images: Arc::new(Images::new(ec2(), clients.ssm, time(), images_refresh)),
            profiles: Arc::new(InstanceProfiles::new(clients.iam, &clock, name, &clients.region)),
            instances: Arc::new(Instances::new(ec2(), time(), name, observer, Arc::clone(&zone_names))),
            types: Arc::new(types),
            ledger: LaunchLedger::new(time()),
            clock,
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
        // Prices that no source has are estimated by size, so new types need estimates at once.
        let contents = self.catalogue.contents();
        let sizes = contents.types.values().map(|info| (info.name.as_str().into(), by_size(info)));
        self.prices.set_types(sizes.collect());
        Ok(changed)
    }

    /// Reads the zones the cluster is shifted away from.
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

    /// The launcher, for settings that are learnt after the start.
    pub fn launcher_mut(&mut self) -> &mut Launcher {
        &mut self.launcher
    }

    /// The clients of the account.
    pub fn clients(&self) -> &Clients {
        &self.launcher.clients
    }

    /// The CA bundle in the form that hashes use.
    pub fn ca_bundle(&self) -> &str {
        self.settings.cluster_ca_bundle.as_deref().unwrap_or_default()
    }

    /// The present time.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }
}

fn prices(clients: &Clients, clock: Arc<dyn Clock>, settings: &Settings) -> Prices {
    let prices = Prices::new(clients.clone(), clock, settings.isolated_vpc);
    prices.with_file(settings.price_file.clone())
}
