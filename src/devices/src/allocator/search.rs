//! The search for one instance type: depth first over claims, requests and devices, those that exist before those
//! the machine would bring along.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::device::{AttributeValue, DeviceCount, MAX_DEVICES_PER_CLAIM, PlaceTerm, Reach};
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    DeviceRequestName, InstanceTypeName, LabelRegistry, QualifiedName, Requirements, ResourceName,
};

use crate::allocator::Place;
use crate::claim::{ClaimId, Demand, Request};
use crate::index::{DeviceId, Index, Meter, MeterId, Slice, Template, Uses};
use crate::ledger::{Ledger, Spot};
use crate::refusal::Refusal;
use crate::selector::{SelectorMatch, Selectors};

/// A device for a claim.
#[derive(Debug, Clone)]
pub(crate) struct Choice<'s> {
    pub(crate) claim: ClaimId,
    /// The request it is for.
    pub(crate) request: &'s DeviceRequestName,
    pub(crate) device: DeviceId,
    /// Amounts taken of it.
    pub(crate) uses: Uses,
    /// Term under which it can be reached, if not everywhere.
    pub(crate) term: Option<&'s PlaceTerm>,
    /// Set when the device can be reached from this machine only.
    pub(crate) local: bool,
    /// The machine will bring it along.
    pub(crate) promised: bool,
}

/// The outcome of a search.
#[derive(Debug)]
pub(crate) enum Found<'s> {
    /// Devices for every claim, and what the requirements are then.
    Yes(Vec<Choice<'s>>, Requirements),
    /// No devices; the reason is given where it is not simply that none are left.
    No(Option<Refusal>),
}

/// A device that a request may get.
#[derive(Debug)]
struct Offer<'s> {
    device: DeviceId,
    uses: Uses,
    /// Terms under which it can be reached: one of these must hold; everywhere if there are none.
    terms: Option<&'s [PlaceTerm]>,
    local: bool,
    promised: bool,
}

/// A request with the devices it may get.
struct Ask<'s> {
    claim: ClaimId,
    demand: &'s Demand,
    /// Position of the request in the claim.
    position: usize,
    /// The way in which it is to be met.
    request: &'s Request,
    /// Position of the first constraint of its claim among all of them.
    pins: usize,
    offers: Vec<Offer<'s>>,
}

/// A place for one device.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The request, by position.
    ask: usize,
    /// Position of the offer it must be, where all of them are wanted.
    only: Option<usize>,
    /// Slots of the request from this one on.
    left: usize,
}

/// Value that the devices of a constraint have in common so far.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pin<'s> {
    /// There are no devices yet.
    Open,
    Value(&'s AttributeValue),
    /// A value that is not known yet.
    Group(usize),
}

/// Input of a search, whatever the type.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'s, 'x> {
    pub(crate) index: &'s Index,
    pub(crate) selectors: &'s Selectors,
    pub(crate) registry: &'s LabelRegistry,
    pub(crate) ledger: &'s Ledger,
    pub(crate) spot: &'s Spot,
    /// The type, where it has a name.
    pub(crate) kind: Option<&'s InstanceTypeName>,
    /// Devices that machines of the type bring along.
    pub(crate) template: Option<&'s Template>,
    /// Resources the machine has, which serve requests instead of devices.
    pub(crate) counted: &'x BTreeSet<&'s ResourceName>,
}

/// Steps that a further combination of alternatives counts for: the devices are looked at again.
const STEPS_PER_WAY: usize = 16;

/// Every combination of alternatives of some claims, by position, in the order in which they are to be tried.
struct Ways {
    /// Number of alternatives of each request.
    alternatives: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Ways {
    fn of(demands: &[(ClaimId, &Demand)]) -> Self {
        let requests = demands.iter().flat_map(|(_, demand)| &demand.requests);
        let alternatives: Vec<usize> = requests.map(Vec::len).collect();
        let next = Some(vec![0; alternatives.len()]);
        Self { alternatives, next }
    }
}

impl Iterator for Ways {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let now = self.next.take()?;
        let more = (0..now.len()).rev().find(|position| now[*position] + 1 < self.alternatives[*position]);
        self.next = more.map(|position| {
            let mut next = now.clone();
            next[position] += 1;
            next[position + 1..].fill(0);
            next
        });
        Some(now)
    }
}

/// A search for one type.
pub(crate) struct Search<'s, 'x, 'c> {
    scene: Scene<'s, 'x>,
    place: &'x mut Place<'c>,
    steps: &'x mut usize,
    /// Types that must still do when this one does.
    types: Vec<usize>,
    asks: Vec<Ask<'s>>,
    slots: Vec<Slot>,
    pins: Vec<Pin<'s>>,
    taken: BTreeMap<MeterId, i128>,
    choices: Vec<Choice<'s>>,
}

impl<'s, 'x, 'c> Search<'s, 'x, 'c> {
    /// Looks for devices for `demands` on a type that must do together with `types`, itself among them, given by
    /// position; `steps` are left. Alternatives of requests are tried in order, those of the last request first.
    ///
    /// # Errors
    ///
    /// A request for all devices cannot tell what all of them are.
    pub(crate) fn run(
        scene: Scene<'s, 'x>,
        demands: &[(ClaimId, &'s Demand)],
        (place, requirements): (&'x mut Place<'c>, &Requirements),
        types: Vec<usize>,
        steps: &'x mut usize,
    ) -> Result<Found<'s>, Refusal> {
        let (asks, slots, pins, taken, choices) = Default::default();
        let mut search = Self { scene, place, steps, types, asks, slots, pins, taken, choices };
        let mut refused = None;
        for (tried, ways) in Ways::of(demands).enumerate() {
            if tried > 0 {
                *search.steps = search.steps.saturating_sub(STEPS_PER_WAY);
            }
            if *search.steps == 0 {
                break;
            }
            match search.attempt(demands, &ways, requirements)? {
                Ok(narrowed) => return Ok(Found::Yes(search.choices, narrowed)),
                Err(refusal) => refused = refused.or(refusal),
            }
        }
        Ok(Found::No(refused))
    }

    /// Looks for devices where each request is to be met in the way that `ways` has the position of; the inner error
    /// means that there are none.
    fn attempt(
        &mut self,
        demands: &[(ClaimId, &'s Demand)],
        ways: &[usize],
        requirements: &Requirements,
    ) -> Result<Result<Requirements, Option<Refusal>>, Refusal> {
        (self.asks, self.slots, self.pins) = Default::default();
        (self.taken, self.choices) = Default::default();
        let mut ways = ways.iter();
        for (claim, demand) in demands {
            let requests = demand.requests.iter().zip(&mut ways);
            let requests = requests.map(|(alternatives, way)| &alternatives[*way]).collect();
            if let Err(refusal) = self.add(*claim, demand, requests, requirements)? {
                return Ok(Err(refusal));
            }
        }
        Ok(self.descend(0, 0, requirements).ok_or(None))
    }

    /// Adds the requests of a claim; the inner error means that the type cannot serve it.
    fn add(
        &mut self,
        claim: ClaimId,
        demand: &'s Demand,
        requests: Vec<&'s Request>,
        requirements: &Requirements,
    ) -> Result<Result<(), Option<Refusal>>, Refusal> {
        let pins = self.pins.len();
        self.pins.extend(demand.matching.iter().map(|_| Pin::Open));
        let mut devices = 0_usize;
        let counted = self.scene.counted;
        let by_devices = |request: &Request| {
            request.instead_of.as_ref().is_none_or(|resource| !counted.contains(resource))
        };
        for (position, request) in requests.into_iter().enumerate().filter(|(_, one)| by_devices(one)) {
            let (offers, barred) = self.offers(demand, request, requirements)?;
            let ask = self.asks.len();
            let all = request.count == DeviceCount::All;
            let wanted = match request.count {
                DeviceCount::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
                DeviceCount::All => offers.len(),
            };
            devices = devices.saturating_add(wanted);
            if devices > MAX_DEVICES_PER_CLAIM {
                return Ok(Err(Some(Refusal::TooMany { claim: demand.key.clone(), count: devices })));
            }
            // All of them cannot be had where one cannot.
            if offers.is_empty() || all && barred.is_some() {
                return Ok(Err(barred));
            }
            let slot = |number| Slot { ask, only: all.then_some(number), left: wanted - number };
            self.slots.extend((0..wanted).map(slot));
            self.asks.push(Ask { claim, demand, position, request, pins, offers });
        }
        Ok(Ok(()))
    }

    /// The devices `request` may get, those that exist first; and why it does not get one that would do otherwise.
    fn offers(
        &mut self,
        demand: &Demand,
        request: &'s Request,
        requirements: &Requirements,
    ) -> Result<(Vec<Offer<'s>>, Option<Refusal>), Refusal> {
        let Scene { index, ledger, .. } = self.scene;
        let all = request.count == DeviceCount::All;
        let (mut offers, mut barred) = (Vec::new(), None);
        for pool in &index.pools {
            let is_lost =
                |slice: &Slice| slice.owner.as_ref().is_some_and(|owner| ledger.lost.contains(owner));
            let visible: Vec<bool> =
                pool.slices.iter().map(|slice| self.is_visible(slice, requirements)).collect();
            let problem = match &pool.problem {
                Some(problem) => Some(problem.clone()),
                None if pool.slices.iter().any(is_lost) => Some(format!("{} loses a slice", pool.name)),
                None => None,
            };
            if let Some(problem) = problem {
                if all && visible.contains(&true) {
                    let (claim, request) = (demand.key.clone(), request.name.clone());
                    return Err(Refusal::Pool { claim, request, problem });
                }
                continue;
            }
            for (slice, _) in pool.slices.iter().zip(visible).filter(|(_, visible)| *visible) {
                let (terms, local) = match &slice.reach {
                    Reach::Selected(terms) => (Some(terms.as_slice()), false),
                    Reach::Node(_) => (None, true),
                    Reach::Everywhere => (None, false),
                    // Only its counters are of use.
                    Reach::Unknown => continue,
                };
                for device in &slice.devices {
                    if self.matches(demand, request, *device)?
                        && let Some(uses) = index.entries[*device].uses(request)
                    {
                        let bar = self.bar(demand, request, *device);
                        if bar.is_none() {
                            offers.push(Offer { device: *device, uses, terms, local, promised: false });
                        }
                        barred = barred.or(bar);
                    }
                }
            }
        }
        for device in self.scene.template.iter().flat_map(|template| &template.devices) {
            if self.matches(demand, request, *device)?
                && let Some(uses) = index.entries[*device].uses(request)
            {
                let bar = self.bar(demand, request, *device);
                if bar.is_none() {
                    offers.push(Offer { device: *device, uses, terms: None, local: true, promised: true });
                }
                barred = barred.or(bar);
            }
        }
        Ok((offers, barred))
    }

    /// Returns why `request` must not have `device` although it matches.
    fn bar(&self, demand: &Demand, request: &Request, device: DeviceId) -> Option<Refusal> {
        let device = &self.scene.index.entries[device].device;
        let why = match (&device.unsupported, first_untolerated(&device.taints, &request.tolerations)) {
            (Some(field), _) => format!("it has `{field}`, which is not supported"),
            (None, Some(taint)) => format!("taint `{taint}` is not tolerated"),
            (None, None) => return None,
        };
        Some(Refusal::Barred { claim: demand.key.clone(), device: device.name.clone(), why })
    }

    /// Returns whether devices of `slice` can be reached, or its counters count.
    fn is_visible(&self, slice: &Slice, requirements: &Requirements) -> bool {
        let reached = match &slice.reach {
            Reach::Everywhere => true,
            Reach::Node(node) => {
                matches!(&*self.place, Place::Machine { name: Some(name), .. } if *name == node)
            }
            Reach::Selected(terms) => {
                terms.iter().any(|term| self.place.narrow(requirements, term, self.scene.registry).is_some())
            }
            Reach::Unknown => false,
        };
        reached || slice.has_counters
    }

    /// Returns whether every selector of `request` matches; one that cannot tell does not, except that all
    /// devices cannot be had then.
    fn matches(&self, demand: &Demand, request: &Request, device: DeviceId) -> Result<bool, Refusal> {
        let entries = &self.scene.index.entries;
        let devices = || entries.iter().map(|entry| (entry.driver.as_str(), &entry.device));
        for selector in &request.selectors {
            match &self.scene.selectors.of(*selector, devices())[device] {
                SelectorMatch::Yes => {}
                SelectorMatch::Failed(message) if request.count == DeviceCount::All => {
                    let (claim, request) = (demand.key.clone(), request.name.clone());
                    return Err(Refusal::Evaluation { claim, request, message: message.clone() });
                }
                SelectorMatch::No | SelectorMatch::Failed(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Fills the slots from `slot` on, the first of them with an offer from `from` on; what the requirements are
    /// then, or `None` when it cannot be done.
    fn descend(&mut self, slot: usize, from: usize, requirements: &Requirements) -> Option<Requirements> {
        let Some(Slot { ask, only, left }) = self.slots.get(slot).copied() else {
            let suits = self.types.iter().all(|kind| self.place.suits(*kind, requirements));
            return suits.then(|| requirements.clone());
        };
        let offers = self.asks[ask].offers.len();
        let range = only.map_or(from..offers, |only| only..only + 1);
        for number in range {
            *self.steps = self.steps.checked_sub(1)?;
            let offer = &self.asks[ask].offers[number];
            let admin = self.asks[ask].request.admin;
            // One request with admin access has each device once, too.
            let shareable = self.scene.index.entries[offer.device].device.shareable && !admin;
            if only.is_none() && !shareable && self.too_few(ask, number, left) {
                return None;
            }
            let (device, terms) = (offer.device, offer.terms);
            if !self.fits(ask, number) {
                continue;
            }
            let Some(pinned) = self.pin(ask, device) else { continue };
            self.take(ask, number);
            let next = self.slots.get(slot + 1).filter(|next| next.ask == ask);
            let from = next.map_or(0, |_| number + usize::from(!shareable));
            let found = match terms {
                None => self.descend(slot + 1, from, requirements),
                Some(terms) => terms.iter().find_map(|term| {
                    let narrowed = self.place.narrow(requirements, term, self.scene.registry)?;
                    if let Some(choice) = self.choices.last_mut() {
                        choice.term = Some(term);
                    }
                    self.descend(slot + 1, from, &narrowed)
                }),
            };
            if found.is_some() {
                return found;
            }
            self.untake();
            self.unpin(ask, pinned);
        }
        None
    }

    /// Returns whether fewer than `left` offers from `number` on could be had at all, exclusive ones only.
    fn too_few(&self, ask: usize, number: usize, left: usize) -> bool {
        let offers = &self.asks[ask].offers[number..];
        let shareable = |offer: &Offer<'_>| self.scene.index.entries[offer.device].device.shareable;
        if offers.iter().any(shareable) {
            return false;
        }
        (number..number + offers.len()).filter(|number| self.fits(ask, *number)).take(left).count() < left
    }

    /// Returns whether there is enough left of everything an offer takes.
    fn fits(&self, ask: usize, number: usize) -> bool {
        let Scene { index, ledger, spot, kind, .. } = self.scene;
        let uses = &self.asks[ask].offers[number].uses;
        let room = |(position, (meter, amount)): (usize, &(MeterId, i128))| {
            let Meter { limit, per_machine } = index.meters[*meter];
            let earlier =
                uses[..position].iter().filter(|(other, _)| other == meter).map(|(_, amount)| *amount);
            let tried = self.taken.get(meter).copied().unwrap_or(0);
            let others = if per_machine { 0 } else { ledger.others(*meter, spot) };
            let own = ledger.own(*meter, spot, kind);
            let total = earlier.chain([tried, others, own, *amount]).fold(0i128, i128::saturating_add);
            total <= limit
        };
        uses.iter().enumerate().all(room)
    }

    fn take(&mut self, ask: usize, number: usize) {
        let Ask { claim, request, offers, .. } = &self.asks[ask];
        let Offer { device, uses, local, promised, .. } = &offers[number];
        for (meter, amount) in uses {
            let taken = self.taken.entry(*meter).or_insert(0);
            *taken = taken.saturating_add(*amount);
        }
        self.choices.push(Choice {
            claim: *claim,
            request: &request.name,
            device: *device,
            uses: uses.clone(),
            term: None,
            local: *local,
            promised: *promised,
        });
    }

    fn untake(&mut self) {
        for (meter, amount) in self.choices.pop().into_iter().flat_map(|choice| choice.uses) {
            if let Some(taken) = self.taken.get_mut(&meter) {
                *taken = taken.saturating_sub(amount);
            }
        }
    }

    /// Lets the constraints on request `ask` count `device` in; how they were before, or `None` when one of them
    /// does not hold then.
    fn pin(&mut self, ask: usize, device: DeviceId) -> Option<Vec<Pin<'s>>> {
        let Ask { demand, position, request, pins, .. } = self.asks[ask];
        let (first, after) = (pins, pins + demand.matching.len());
        let mut now = self.pins[first..after].to_vec();
        for (pin, matching) in now.iter_mut().zip(&demand.matching) {
            if !matching.covers(position, request) {
                continue;
            }
            let own = self.value(device, &matching.attribute)?;
            match pin {
                Pin::Open => *pin = own,
                other if *other == own => {}
                _ => return None,
            }
        }
        let before = self.pins[first..after].to_vec();
        self.pins.splice(first..after, now);
        Some(before)
    }

    fn unpin(&mut self, ask: usize, before: Vec<Pin<'s>>) {
        let first = self.asks[ask].pins;
        self.pins.splice(first..first + before.len(), before);
    }

    /// Returns the value known about `attribute` of `device`.
    fn value(&self, device: DeviceId, attribute: &QualifiedName) -> Option<Pin<'s>> {
        let scene = self.scene;
        if let Some(value) = scene.index.entries[device].device.attributes.get(attribute) {
            return Some(Pin::Value(value));
        }
        scene.template?.group(attribute, device).map(Pin::Group)
    }
}
