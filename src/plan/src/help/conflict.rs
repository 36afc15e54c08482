//! The conflict between a pod and a pool that refuses it: one sentence, and changes that may end it.
//!
//! The engine's own text lists everything that was compared; a person needs the part that does not agree. Which part that
//! is follows from the code of the refusal. Nothing here decides about a place: every change is tried by the engine before it
//! is advised.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::resources::EPHEMERAL_STORAGE;
use karpenter_model::taint::untolerated;
use karpenter_model::{
    InstanceType, LabelKey, LabelRegistry, LabelValue, Offering, Pod, Pool, Price, Quantity, Requirement,
    Requirements, ResourceName, Resources, Snapshot,
};

use super::amount::{Amount, Number, shown, whole_gibibytes};
use super::change::{Change, any_of};

/// Parts of a pod and a pool that do not agree.
#[derive(Debug)]
pub(super) struct Conflict {
    /// One sentence without its end; `None` where the text of the reason is one.
    pub(super) text: Option<String>,
    /// Alternatives, the best first, each of changes that belong together.
    pub(super) alternatives: Vec<Vec<Change>>,
}

impl Conflict {
    fn without_help(text: String) -> Self {
        Self { text: Some(text), alternatives: Vec::new() }
    }
}

/// Returns the conflict behind a refusal for `code`; `None` where the text of the reason is all there is to say.
pub(super) fn conflict(snapshot: &Snapshot, pod: &Pod, pool: &Pool, code: ReasonCode) -> Option<Conflict> {
    match code {
        ReasonCode::Taint => {
            let taints: Vec<_> = untolerated(&pool.template.taints, &pod.tolerations).cloned().collect();
            let names: Vec<String> = taints.iter().map(|taint| format!("`{taint}`")).collect();
            let (s, is) = if taints.len() == 1 { ("", "it") } else { ("s", "them") };
            Some(Conflict {
                text: Some(format!(
                    "it has the taint{s} {}, and the pod does not tolerate {is}",
                    names.join(", ")
                )),
                alternatives: vec![taints.into_iter().map(Change::Tolerate).collect()],
            })
        }
        ReasonCode::Limits => {
            Some(Conflict { text: None, alternatives: vec![vec![Change::Unlimited(pool.name.clone())]] })
        }
        ReasonCode::Requirements => {
            of_requirements(&asked(pod, &snapshot.registry)?, pool, &snapshot.registry)
        }
        ReasonCode::InstanceTypes | ReasonCode::NoCompatibleInstanceTypes => {
            Pair::of(snapshot, pod, pool)?.conflict()
        }
        _ => None,
    }
}

/// Returns why `pool` launches nothing, whatever pods ask for; `None` where its instance types are not known.
pub(super) fn of_pool(snapshot: &Snapshot, pool: &Pool) -> Option<String> {
    let registry = &snapshot.registry;
    let types = snapshot.instance_types.get(&pool.name)?;
    let sold = types.iter().map(|one| &**one).filter(|one| is_sold(one)).collect();
    let types = Types { registry, asked: Requirements::new(), own: pool.requirements(registry), sold };
    Some(if types.sold.is_empty() { NOTHING_SOLD.to_owned() } else { types.impossible() })
}

/// Returns what the pod asks of its node; `None` when it has alternatives, of which none is the one that fails.
fn asked(pod: &Pod, registry: &LabelRegistry) -> Option<Requirements> {
    let mut asked = Requirements::from_labels(registry, &pod.node_selector);
    match pod.required_terms.as_slice() {
        [] => {}
        [only] => asked.add_all(&Requirements::from_expressions(registry, &only.expressions)),
        _ => return None,
    }
    Some(asked)
}

fn of_requirements(asked: &Requirements, pool: &Pool, registry: &LabelRegistry) -> Option<Conflict> {
    let own = pool.requirements(registry);
    let (mut parts, mut changes) = (Vec::new(), Vec::new());
    for wanted in asked.iter() {
        let key = wanted.key();
        let name = || pool.name.clone();
        match own.get(key.as_str()) {
            Some(known) if known.intersects(wanted) => {}
            Some(known) if known.accepts_absence() && wanted.accepts_absence() => {}
            Some(known) => {
                parts.push(format!("the pod asks for {}, and it allows {}", said(wanted), values(known)));
                if let Some(values) = wanted.concrete().filter(|_| !pool.template.labels.contains_key(key)) {
                    changes.push(Change::Allow(name(), key.clone(), values.clone()));
                }
            }
            None if registry.is_well_known(key.as_str()) || wanted.accepts_absence() => {}
            None => {
                parts.push(format!("the pod asks for {}, a label that it does not set", said(wanted)));
                if let Some(value) = wanted.any().filter(|_| !registry.is_restricted(key.as_str())) {
                    changes.push(Change::Label(name(), key.clone(), value));
                }
            }
        }
    }
    // A part that nothing helps against makes help against the others useless.
    let alternatives = if changes.len() == parts.len() { vec![changes] } else { Vec::new() };
    (!parts.is_empty()).then(|| Conflict { text: Some(parts.join("; ")), alternatives })
}

/// A requirement as it is written: `` `kubernetes.io/arch` `arm64` ``.
fn said(requirement: &Requirement) -> String {
    format!("`{}` {}", requirement.key(), values(requirement))
}

/// The values of a requirement in words.
fn values(requirement: &Requirement) -> String {
    if let Some(values) = requirement.concrete() {
        return if values.is_empty() { "no value".to_owned() } else { any_of(values) };
    }
    let bounds = [("at least", requirement.lower()), ("at most", requirement.upper())];
    let bounds = bounds.into_iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound?)));
    let excluded = requirement.values();
    let excluded = (!excluded.is_empty()).then(|| format!("other than {}", any_of(excluded)));
    let parts: Vec<String> = bounds.chain(excluded).collect();
    if parts.is_empty() { "any value".to_owned() } else { parts.join(" and ") }
}

const NOTHING_SOLD: &str = "no instance type can be launched, because no offering is available";

fn is_sold(one: &InstanceType) -> bool {
    one.offerings.iter().any(Offering::is_launchable)
}

/// Instance types of a pool, beside what the pool and a pod ask for.
struct Types<'a> {
    registry: &'a LabelRegistry,
    asked: Requirements,
    own: Requirements,
    /// Types with an offering that can be launched.
    sold: Vec<&'a InstanceType>,
}

impl<'a> Types<'a> {
    /// The types with an offering that meets `requirements`.
    fn with(&self, requirements: &Requirements) -> Vec<&'a InstanceType> {
        let meets = |one: &&InstanceType| {
            requirements.intersects(&one.requirements).is_ok()
                && one.compatible_offerings(requirements, self.registry).next().is_some()
        };
        self.sold.iter().copied().filter(meets).collect()
    }

    /// Describes what no type of the pool has that the pod asks for, regardless of sizes.
    fn unsuitable(&self) -> String {
        if self.with(&self.own).is_empty() {
            return self.impossible();
        }
        let impossible = self.asked.iter().filter(|wanted| {
            let mut with = self.own.clone();
            with.add(Requirement::clone(wanted));
            self.with(&with).is_empty()
        });
        let impossible: Vec<String> = impossible.map(said).collect();
        if impossible.is_empty() {
            return "no single instance type that it allows has all that the pod asks for".to_owned();
        }
        format!("no instance type that it allows has {}, which the pod asks for", impossible.join(" and "))
    }

    /// Describes what the pool itself asks for that no instance type has.
    fn impossible(&self) -> String {
        let alone = |own: &&Requirement| {
            let only: Requirements = [Requirement::clone(own)].into_iter().collect();
            only.iter().any(|one| self.sold.iter().all(|sold| !has(sold, one)))
        };
        // It is the same to forbid a label and to leave no value of it, as bounds do that cross.
        let empty = self.own.iter().filter(alone).find(|own| own.is_empty());
        if let Some(empty) = empty {
            let key = empty.key();
            return format!(
                "the pool allows no value of `{key}`, and no instance type is without that label"
            );
        }
        let impossible: Vec<String> = self.own.iter().filter(alone).map(said).collect();
        if impossible.is_empty() {
            return "no instance type meets all requirements of the pool at once".to_owned();
        }
        format!("no instance type has {}, which the pool asks for", impossible.join(" and "))
    }

    /// The values of `key` with which `one` can be launched.
    fn values_of(&self, one: &InstanceType, rest: &Requirements, key: &LabelKey) -> Vec<LabelValue> {
        let offered = one.compatible_offerings(rest, self.registry);
        let has = offered.filter_map(|offering| {
            offering.requirements.get(key.as_str()).or_else(|| one.requirements.get(key.as_str()))
        });
        let own = rest.get(key.as_str());
        let values = has.filter_map(Requirement::concrete).flatten();
        values.filter(|value| own.is_none_or(|own| own.allows(value.as_str()))).cloned().collect()
    }
}

/// Returns whether `one` meets a requirement; labels that no type has are those of users.
fn has(one: &InstanceType, requirement: &Requirement) -> bool {
    let sold = one.requirements.get(requirement.key().as_str());
    sold.is_none_or(|sold| sold.intersects(requirement))
}

/// A pod, and the pool whose types do not take it.
struct Pair<'a> {
    pod: &'a Pod,
    pool: &'a Pool,
    /// Requests of all daemon pods.
    daemons: Resources,
    types: Types<'a>,
}

impl<'a> Pair<'a> {
    fn of(snapshot: &'a Snapshot, pod: &'a Pod, pool: &'a Pool) -> Option<Self> {
        let types = snapshot.instance_types.get(&pool.name)?;
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.pod.requests);
        let registry = &snapshot.registry;
        let types = Types {
            registry,
            asked: asked(pod, registry)?,
            own: pool.requirements(registry),
            sold: types.iter().map(|one| &**one).filter(|one| is_sold(one)).collect(),
        };
        Some(Self {
            pod,
            pool,
            daemons: daemons.fold(Resources::new(), |sum, requests| sum.merge(requests)),
            types,
        })
    }

    fn conflict(&self) -> Option<Conflict> {
        if self.types.sold.is_empty() {
            return Some(Conflict::without_help(NOTHING_SOLD.to_owned()));
        }
        let mut both = self.types.own.clone();
        both.add_all(&self.types.asked);
        let suitable = self.types.with(&both);
        let text = if suitable.is_empty() { self.types.unsuitable() } else { self.too_small(&suitable)? };
        let alternatives = [self.wider(), self.disk(&suitable), self.less(&suitable), self.renamed()];
        Some(Conflict { text: Some(text), alternatives: alternatives.into_iter().flatten().collect() })
    }

    /// Describes the resources of which none of `suitable` has enough; `None` when each has one of them that is large enough.
    fn too_small(&self, suitable: &[&InstanceType]) -> Option<String> {
        let said = |(name, wanted, most): (&ResourceName, Quantity, Quantity)| {
            let asks = Amount(name, wanted);
            if most.is_zero() {
                return format!("the pod asks for {asks}, which no instance type that it allows has");
            }
            let has = Number(name, most);
            format!("the pod asks for {asks}, and the largest instance type that it allows has {has}")
        };
        let parts: Vec<String> = self.short(suitable).into_iter().map(said).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Resources of which the pod asks for more than any of `types` has: name, amount asked for, and the most there is.
    fn short(&self, types: &[&InstanceType]) -> Vec<(&'a ResourceName, Quantity, Quantity)> {
        let rooms: Vec<Resources> = types.iter().map(|one| one.allocatable()).collect();
        let most = Resources::max(&rooms);
        let short = self.pod.requests.iter().filter_map(|(name, wanted)| {
            let most = most.amount(name.as_str());
            (*wanted > most).then_some((name, *wanted, most))
        });
        short.collect()
    }

    /// The pool allows a type on which the pod fits: the one that needs the fewest requirements changed, then the cheapest.
    fn wider(&self) -> Option<Vec<Change>> {
        let fitting = self.types.with(&self.types.asked);
        let fitting = fitting.into_iter().filter(|one| self.pod.requests.fits(&one.allocatable()));
        let ways = fitting.flat_map(|one| {
            let offered = one.compatible_offerings(&self.types.asked, self.types.registry);
            offered.map(move |offering| (one, offering))
        });
        let ranked =
            ways.map(|(one, offering)| Way { broken: self.broken(one, offering), price: offering.price });
        let Way { broken, .. } = ranked.min_by_key(Way::rank)?;
        // Labels of the template are set for reasons of their own, and a label that no type has cannot be allowed.
        let is_fixed = |(key, values): (&LabelKey, &BTreeSet<LabelValue>)| {
            values.is_empty() || self.pool.template.labels.contains_key(key)
        };
        if broken.is_empty() || broken.iter().any(is_fixed) {
            return None;
        }
        let allow = |(key, values)| Change::Allow(self.pool.name.clone(), key, values);
        Some(broken.into_iter().map(allow).collect())
    }

    /// Requirements of the pool that keep it from launching `one` through `offering`, with the values that would do.
    fn broken(&self, one: &InstanceType, offering: &Offering) -> BTreeMap<LabelKey, BTreeSet<LabelValue>> {
        let broken = self.types.own.iter().filter_map(|own| {
            let key = own.key();
            let sold = offering.requirements.get(key.as_str());
            let has = sold.or_else(|| one.requirements.get(key.as_str()))?;
            (!own.intersects(has)).then(|| (key.clone(), has.concrete().cloned().unwrap_or_default()))
        });
        broken.collect()
    }

    /// The disks of nodes are larger: their size is for the node class to say.
    fn disk(&self, suitable: &[&InstanceType]) -> Option<Vec<Change>> {
        let short = self.short(suitable).into_iter().find(|(name, ..)| name.as_str() == EPHEMERAL_STORAGE);
        let (name, wanted, most) = short?;
        let more = wanted.saturating_add(self.daemons.amount(name.as_str())).saturating_sub(most);
        Some(vec![Change::Disk(self.pool.name.clone(), whole_gibibytes(more))])
    }

    /// The pod asks for as much as the largest of `suitable` has besides daemons.
    fn less(&self, suitable: &[&InstanceType]) -> Option<Vec<Change>> {
        let (name, ..) = self.short(suitable).into_iter().next()?;
        let largest = suitable.iter().max_by_key(|one| one.allocatable().amount(name.as_str()))?;
        let room = largest.allocatable();
        let mut most = Resources::new();
        for (name, wanted) in self.pod.requests.iter() {
            let left = room.amount(name.as_str()).saturating_sub(self.daemons.amount(name.as_str()));
            if *wanted <= left {
                continue;
            }
            let left = shown(name, left);
            if left <= Quantity::ZERO {
                return None;
            }
            most.set(name.as_str(), left);
        }
        (!most.is_empty()).then(|| vec![Change::AskFor(most)])
    }

    /// The pod asks for a value there is, where it asks for one that no instance type has.
    fn renamed(&self) -> Option<Vec<Change>> {
        let Types { asked, own, .. } = &self.types;
        if !self.types.with(asked).is_empty() {
            return None;
        }
        asked.iter().filter(|wanted| wanted.concrete().is_some()).find_map(|wanted| {
            let key = wanted.key();
            let mut rest = own.clone();
            rest.add_all(asked);
            rest.remove(key.as_str());
            if let Some(own) = own.get(key.as_str()) {
                rest.add(own.clone());
            }
            let there = self.types.with(&rest);
            let there: BTreeSet<LabelValue> =
                there.into_iter().flat_map(|one| self.types.values_of(one, &rest, key)).collect();
            (!there.is_empty()).then(|| vec![Change::Rename(key.clone(), there)])
        })
    }
}

/// A way to buy a type on which a pod fits, and the requirements of a pool that are against it.
struct Way {
    broken: BTreeMap<LabelKey, BTreeSet<LabelValue>>,
    price: Price,
}

impl Way {
    fn rank(&self) -> (bool, usize, Price) {
        (self.broken.values().any(BTreeSet::is_empty), self.broken.len(), self.price)
    }
}
