//! The planner's list of instance types for a `NodeClass`: catalogue, prices and recent failures joined
//! (spec aws-provider 3.2, 3.9).
//!
//! The join is remembered per `NodeClass` and made again only when one of its inputs has changed; what is out of capacity is
//! laid over it, copying only the types concerned. Callers get one shared list.
//!
//! Most classes of a cluster see the same types, so equal lists are one object, equal types of different lists are one
//! object, and types that differ have their equal parts in common ([`SharedTypes`]). What only one class sees goes
//! with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::id::ZoneId;
use karpenter_cloud::SharedTypes;
use karpenter_model::{InstanceType, InstanceTypeName, LabelRegistry, Price};
use parking_lot::Mutex;

use crate::catalogue::discovered::DiscoveredMemory;
use crate::catalogue::instance_type::kubelet;
use crate::catalogue::{Catalogue, instance_type, offerings};
use crate::class::store::{Lookup, NodeClassStore};
use crate::class::view::ClassView;
use crate::image::image_for;
use crate::market::prices::Prices;
use crate::market::reservations::Reservations;
use crate::market::unavailable::Unavailable;
use crate::network::placement_groups::{Group, PlacementGroups, is_wanted};
use crate::network::zonal_shifts::ZonalShifts;
use crate::settings::Settings;

pub use karpenter_cloud::overlay::List;

/// Reason why there is no list. An empty list is never returned instead: it would read as "all types have gone".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// EC2 has not been asked successfully yet.
    #[error("instance types and offerings are not known yet; they are read at start and retried")]
    NoCatalogue,
    /// The `NodeClass` has no resolved subnets.
    #[error("the node class has no resolved subnets; check spec.subnetSelectorTerms")]
    NoSubnets,
    /// The placement group of the `NodeClass` has not been found lately.
    #[error("the placement group of the node class is not known; check spec.placementGroupSelector")]
    NoPlacementGroup,
}

/// Types for which an expression of a class has no result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unevaluated {
    /// Name and cause, by name.
    pub failed: Vec<(String, String)>,
    /// Number of types that were tried.
    pub tried: usize,
}

/// Sources that a list is joined from.
#[derive(Debug)]
pub struct Sources {
    /// Types and zones.
    pub catalogue: Arc<Catalogue>,
    pub prices: Arc<Prices>,
    /// Recent failures.
    pub unavailable: Arc<Unavailable>,
    /// Memory of real nodes.
    pub discovered: Arc<DiscoveredMemory>,
    pub placement_groups: Arc<PlacementGroups>,
    /// Capacity reservations.
    pub reservations: Arc<Reservations>,
    /// Zones to stay away from.
    pub zonal_shifts: Arc<ZonalShifts>,
    /// The classes there are: nothing is remembered for one that has gone.
    pub classes: Arc<NodeClassStore>,
}

/// Joins what is known about types.
pub struct InstanceTypes {
    sources: Sources,
    settings: Arc<Settings>,
    region: String,
    registry: Arc<LabelRegistry>,
    joined: Mutex<BTreeMap<String, Joined>>,
    previews: Mutex<Previews>,
}

/// Prices that users have given for types without one from EC2, and the number of changes to them.
#[derive(Clone, Default)]
struct Previews {
    prices: Arc<BTreeMap<InstanceTypeName, Price>>,
    revision: u64,
}

/// One remembered join.
struct Joined {
    class: Arc<EC2NodeClass>,
    placement: Option<Group>,
    revisions: Revisions,
    base: List,
    present: Present,
    current: List,
}

/// Types as they are sold, and as they can be had now.
struct Both {
    base: List,
    current: List,
}

/// State that is laid over a join, by its revision where it has one.
#[derive(Clone, PartialEq, Eq)]
struct Present {
    unavailable: u64,
    left: u64,
    away: BTreeSet<ZoneId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Revisions {
    catalogue: u64,
    prices: u64,
    discovered: u64,
    previews: u64,
}

impl InstanceTypes {
    /// A join of these sources.
    pub fn new(
        sources: Sources,
        settings: &Arc<Settings>,
        region: &str,
        registry: &Arc<LabelRegistry>,
    ) -> Self {
        let (settings, registry) = (Arc::clone(settings), Arc::clone(registry));
        let region = region.to_owned();
        Self { sources, settings, region, registry, joined: Mutex::default(), previews: Mutex::default() }
    }

    /// The classes there are.
    pub fn classes(&self) -> &Arc<NodeClassStore> {
        &self.sources.classes
    }

    /// Every type for a `NodeClass`, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn list(&self, class: &Arc<EC2NodeClass>) -> Result<List, Error> {
        self.both(class).map(|both| both.current)
    }

    /// Returns the types of the class as they are sold, whatever lacks capacity at the moment.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sold(&self, class: &Arc<EC2NodeClass>) -> Result<List, Error> {
        self.both(class).map(|both| both.base)
    }

    fn both(&self, class: &Arc<EC2NodeClass>) -> Result<Both, Error> {
        let sources = &self.sources;
        let revisions = Revisions {
            catalogue: sources.catalogue.contents().revision,
            prices: sources.prices.book().revision,
            discovered: sources.discovered.revision(),
            previews: self.previews().revision,
        };
        let placement = sources.placement_groups.last_known(class);
        if is_wanted(class) && placement.is_none() {
            return Err(Error::NoPlacementGroup);
        }
        let (unavailable, left) = (&sources.unavailable, sources.reservations.availability());
        let away = sources.zonal_shifts.away();
        let present = Present { unavailable: unavailable.revision(), left: left.revision(), away };
        let name = class.metadata.name.clone().unwrap_or_default();
        // Held to the end: classes of the same content wait for the first join and share it instead of making
        // their own.
        let mut joined = self.joined.lock();
        let alike = |known: &&Joined| {
            known.revisions == revisions && known.placement == placement && same(&known.class, class)
        };
        if let Some(known) = joined.get_mut(&name)
            && known.present == present
            && alike(&&*known)
        {
            // The next call with this version of the class need not compare it field by field.
            known.class = Arc::clone(class);
            return Ok(Both { base: Arc::clone(&known.base), current: Arc::clone(&known.current) });
        }
        let (unavailable, left) = (unavailable.view(), left.left());
        // The views may be newer than the revisions above; the list is remembered under those it is made
        // from.
        let present = Present { unavailable: unavailable.revision, left: left.revision, ..present };
        let view = ClassView::new(class).placed(placement.clone()).reserving(self.settings.reserved_capacity);
        let view = view.evaluating(self.settings.gates.node_class_cel);
        // Any class of the same content will do.
        let known = joined.get(&name).filter(alike).or_else(|| joined.values().find(alike));
        let now_too = |known: &&Joined| known.present == present;
        let current = joined.values().filter(alike).find(now_too).map(|one| Arc::clone(&one.current));
        let mut shared = SharedTypes::with(joined.values().flat_map(|known| [&known.base, &known.current]));
        let base = match known {
            Some(known) => Arc::clone(&known.base),
            None => self.join(&view, &mut shared)?,
        };
        let current = current.unwrap_or_else(|| {
            let now = offerings::Now { unavailable: &unavailable, left: &left, away: &present.away };
            shared.list(base.iter().map(|one| offerings::as_of_now(one, &view, now)))
        });
        let answer = Both { base: Arc::clone(&base), current: Arc::clone(&current) };
        // Joins of older knowledge belong to classes that are no longer asked for, or will be joined again.
        joined.retain(|_, known| known.revisions == revisions);
        // One that went in the meantime would never be forgotten again.
        if !matches!(sources.classes.get(&name), Lookup::Absent) {
            let class = Arc::clone(class);
            joined.insert(name, Joined { class, placement, revisions, base, present, current });
        }
        Ok(answer)
    }

    /// Returns the types for which an expression of the class has no result.
    ///
    /// # Errors
    /// [`Error::NoCatalogue`] while no type is known to evaluate it for.
    pub fn unevaluated(&self, class: &EC2NodeClass) -> Result<Unevaluated, Error> {
        let view = ClassView::new(class).evaluating(self.settings.gates.node_class_cel);
        if view.expressions.is_empty() {
            return Ok(Unevaluated::default());
        }
        let contents = self.sources.catalogue.contents();
        if !contents.known() {
            return Err(Error::NoCatalogue);
        }
        let failed = contents.types.values().filter_map(|info| {
            let failure = kubelet::evaluate(info, &view, &self.settings).err()?;
            Some((info.name.to_string(), failure.to_string()))
        });
        Ok(Unevaluated { failed: failed.collect(), tried: contents.types.len() })
    }

    /// Gives these prices to types that EC2 names none for, from now on, and makes them available.
    pub(crate) fn preview(&self, prices: BTreeMap<InstanceTypeName, Price>) {
        let mut previews = self.previews.lock();
        if *previews.prices != prices {
            *previews = Previews { prices: Arc::new(prices), revision: previews.revision + 1 };
        }
    }

    fn previews(&self) -> Previews {
        self.previews.lock().clone()
    }

    /// Forgets every `NodeClass` that is gone, as the store lists them.
    pub fn forget_gone(&self) {
        let mut joined = self.joined.lock();
        joined.retain(|name, _| !matches!(self.sources.classes.get(name), Lookup::Absent));
    }

    fn join(&self, view: &ClassView<'_>, shared: &mut SharedTypes) -> Result<List, Error> {
        let contents = self.sources.catalogue.contents();
        if !contents.known() {
            return Err(Error::NoCatalogue);
        }
        if view.zones.is_empty() {
            return Err(Error::NoSubnets);
        }
        let prices = self.sources.prices.book();
        let amis = view.status().map(|status| status.amis.as_slice()).unwrap_or_default();
        let context = instance_type::Context {
            view,
            settings: &self.settings,
            region: &self.region,
            registry: &self.registry,
        };
        let region_zones = contents.all_zones();
        let none = BTreeSet::new();
        let previews = self.previews().prices;
        let sale =
            offerings::Context { view, region_zones: &region_zones, prices: &prices, previews: &previews };
        let types = contents.types.values().map(|info| {
            let zones = contents.zones.get(&info.name).unwrap_or(&none);
            let memory = self.sources.discovered.get(info.name.as_str(), amis);
            let mut built = instance_type::build(info, zones, memory, context);
            built.offerings = offerings::offerings(info, zones, sale);
            // Whatever is launched needs an image; before any is resolved, nothing is known about that.
            let imageless =
                !amis.is_empty() && image_for(amis, &built.requirements, &self.registry).is_none();
            // It stays listed: a type that is no longer sold would drift its nodes.
            if imageless || kubelet::evaluate(info, view, &self.settings).is_err() {
                built.offerings.iter_mut().for_each(|offering| offering.available = false);
            }
            Arc::new(built)
        });
        Ok(shared.list(types))
    }
}

/// Returns whether two versions of a `NodeClass` give the same list. The order of subnets follows their free addresses,
/// and means nothing here.
fn same(a: &Arc<EC2NodeClass>, b: &Arc<EC2NodeClass>) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    let sharing = |class: &EC2NodeClass| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(instance_type::devices::SHARING)).cloned()
    };
    a.spec == b.spec && resolved(a) == resolved(b) && sharing(a) == sharing(b)
}

/// Returns the part of a `NodeClass`'s status that types depend on.
fn resolved(class: &EC2NodeClass) -> Option<impl PartialEq + '_> {
    class.status.as_ref().map(|status| {
        let mut subnets: Vec<_> = status.subnets.iter().collect();
        subnets.sort_by(|one, other| one.id.cmp(&other.id));
        (subnets, &status.amis, &status.capacity_reservations)
    })
}

impl std::fmt::Debug for InstanceTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstanceTypes").field("region", &self.region).finish_non_exhaustive()
    }
}

/// The type of this name in a list, which is in the order of names.
pub fn named<'a>(types: &'a [Arc<InstanceType>], name: &str) -> Option<&'a InstanceType> {
    let position = types.binary_search_by(|one| one.name.as_str().cmp(name)).ok()?;
    types.get(position).map(Arc::as_ref)
}
