//! Comparison of expectations with a recording. Pure: the same recording gives the same answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use karpenter_model::Price;

use super::format::{
    CapacityType, Disruptions, Events, Money, Nodes, PendingTime, Phase, Pods, Realised, When,
};
use super::read::{Expected, Line, Subject, Window};
use super::record::{NodeFact, Picture, PodFact, Recording};
use super::value::{Dollars, Span, is_of_type};

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the file; `None` for what is expected of every scenario.
    pub line: Option<u64>,
    /// The subject that was judged.
    pub subject: String,
    /// The condition that has to be true of it.
    pub expected: String,
    /// The value that was found.
    pub actual: String,
    /// Purpose of the expectation, from the file.
    pub because: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: expected {}, actual {}", self.subject, self.expected, self.actual)?;
        self.because.as_ref().map_or(Ok(()), |because| write!(f, " ({because})"))
    }
}

/// Every expectation that is not met, in the order of the file.
pub fn judge(expectations: &[Line<Expected>], recording: &Recording) -> Vec<Failure> {
    expectations.iter().filter_map(|one| judge_one(one, recording)).collect()
}

fn judge_one(one: &Line<Expected>, recording: &Recording) -> Option<Failure> {
    let Expected { because, window, subject } = &one.what;
    let wrong = match subject {
        Subject::CostPerHour(money) => of_cost_per_hour(money, window, recording),
        Subject::CostTotal(money) => of_cost_total(money, window, recording),
        Subject::Realised(realised) => of_realised(realised, recording),
        Subject::Nodes(nodes) => of_nodes(nodes, window, recording),
        Subject::Pods(pods) => of_pods(pods, window, recording),
        Subject::PendingTime(times) => of_pending_time(times, recording),
        Subject::Disruptions(disruptions) => of_disruptions(disruptions, window, recording),
        Subject::Events(events) => of_events(events, window, recording),
    };
    wrong.map(|Wrong { subject, expected, actual }| Failure {
        line: Some(one.line),
        subject,
        expected,
        actual,
        because: because.clone(),
    })
}

struct Wrong {
    subject: String,
    expected: String,
    actual: String,
}

/// Bounds of a number.
struct Bounds<T> {
    exactly: Option<T>,
    at_most: Option<T>,
    at_least: Option<T>,
}

impl<T: PartialOrd + Copy + fmt::Display> Bounds<T> {
    fn hold(&self, number: T) -> bool {
        self.exactly.is_none_or(|bound| number == bound)
            && self.at_most.is_none_or(|bound| number <= bound)
            && self.at_least.is_none_or(|bound| number >= bound)
    }

    fn text(&self) -> String {
        let bounds = [("exactly", self.exactly), ("at most", self.at_most), ("at least", self.at_least)];
        let said = bounds.into_iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound?)));
        said.collect::<Vec<_>>().join(" and ")
    }
}

/// Looks at pictures as an expectation says: of one time, always, or eventually.
fn of_pictures<T: PartialOrd + Copy + fmt::Display>(
    window: &Window,
    recording: &Recording,
    subject: &str,
    bounds: &Bounds<T>,
    number: impl Fn(&Picture) -> (T, String),
) -> Option<Wrong> {
    let end = recording.took;
    let failed = |when: String, expected: String, (number, more): (T, String), at: String| {
        let actual = format!("{number}{at}{more}");
        Some(Wrong { subject: format!("{subject} {when}"), expected, actual })
    };
    let Some(when) = window.when else {
        let at = window.at.map_or(end, |at| at.0);
        let seen = number(picture_at(recording, at)?);
        let when = window.at.map_or("at the end".to_owned(), |at| format!("at {at}"));
        return if bounds.hold(seen.0) { None } else { failed(when, bounds.text(), seen, String::new()) };
    };
    let (from, until) = stretch(window, end);
    let first = picture_at(recording, from).into_iter();
    let within = recording.pictures.iter().filter(|picture| picture.at > from && picture.at <= until);
    let mut seen = first.chain(within).map(|picture| (picture.at.max(from), number(picture)));
    let span = between(window);
    match when {
        When::Always => {
            let (at, seen) = seen.find(|(_, (number, _))| !bounds.hold(*number))?;
            failed(format!("always{span}"), bounds.text(), seen, format!(" at {}", Span(at)))
        }
        When::Eventually => {
            let seen: Vec<_> = seen.collect();
            if seen.iter().any(|(_, (number, _))| bounds.hold(*number)) {
                return None;
            }
            let mut numbers: Vec<T> = seen.iter().map(|(_, (number, _))| *number).collect();
            numbers.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            let actual = match (numbers.first(), numbers.last()) {
                (Some(least), Some(most)) if least != most => format!("from {least} to {most}"),
                (Some(one), _) => format!("{one} all the time"),
                _ => "nothing".to_owned(),
            };
            Some(Wrong { subject: format!("{subject} eventually{span}"), expected: bounds.text(), actual })
        }
    }
}

/// The picture of a time.
fn picture_at(recording: &Recording, at: Duration) -> Option<&Picture> {
    recording.pictures.iter().rfind(|picture| picture.at <= at).or_else(|| recording.pictures.first())
}

fn stretch(window: &Window, end: Duration) -> (Duration, Duration) {
    (window.from.unwrap_or_default().0, window.until.map_or(end, |until| until.0))
}

fn between(window: &Window) -> String {
    match (window.from, window.until) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" from {from}"),
        (None, Some(until)) => format!(" until {until}"),
        (Some(from), Some(until)) => format!(" from {from} until {until}"),
    }
}

impl Bounds<Price> {
    fn of(money: &Money) -> Self {
        let price = |dollars: Dollars| dollars.0;
        Self { exactly: None, at_most: money.at_most.map(price), at_least: money.at_least.map(price) }
    }
}

fn of_cost_per_hour(money: &Money, window: &Window, recording: &Recording) -> Option<Wrong> {
    of_pictures(window, recording, "`cost.perHour`", &Bounds::of(money), |picture| {
        (picture.per_hour, nodes_of(picture))
    })
}

fn of_cost_total(money: &Money, window: &Window, recording: &Recording) -> Option<Wrong> {
    let bounds = Bounds::of(money);
    let end = window.at.map_or(recording.took, |at| at.0);
    let spent = spent(recording, end);
    let when = window.at.map_or("at the end".to_owned(), |at| format!("at {at}"));
    (!bounds.hold(spent)).then(|| {
        let most = recording.pictures.iter().max_by_key(|picture| picture.per_hour);
        let most = most.map_or_else(String::new, |most| {
            format!("; most of it an hour at {}: {}{}", Span(most.at), most.per_hour, nodes_of(most))
        });
        Wrong {
            subject: format!("`cost.total` {when}"),
            expected: bounds.text(),
            actual: format!("{spent}{most}"),
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two prices, for a bound of a few digits")]
fn of_realised(realised: &Realised, recording: &Recording) -> Option<Wrong> {
    let bounds = Bounds { exactly: None, at_most: realised.at_most, at_least: None };
    let last = picture_at(recording, recording.took)?;
    let wrong =
        |actual| Wrong { subject: "`realised` at the end".to_owned(), expected: bounds.text(), actual };
    let Some(plan) = recording.one_plan.filter(|plan| *plan > Price::ZERO) else {
        return Some(wrong(
            "no plan to compare with: one for all pods launches nothing that has a price".to_owned(),
        ));
    };
    let ratio = last.per_hour.nanos() as f64 / plan.nanos() as f64;
    let there = nodes_of(last);
    (!bounds.hold(ratio))
        .then(|| wrong(format!("{ratio:.3}: {}{there}, where one plan costs {plan}", last.per_hour)))
}

/// Dollars spent until a time.
pub(crate) fn spent(recording: &Recording, end: Duration) -> Price {
    let mut nanos = 0_i128;
    for (index, picture) in recording.pictures.iter().enumerate() {
        let until = recording.pictures.get(index + 1).map_or(end, |next| next.at.min(end));
        let millis = until.saturating_sub(picture.at).as_millis();
        nanos += i128::from(picture.per_hour.nanos()) * i128::try_from(millis).unwrap_or(i128::MAX);
    }
    Price::from_nanos(i64::try_from(nanos / 3_600_000).unwrap_or(i64::MAX))
}

/// The nodes of a picture, in words: `, for 2 m7i.large on-demand`.
fn nodes_of(picture: &Picture) -> String {
    let mut kinds: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for node in &picture.nodes {
        *kinds.entry((&node.instance_type, &node.capacity_type)).or_default() += 1;
    }
    if kinds.is_empty() {
        return String::new();
    }
    let kinds: Vec<String> =
        kinds.into_iter().map(|((name, capacity), count)| format!("{count} {name} {capacity}")).collect();
    format!(", for {}", kinds.join(", "))
}

/// Nodes that an expectation means; `None` for any value.
#[derive(Clone, Copy)]
struct NodeFilter<'a> {
    pool: Option<&'a str>,
    zone: Option<&'a str>,
    instance_type: Option<&'a str>,
    capacity_type: Option<CapacityType>,
    arch: Option<&'a str>,
}

impl NodeFilter<'_> {
    fn matches(&self, node: &NodeFact) -> bool {
        self.pool.is_none_or(|pool| pool == node.pool)
            && self.zone.is_none_or(|zone| zone == node.zone)
            && self.instance_type.is_none_or(|pattern| is_of_type(pattern, &node.instance_type))
            && self.capacity_type.is_none_or(|of| of.word() == node.capacity_type)
            && self.arch.is_none_or(|arch| arch == node.arch)
    }

    fn is_any(&self) -> bool {
        let texts = [self.pool, self.zone, self.instance_type, self.arch];
        texts.iter().all(Option::is_none) && self.capacity_type.is_none()
    }

    fn words(&self) -> Vec<String> {
        let texts = [
            ("pool", self.pool),
            ("zone", self.zone),
            ("instanceType", self.instance_type),
            ("capacityType", self.capacity_type.map(CapacityType::word)),
            ("arch", self.arch),
        ];
        texts.into_iter().filter_map(|(field, value)| Some(format!("{field} {}", value?))).collect()
    }
}

fn subject(what: &str, words: &[String]) -> String {
    if words.is_empty() { format!("`{what}`") } else { format!("`{what}` of {}", words.join(", ")) }
}

fn of_nodes(nodes: &Nodes, window: &Window, recording: &Recording) -> Option<Wrong> {
    let filter = NodeFilter {
        pool: nodes.pool.as_deref(),
        zone: nodes.zone.as_deref(),
        instance_type: nodes.instance_type.as_deref(),
        capacity_type: nodes.capacity_type,
        arch: nodes.arch.as_deref(),
    };
    let bounds = Bounds { exactly: nodes.exactly, at_most: nodes.at_most, at_least: nodes.at_least };
    of_pictures(window, recording, &subject("nodes", &filter.words()), &bounds, |picture| {
        let count = count(picture.nodes.iter().filter(|node| filter.matches(node)).count());
        (count, nodes_of(picture).replacen(", for", ", of", 1))
    })
}

fn of_pods(pods: &Pods, window: &Window, recording: &Recording) -> Option<Wrong> {
    let filter = NodeFilter {
        pool: pods.pool.as_deref(),
        zone: pods.zone.as_deref(),
        instance_type: pods.instance_type.as_deref(),
        capacity_type: pods.capacity_type,
        arch: None,
    };
    let phase = if pods.phase == Phase::Running { "running" } else { "pending" };
    let mut words = vec![format!("phase {phase}")];
    words.extend(pods.namespace.as_ref().map(|namespace| format!("namespace {namespace}")));
    words.extend(pods.workload.as_ref().map(|workload| format!("workload {workload}")));
    words.extend(filter.words());
    let matches = |pod: &PodFact| {
        pod.running == (pods.phase == Phase::Running)
            && pods.namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
            && pods.workload.as_ref().is_none_or(|workload| *workload == pod.workload)
            && (filter.is_any() || pod.node.as_ref().is_some_and(|node| filter.matches(node)))
    };
    let bounds = Bounds { exactly: pods.exactly, at_most: pods.at_most, at_least: pods.at_least };
    of_pictures(window, recording, &subject("pods", &words), &bounds, |picture| {
        let found = picture.pods.iter().filter(|(pod, _)| matches(pod));
        (found.map(|(_, count)| count).sum(), String::new())
    })
}

fn of_pending_time(times: &PendingTime, recording: &Recording) -> Option<Wrong> {
    let mut waits: Vec<Duration> = recording
        .waits
        .values()
        .filter(|wait| times.namespace.as_ref().is_none_or(|namespace| *namespace == wait.namespace))
        .filter(|wait| times.workload.as_ref().is_none_or(|workload| *workload == wait.workload))
        .map(super::record::Wait::lasted)
        .collect();
    waits.sort_unstable();
    let mut words = Vec::new();
    words.extend(times.namespace.as_ref().map(|namespace| format!("namespace {namespace}")));
    words.extend(times.workload.as_ref().map(|workload| format!("workload {workload}")));
    let bounds =
        [("p50", 50, times.p50), ("p90", 90, times.p90), ("p99", 99, times.p99), ("max", 100, times.max)];
    for (name, percent, bound) in bounds {
        let Some(bound) = bound else { continue };
        let subject = subject(&format!("pendingTime.{name}"), &words);
        let expected = format!("at most {bound}");
        let Some(actual) = percentile(&waits, percent) else {
            return Some(Wrong { subject, expected, actual: "no pod at all".to_owned() });
        };
        if actual > bound.0 {
            let actual = format!("{} of {} pods", Span(actual), waits.len());
            return Some(Wrong { subject, expected, actual });
        }
    }
    None
}

/// The longest of the shortest `percent` in a hundred of what is sorted.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn of_disruptions(disruptions: &Disruptions, window: &Window, recording: &Recording) -> Option<Wrong> {
    let (from, until) = stretch(window, recording.took);
    let reason = disruptions.reason.map(|reason| format!("{reason:?}"));
    let found: Vec<_> = recording
        .removals
        .iter()
        .filter(|removal| (from..=until).contains(&removal.at))
        .filter(|removal| reason.as_ref().is_none_or(|reason| *reason == removal.reason))
        .filter(|removal| disruptions.pool.as_ref().is_none_or(|pool| *pool == removal.pool))
        .collect();
    let bounds =
        Bounds { exactly: disruptions.exactly, at_most: disruptions.at_most, at_least: disruptions.at_least };
    let number = count(found.len());
    (!bounds.hold(number)).then(|| {
        let mut words = Vec::new();
        words.extend(reason.map(|reason| format!("reason {reason}")));
        words.extend(disruptions.pool.as_ref().map(|pool| format!("pool {pool}")));
        let subject = format!("{}{}", subject("disruptions", &words), between(window));
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for removal in &recording.removals {
            *all.entry(removal.reason.as_str()).or_default() += 1;
        }
        let all: Vec<String> = all.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let all = if all.is_empty() { String::new() } else { format!(" (of all: {})", all.join(", ")) };
        Wrong { subject, expected: bounds.text(), actual: format!("{number}{all}") }
    })
}

fn of_events(events: &Events, window: &Window, recording: &Recording) -> Option<Wrong> {
    let (from, until) = stretch(window, recording.took);
    let number = recording
        .events
        .values()
        .filter(|one| one.reason == events.reason)
        .filter(|one| events.kind.as_ref().is_none_or(|kind| *kind == one.kind))
        .filter(|one| events.name.as_ref().is_none_or(|name| *name == one.name))
        .filter(|one| events.message.as_ref().is_none_or(|part| one.message.contains(part)))
        .map(|one| count(one.times.iter().filter(|at| (from..=until).contains(*at)).count()))
        .sum();
    let bounds = Bounds { exactly: events.exactly, at_most: events.at_most, at_least: events.at_least };
    (!bounds.hold(number)).then(|| {
        let mut words = vec![format!("reason {}", events.reason)];
        let more = [("kind", &events.kind), ("name", &events.name), ("message", &events.message)];
        words.extend(
            more.into_iter().filter_map(|(field, value)| Some(format!("{field} {}", value.as_ref()?))),
        );
        let subject = format!("{}{}", subject("events", &words), between(window));
        Wrong { subject, expected: bounds.text(), actual: number.to_string() }
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
