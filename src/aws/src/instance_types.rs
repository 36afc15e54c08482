//! The planner's list of instance types for a `NodeClass`: catalogue, prices and recent failures joined
//! (spec aws-provider 3.2, 3.9).
//!
//! The join is remembered per `NodeClass` and made again only when one of its inputs has changed; what is out of
//! capacity is laid over it, copying only the types concerned. A list is handed out as one shared slice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use karpenter_api::EC2NodeClass;
use karpenter_model::{InstanceType, LabelRegistry};

use crate::catalogue::Catalogue;
use crate::class_view::ClassView;
use crate::discovered::DiscoveredMemory;
use crate::prices::Prices;
use crate::settings::Settings;
use crate::unavailable::Unavailable;
use crate::{instance_type, offerings};

/// A shared list of types.
pub type List = Arc<[Arc<InstanceType>]>;

/// Why there is no list. Never an empty list instead: that would read as "all types have gone".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// EC2 has not been asked successfully yet.
    #[error("instance types and offerings are not known yet; they are read at start and retried")]
    NoCatalogue,
    /// The `NodeClass` has no resolved subnets.
    #[error("the node class has no resolved subnets; check spec.subnetSelectorTerms")]
    NoSubnets,
}

/// Joins what is known about types.
pub struct InstanceTypes {
    /// Types and zones.
    pub catalogue: Arc<Catalogue>,
    /// Prices.
    pub prices: Arc<Prices>,
    /// Recent failures.
    pub unavailable: Arc<Unavailable>,
    /// Memory of real nodes.
    pub discovered: Arc<DiscoveredMemory>,
    settings: Arc<Settings>,
    region: String,
    registry: Arc<LabelRegistry>,
    joined: Mutex<BTreeMap<String, Joined>>,
}

/// One remembered join.
struct Joined {
    class: Arc<EC2NodeClass>,
    revisions: Revisions,
    base: List,
    unavailable_revision: u64,
    current: List,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Revisions {
    catalogue: u64,
    prices: u64,
    discovered: u64,
}

impl InstanceTypes {
    /// A join of these sources.
    pub fn new(
        catalogue: Arc<Catalogue>,
        prices: Arc<Prices>,
        unavailable: Arc<Unavailable>,
        discovered: Arc<DiscoveredMemory>,
        settings: Arc<Settings>,
        region: &str,
        registry: Arc<LabelRegistry>,
    ) -> Self {
        let joined = Mutex::default();
        let region = region.to_owned();
        Self { catalogue, prices, unavailable, discovered, settings, region, registry, joined }
    }

    /// Every type for a `NodeClass`, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn list(&self, class: &Arc<EC2NodeClass>) -> Result<List, Error> {
        let revisions = Revisions {
            catalogue: self.catalogue.contents().revision,
            prices: self.prices.book().revision,
            discovered: self.discovered.revision(),
        };
        let unavailable = self.unavailable.view();
        let name = class.metadata.name.clone().unwrap_or_default();
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            joined.get(&name).filter(|known| known.revisions == revisions && same(&known.class, class));
        if let Some(known) = known.filter(|known| known.unavailable_revision == unavailable.revision) {
            return Ok(Arc::clone(&known.current));
        }
        let base = match known {
            Some(known) => Arc::clone(&known.base),
            None => self.join(class)?,
        };
        let current = if unavailable.is_empty() {
            Arc::clone(&base)
        } else {
            let view = ClassView::new(class);
            base.iter().map(|one| offerings::without(one, &view, &unavailable)).collect()
        };
        let answer = Arc::clone(&current);
        let unavailable_revision = unavailable.revision;
        let class = Arc::clone(class);
        joined.insert(name, Joined { class, revisions, base, unavailable_revision, current });
        Ok(answer)
    }

    /// Forgets a `NodeClass` that is gone.
    pub fn forget(&self, class: &str) {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).remove(class);
    }

    fn join(&self, class: &EC2NodeClass) -> Result<List, Error> {
        let contents = self.catalogue.contents();
        if !contents.known() {
            return Err(Error::NoCatalogue);
        }
        let view = ClassView::new(class);
        if view.zones.is_empty() {
            return Err(Error::NoSubnets);
        }
        let prices = self.prices.book();
        let amis = view.status().map(|status| status.amis.as_slice()).unwrap_or_default();
        let context = instance_type::Context {
            view: &view,
            settings: &self.settings,
            region: &self.region,
            registry: &self.registry,
        };
        let region_zones = contents.all_zones();
        let reserved = BTreeMap::new();
        let none = std::collections::BTreeSet::new();
        let sale = offerings::Context {
            view: &view,
            region_zones: &region_zones,
            prices: &prices,
            reserved: &reserved,
        };
        let types = contents.types.values().map(|info| {
            let zones = contents.zones.get(&info.name).unwrap_or(&none);
            let memory = self.discovered.get(info.name.as_str(), amis);
            let mut built = instance_type::build(info, zones, memory, context);
            built.offerings = offerings::offerings(info, zones, sale);
            Arc::new(built)
        });
        Ok(types.collect())
    }
}

/// Whether two versions of a `NodeClass` give the same list.
fn same(a: &Arc<EC2NodeClass>, b: &Arc<EC2NodeClass>) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    let resolved = |class: &EC2NodeClass| {
        class.status.clone().map(|status| (status.subnets, status.amis, status.capacity_reservations))
    };
    a.spec == b.spec && resolved(a) == resolved(b)
}

impl std::fmt::Debug for InstanceTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstanceTypes").field("region", &self.region).finish_non_exhaustive()
    }
}
