//! A snapshot as rows of pods and kinds of machines.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    InstanceType, NodeTerm, Offering, Pod, Pool, Requirements, Resources, Snapshot, Toleration, Undefined,
    WhenUnsatisfiable,
};

use super::knapsack::{Filled, Item, fill};
use super::simplex::Column;
use super::{column, is_worth_more};

/// Price of a column that leaves a pod without a machine to buy, so that the simplex always has a solution.
const UNHOSTED: f64 = 1e4;
/// Share of its price by which a machine may be worth more before another column is looked for.
const SLACK: f64 = 5e-4;

/// Steps of worth in which machines are counted.
const COVERING_STEPS: usize = 20_000;

/// Largest number of groups that are kept, of pods that share a host in limited numbers.
const MOST_GROUPS: usize = 4;

/// Most rounds in which prices of resources are changed by one factor.
const LIQUID_STEPS: usize = 50;

/// Constraints of pods on their machine, apart from those about other pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wants {
    selector: Vec<(String, String)>,
    terms: Vec<NodeTerm>,
    tolerations: Vec<Toleration>,
    /// Terms per volume, any of which will do.
    volumes: Vec<Vec<NodeTerm>>,
}

/// Pods that ask for the same.
pub(super) struct Row {
    count: usize,
    requests: Vec<f64>,
    wants: usize,
    /// Index of the group that limits pods on a host, if it is in one.
    group: Option<usize>,
}

/// A machine that can be bought, or some that exist.
struct Kind {
    room: Vec<f64>,
    price: f64,
    /// Answer for each kind of wants: whether such pods may be here.
    accepts: Vec<bool>,
    /// Number of machines; `None` when as many as needed.
    count: Option<usize>,
}

pub(super) struct Problem {
    pub(super) rows: Vec<Row>,
    kinds: Vec<Kind>,
    /// Most pods of each group on one host.
    caps: Vec<usize>,
}

impl Problem {
    pub(super) fn new(snapshot: &Snapshot, pods: &[&Pod]) -> Self {
        let names = resource_names(pods);
        let mut wants: BTreeMap<Wants, (usize, &Pod)> = BTreeMap::new();
        let mut groups: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let mut rows: BTreeMap<(Vec<i128>, usize, Option<usize>), usize> = BTreeMap::new();
        let capped = spreading(pods);
        for pod in pods {
            let number = wants.len();
            let wanted = wants.entry(wants_of(pod, snapshot)).or_insert((number, pod)).0;
            let number = groups.len();
            let group = cap(pod).filter(|(name, _)| capped.contains(name));
            let group = group.map(|(name, most)| groups.entry(name).or_insert((number, most)).0);
            let requests = names.iter().map(|name| pod.requests.amount(name).nanos()).collect();
            *rows.entry((requests, wanted, group)).or_default() += 1;
        }
        let mut wants: Vec<(usize, Wants)> = wants.into_iter().map(|(wants, (id, _))| (id, wants)).collect();
        wants.sort_by_key(|(number, _)| *number);
        let wants: Vec<Wants> = wants.into_iter().map(|(_, wants)| wants).collect();
        let mut groups: Vec<(usize, usize)> = groups.into_values().collect();
        groups.sort_unstable();
        let mut kinds = bought(snapshot, &wants, &names);
        kinds.extend(existing(snapshot, &wants, &names));
        // Everything is about one, whatever its unit.
        let scales: Vec<f64> = (0..names.len())
            .map(|name| kinds.iter().map(|kind| kind.room[name]).fold(1e-9, f64::max))
            .collect();
        for kind in &mut kinds {
            kind.room.iter_mut().zip(&scales).for_each(|(room, scale)| *room /= scale);
        }
        let rows = rows.into_iter().map(|((requests, wants, group), count)| {
            let requests = requests.iter().zip(&scales).map(|(nanos, scale)| *nanos as f64 / scale).collect();
            Row { count, requests, wants, group }
        });
        let caps = groups.into_iter().map(|(_, most)| most).collect();
        Self { rows: rows.collect(), kinds: undominated(kinds), caps }
    }

    /// Returns whether every row has a machine it could be on.
    pub(super) fn is_hosted(&self) -> bool {
        (0..self.rows.len()).all(|row| self.kinds.iter().any(|kind| self.most(row, kind) > 0))
    }

    /// The most pods of `row` on one machine of `kind`.
    fn most(&self, row: usize, kind: &Kind) -> usize {
        let Row { count, requests, wants, group } = &self.rows[row];
        if !kind.accepts[*wants] {
            return 0;
        }
        let fits = |(asked, room): (&f64, &f64)| if *asked > 0.0 { room / asked + 1e-9 } else { f64::MAX };
        let fits = requests.iter().zip(&kind.room).map(fits).fold(f64::MAX, f64::min);
        let capped = group.map_or(usize::MAX, |group| self.caps[group]);
        (*count).min(capped).min(fits.max(0.0) as usize)
    }

    /// Returns the bounds of the rows: at least the number of pods, then at most the number of machines that exist.
    pub(super) fn counts(&self) -> Vec<f64> {
        let pods = self.rows.iter().map(|row| row.count as f64);
        pods.chain(self.kinds.iter().filter_map(|kind| kind.count).map(|count| -(count as f64))).collect()
    }

    /// One column per row of pods: as many of them as go on the machine where that costs least.
    pub(super) fn starts(&self) -> Vec<Column> {
        let start = |row: usize| {
            let bought = self.kinds.iter().filter(|kind| kind.count.is_none());
            let hosting = bought.filter_map(|kind| {
                let most = self.most(row, kind);
                (most > 0).then(|| (kind.price / most as f64, most, kind.price))
            });
            let least = hosting.min_by(|a, b| a.0.total_cmp(&b.0));
            let (_, most, price) = least.unwrap_or((UNHOSTED, 1, UNHOSTED));
            column(&[(row, most)], None, price)
        };
        (0..self.rows.len()).map(start).collect()
    }

    /// A price for each row as if pods were a liquid: a price per unit of each resource such that no machine holds more
    /// for its price than the best one, and all pods together are worth as much as some steps can make them. Rows of
    /// machines that exist follow.
    pub(super) fn prices_by_resource(&self) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let names = self.rows.first().map_or(0, |row| row.requests.len());
        let mut all = vec![0.0; names];
        for row in &self.rows {
            all.iter_mut().zip(&row.requests).for_each(|(all, asked)| *all += asked * row.count as f64);
        }
        let scale = |prices: &[f64]| {
            let bought = self.kinds.iter().filter(|kind| kind.count.is_none());
            bought.map(|kind| kind.price / dot(prices, &kind.room).max(1e-12)).fold(UNHOSTED, f64::min)
        };
        let worth = |prices: &[f64]| scale(prices) * dot(prices, &all);
        let mut prices = vec![1.0; names];
        let mut best = worth(&prices);
        for factor in [8.0, 2.0, 1.3, 1.1, 1.03, 1.01] {
            for _ in 0..LIQUID_STEPS {
                let before = best;
                for name in 0..names {
                    for factor in [factor, 1.0 / factor] {
                        prices[name] *= factor;
                        let now = worth(&prices);
                        if now > best {
                            best = now;
                        } else {
                            prices[name] /= factor;
                        }
                    }
                }
                if best <= before {
                    break;
                }
            }
        }
        let scale = scale(&prices);
        let pods = self.rows.iter().map(|row| scale * dot(&prices, &row.requests));
        // A machine that exists is worth nothing here.
        pods.chain(self.kinds.iter().filter(|kind| kind.count.is_some()).map(|_| 0.0)).collect()
    }

    /// The bound that `prices` of rows prove, and columns that `duals` would gain by.
    pub(super) fn bound(&self, prices: &[f64], duals: &[f64], branches: usize) -> (f64, Vec<Column>) {
        let (mut scale, mut columns, mut taken) = (1.0_f64, Vec::new(), Vec::new());
        let mut machine = self.rows.len();
        let worth = |pods: &[(usize, usize)], of: &[f64]| -> f64 {
            pods.iter().map(|(row, count)| of[*row] * *count as f64).sum()
        };
        for kind in &self.kinds {
            let items = self.items(kind, prices);
            // A machine that exists costs nothing; its worth need not be exact.
            let enough = kind.price * (1.0 + SLACK);
            let Filled { pods, most } = fill(&items, &kind.room, &self.caps, (enough, branches));
            match kind.count {
                None => {
                    if most > 0.0 {
                        scale = scale.min(kind.price / most);
                    }
                    if is_worth_more(worth(&pods, duals), kind.price) {
                        columns.push(column(&pods, None, kind.price));
                    }
                }
                Some(count) => {
                    taken.push(most * count as f64);
                    if is_worth_more(worth(&pods, duals), duals[machine]) {
                        columns.push(column(&pods, Some(machine), 0.0));
                    }
                    machine += 1;
                }
            }
        }
        let all: f64 = self.rows.iter().zip(prices).map(|(row, price)| row.count as f64 * price).sum();
        (scale * (all - taken.iter().sum::<f64>()), columns)
    }

    /// A bound that counts whole machines: no machine holds more than it can at `prices` of rows, and together they must
    /// hold all that is worth anything, less what machines that exist can take.
    pub(super) fn whole_machines(&self, prices: &[f64], branches: usize) -> f64 {
        let mut machines = Vec::new();
        let mut left: f64 = self.rows.iter().zip(prices).map(|(row, price)| row.count as f64 * price).sum();
        for kind in &self.kinds {
            let Filled { most, .. } =
                fill(&self.items(kind, prices), &kind.room, &self.caps, (0.0, branches));
            match kind.count {
                None => machines.push((most, kind.price)),
                Some(count) => left -= most * count as f64,
            }
        }
        if left > 0.0 { covering(&machines, left) } else { 0.0 }
    }

    /// The pods that may be on a machine of `kind`, at `prices` of rows.
    fn items(&self, kind: &Kind, prices: &[f64]) -> Vec<Item<'_>> {
        let worthy = (0..self.rows.len()).filter(|row| prices[*row] > 1e-12);
        let items = worthy.filter_map(|row| {
            let most = self.most(row, kind);
            let Row { requests, group, .. } = &self.rows[row];
            (most > 0).then(|| Item { row, value: prices[row], most, requests, group: *group })
        });
        items.collect()
    }
}

/// The least price at which machines can hold worth `least`, a whole number of each: what one holds at most, and its
/// price. What machines hold is rounded up.
fn covering(machines: &[(f64, f64)], least: f64) -> f64 {
    let step = least / COVERING_STEPS as f64;
    let machines: Vec<(usize, f64)> =
        machines.iter().map(|(held, price)| ((held / step).ceil() as usize, *price)).collect();
    let mut cheapest = vec![0.0_f64; COVERING_STEPS + 1];
    for steps in 1..=COVERING_STEPS {
        let costs = machines.iter().filter(|(held, _)| *held > 0);
        let costs = costs.map(|(held, price)| price + cheapest[steps.saturating_sub(*held)]);
        cheapest[steps] = costs.fold(f64::MAX, f64::min);
    }
    cheapest[COVERING_STEPS]
}

fn resource_names(pods: &[&Pod]) -> Vec<String> {
    let named = pods.iter().flat_map(|pod| pod.requests.iter());
    let asked = named.filter(|(_, amount)| !amount.is_zero()).map(|(name, _)| name.as_str().to_owned());
    asked.collect::<BTreeSet<_>>().into_iter().collect()
}

fn wants_of(pod: &Pod, snapshot: &Snapshot) -> Wants {
    let volumes = pod.volumes.iter().filter_map(|claim| {
        let volume = snapshot.volumes.get(&(pod.key.namespace.clone(), claim.name.clone()))?;
        let term = |at: &Vec<_>| NodeTerm { expressions: at.clone(), ..NodeTerm::default() };
        (!volume.alternatives.is_empty()).then(|| volume.alternatives.iter().map(term).collect())
    });
    let selector = pod.node_selector.iter();
    Wants {
        selector: selector.map(|(key, value)| (key.to_string(), value.as_str().to_owned())).collect(),
        terms: pod.required_terms.clone(),
        // A soft taint may be ignored.
        tolerations: pod.tolerations.iter().cloned().chain([Toleration::prefer_no_schedule()]).collect(),
        volumes: volumes.collect(),
    }
}

/// Returns the group of pods that may share a host in limited numbers only, and this number, if `pod` is in one.
fn cap(pod: &Pod) -> Option<(String, usize)> {
    let apart = pod.pod_anti_affinity.required.iter().filter_map(|term| {
        let selector = term.selector.as_ref()?;
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
        (own && term.topology_key == label::HOSTNAME && selector.matches(&pod.labels))
            .then(|| (format!("{} {selector:?}", pod.key.namespace), 1))
    });
    let spread = pod.spread.iter().filter_map(|spread| {
        let selector = spread.selector.as_ref()?;
        let hard = spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        let own = spread.match_label_keys.is_empty() && selector.matches(&pod.labels);
        // A new host has none, so the least is zero.
        (own && hard && spread.topology_key == label::HOSTNAME).then(|| {
            (format!("{} {selector:?} {}", pod.key.namespace, spread.max_skew), spread.max_skew as usize)
        })
    });
    apart.chain(spread).min_by_key(|(_, most)| *most)
}

/// The groups that need most machines for their pods, as far as a machine may not have all of one. The others are left
/// out, as any rule may be: each makes more rows of pods that ask for the same, and the search slow, for nothing where the
/// pods of all groups need more machines anyway.
fn spreading(pods: &[&Pod]) -> BTreeSet<String> {
    let mut numbers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, most) in pods.iter().filter_map(|pod| cap(pod)) {
        numbers.entry(name).or_insert((0, most)).0 += 1;
    }
    let machines = numbers.into_iter().map(|(name, (pods, most))| (pods.div_ceil(most.max(1)), name));
    let mut machines: Vec<(usize, String)> = machines.filter(|(number, _)| *number > 1).collect();
    machines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    machines.into_iter().take(MOST_GROUPS).map(|(_, name)| name).collect()
}

/// The machines that can be bought.
fn bought(snapshot: &Snapshot, wants: &[Wants], names: &[String]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for pool in snapshot.pools.iter().filter(|pool| pool.replicas.is_none() && !pool.deleting && pool.ready) {
        let template = template(pool, snapshot);
        for one in snapshot.instance_types.get(&pool.name).into_iter().flat_map(|types| types.iter()) {
            if template.intersects(&one.requirements).is_err() {
                continue;
            }
            let mut seen: BTreeSet<(i64, Vec<bool>, Vec<i128>)> = BTreeSet::new();
            for offering in one.compatible_offerings(&template, &snapshot.registry) {
                let all = sold(&template, one, offering);
                let allocatable = one.allocatable_through(offering);
                let room = without_daemons(&allocatable, &all, pool, snapshot);
                let accepts: Vec<bool> =
                    wants.iter().map(|wants| accepted(wants, &all, pool, snapshot)).collect();
                let room: Vec<i128> = names.iter().map(|name| room.amount(name).nanos()).collect();
                let price = offering.price.nanos();
                let hosts = accepts.contains(&true) && room.iter().all(|room| *room >= 0);
                if hosts && seen.insert((price, accepts.clone(), room.clone())) {
                    let room = room.iter().map(|nanos| *nanos as f64).collect();
                    kinds.push(Kind { room, price: price as f64 / 1e9, accepts, count: None });
                }
            }
        }
    }
    kinds
}

fn template(pool: &Pool, snapshot: &Snapshot) -> Requirements {
    let class = &pool.template.node_class;
    let mut labels = pool.template.labels.clone();
    labels.insert(label::NODE_POOL.into(), pool.name.as_str().into());
    labels.insert(class.label_key(), class.name.as_str().into());
    let mut template = pool.template.requirements.clone();
    template.add_all(&Requirements::from_labels(&snapshot.registry, &labels));
    template
}

/// Returns what is known about the labels of a machine bought through `offering`.
fn sold(template: &Requirements, one: &InstanceType, offering: &Offering) -> Requirements {
    let mut all = template.clone();
    all.add_all(&one.requirements);
    all.add_all(&offering.requirements);
    all
}

/// `allocatable` less the daemons that certainly run there.
fn without_daemons(
    allocatable: &Resources,
    all: &Requirements,
    pool: &Pool,
    snapshot: &Snapshot,
) -> Resources {
    let mut room = allocatable.clone();
    for daemon in &snapshot.daemons {
        let wants = Wants {
            selector: daemon
                .pod
                .node_selector
                .iter()
                .map(|(k, v)| (k.to_string(), v.as_str().into()))
                .collect(),
            terms: daemon.pod.required_terms.clone(),
            tolerations: daemon.pod.tolerations.clone(),
            volumes: Vec::new(),
        };
        if !daemon.pod.has_resource_claims && accepted(&wants, all, pool, snapshot) {
            room = room.subtract(&daemon.pod.requests);
        }
    }
    room
}

fn accepted(wants: &Wants, all: &Requirements, pool: &Pool, snapshot: &Snapshot) -> bool {
    first_untolerated(&pool.template.taints, &wants.tolerations).is_none()
        && stated(wants, snapshot, |asked| {
            all.compatible(asked, Undefined::WellKnown(&snapshot.registry)).is_ok()
        })
}

/// Returns whether `agrees` with some of what `wants` leaves open.
fn stated(wants: &Wants, snapshot: &Snapshot, agrees: impl Fn(&Requirements) -> bool) -> bool {
    let registry = &snapshot.registry;
    let labels = wants.selector.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    let of = |term: &NodeTerm| Requirements::from_expressions(registry, &term.expressions);
    let any = |terms: &[NodeTerm]| terms.is_empty() || terms.iter().any(|term| agrees(&of(term)));
    agrees(&Requirements::from_labels(registry, &labels.collect()))
        && any(&wants.terms)
        && wants.volumes.iter().all(|terms| any(terms))
}

/// Machines that exist or are coming, with what is free on them: those with as much room are one kind.
fn existing(snapshot: &Snapshot, wants: &[Wants], names: &[String]) -> Vec<Kind> {
    let mut kinds: BTreeMap<(Vec<i128>, Vec<bool>), usize> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
        let room = node.effective_allocatable().subtract(&node.requested());
        let room: Vec<i128> = names.iter().map(|name| room.amount(name).nanos().max(0)).collect();
        let all = Requirements::from_labels(&snapshot.registry, node.effective_labels());
        let taints = node.effective_taints();
        let accepts = |wants: &Wants| {
            first_untolerated(&taints, &wants.tolerations).is_none()
                && stated(wants, snapshot, |asked| {
                    all.compatible(asked, Undefined::WellKnown(&snapshot.registry)).is_ok()
                })
        };
        *kinds.entry((room, wants.iter().map(accepts).collect())).or_default() += 1;
    }
    let kind = |((room, accepts), count): ((Vec<i128>, Vec<bool>), usize)| {
        let room = room.iter().map(|nanos| *nanos as f64).collect();
        Kind { room, price: 0.0, accepts, count: Some(count) }
    };
    kinds.into_iter().map(kind).collect()
}

/// `kinds` without those that another one is as good as for no more money.
fn undominated(mut kinds: Vec<Kind>) -> Vec<Kind> {
    kinds.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut kept: Vec<Kind> = Vec::new();
    for kind in kinds {
        let is_better = |other: &Kind| {
            other.count.is_none()
                && other.room.iter().zip(&kind.room).all(|(other, own)| other >= own)
                && other.accepts.iter().zip(&kind.accepts).all(|(other, own)| other >= own)
        };
        if kind.count.is_some() || !kept.iter().any(is_better) {
            kept.push(kind);
        }
    }
    kept
}
