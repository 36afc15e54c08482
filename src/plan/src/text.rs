//! A forecast for people.

mod fail_on;
mod look;
mod markdown;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use karpenter_model::Price;
use karpenter_model::report::ReasonCode;

use crate::forecast::{
    Difference, Forecast, Launched, Machine, Prices, Removal, Staying, Verdict, Waiting, Why,
};
use crate::money::{self, hourly, saved};
use crate::settle::MayDrift;

pub use fail_on::{FailOn, NotACondition};
pub use look::Look;

/// Most pods, nodes and reasons named in one place.
const NAMED: usize = 5;

impl Forecast {
    /// The forecast line by line, with the conflict behind each refusal.
    pub fn text(&self) -> String {
        self.lines(false)
    }

    /// The forecast line by line, with everything that was compared for each refusal.
    pub fn verbose_text(&self) -> String {
        self.lines(true)
    }

    fn lines(&self, verbose: bool) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out, verbose);
        out
    }

    fn write(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        writeln!(out, "{}", headline(self))?;
        if let Some(because) = &self.because {
            list(out, "Assumed", &because.assumed)?;
            writeln!(out, "    makes {}", because.effects())?;
        }
        self.write_launches(out)?;
        self.write_removals(out)?;
        self.write_may_drift(out)?;
        write_nodes(out, "Replace later, because they have drifted", &self.later)?;
        self.write_pending(out, verbose)?;
        if !self.nominated.is_empty() {
            let pods = count(self.nominated.len(), "pod");
            writeln!(out, "\nRoom on nodes that are there or coming: {pods}")?;
            for nominated in &self.nominated {
                writeln!(out, "    {} on {}", nominated.pod, nominated.node)?;
            }
        }
        write_nodes(out, "Stay as they are", &self.staying)?;
        self.write_pools(out, verbose)?;
        list(out, "Broken rules, which the controller would not carry out", &self.findings)?;
        list(out, "Notes", &self.notes)?;
        // Last, because that is what a terminal shows.
        writeln!(out, "\nPlan: {}", summary(self))?;
        writeln!(out, "Per hour: {}", self.price.line(hourly))?;
        writeln!(out, "Per month: {}", self.price.line(money::monthly))?;
        if self.price.unknown_nodes > 0 {
            writeln!(out, "    without {} of unknown price", count(self.price.unknown_nodes, "node"))?;
        }
        Ok(())
    }

    fn write_launches(&self, out: &mut String) -> std::fmt::Result {
        if self.launches.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nLaunch {}", count(self.launches.len(), "node"))?;
        write_launched(out, "  + ", &self.launches)
    }

    fn write_removals(&self, out: &mut String) -> std::fmt::Result {
        let nodes: usize = self.removals.iter().map(|removal| removal.nodes.len()).sum();
        let nodes = nodes + self.expired.len() + self.surplus.len() + self.deleted.len();
        if nodes == 0 {
            return Ok(());
        }
        writeln!(out, "\nRemove {}", count(nodes, "node"))?;
        for removal in &self.removals {
            self.write_removal(out, removal)?;
        }
        let gone = [
            (&self.expired, "older than expireAfter allows"),
            (&self.surplus, "more nodes than the replicas of the pool"),
            (&self.deleted, "deleted with the pool"),
        ];
        for (machines, why) in gone.into_iter().filter(|(machines, _)| !machines.is_empty()) {
            write_machines(out, machines)?;
            writeln!(out, "      because: {why}")?;
        }
        Ok(())
    }

    fn write_removal(&self, out: &mut String, removal: &Removal) -> std::fmt::Result {
        write_machines(out, &removal.nodes)?;
        let start = if removal.not_before > self.at {
            format!(", in {} after a second look", until(self.at, removal.not_before))
        } else {
            String::new()
        };
        writeln!(out, "      because {} ({}){start}", removal.reason, removal.method)?;
        write_launched(out, "      replaced by ", &removal.replacements)?;
        writeln!(out, "      {}", saved(removal.savings))
    }

    fn write_pending(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        if self.pending.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nStay pending: {}", count(self.pending.len(), "pod"))?;
        let mut alike: BTreeMap<(&[Why], &[String]), Vec<&Waiting>> = BTreeMap::new();
        for waiting in &self.pending {
            alike.entry((&waiting.reasons, &waiting.help)).or_default().push(waiting);
        }
        for ((reasons, help), pods) in alike {
            let names: Vec<String> = pods.iter().map(|waiting| waiting.pod.clone()).collect();
            writeln!(out, "  ? {}", named(&names))?;
            let shown = if verbose { reasons.len() } else { NAMED };
            for why in reasons.iter().take(shown) {
                let pool = why.pool.as_ref().map(|pool| format!("pool `{pool}`: ")).unwrap_or_default();
                writeln!(out, "      {pool}{} ({})", why.said(verbose), why.code)?;
            }
            match reasons.len().saturating_sub(shown) {
                0 => {}
                more => writeln!(
                    out,
                    "      and {} that cannot take it either; -v lists all",
                    count(more, "pool")
                )?,
            }
            for text in help {
                writeln!(out, "      would help: {text}")?;
            }
        }
        Ok(())
    }

    fn write_may_drift(&self, out: &mut String) -> std::fmt::Result {
        if !self.may_drift.is_empty() {
            writeln!(out, "\nMay drift: {}", count(self.uncertain(), "node"))?;
        }
        for MayDrift { class, claims } in &self.may_drift {
            writeln!(
                out,
                "    the selectors of node class `{class}` change, and the account knows what they find: {}",
                named(claims)
            )?;
        }
        Ok(())
    }

    fn write_pools(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        if self.pools.is_empty() {
            return writeln!(out, "\nNo pools.");
        }
        writeln!(out, "\nPools")?;
        for pool in &self.pools {
            let part = match &pool.skipped {
                Some(why) => format!("takes no part: {} ({})", why.said(verbose), why.code),
                None => format!("{} to choose from", count(pool.instance_types, "instance type")),
            };
            let (name, nodes) = (&pool.name, count(pool.nodes, "node"));
            writeln!(out, "    {name}: weight {}, {nodes}, {part}", pool.weight)?;
        }
        Ok(())
    }
}

impl Difference {
    /// Its effects in one line.
    pub(crate) fn effects(&self) -> String {
        let mut parts = Vec::new();
        if self.price != Price::ZERO {
            let hour = money::change(self.price, money::hourly);
            let month = money::change(self.price, money::monthly);
            parts.push(format!("{hour} per hour ({month} per month)"));
        }
        if self.launches != 0 {
            let more = if self.launches > 0 { "more" } else { "fewer" };
            let number = usize::try_from(self.launches.unsigned_abs()).unwrap_or(usize::MAX);
            parts.push(format!("{} {more} launched", count(number, "node")));
        }
        let lists = [
            (&self.removed, "node", "would go"),
            (&self.kept, "node", "would stay that would go without it"),
            (&self.newly_pending, "pod", "more would stay pending"),
            (&self.no_longer_pending, "pod", "would get a place that would stay pending without it"),
        ];
        for (names, noun, what) in lists.into_iter().filter(|(names, ..)| !names.is_empty()) {
            parts.push(format!("{} {what}: {}", count(names.len(), noun), named(names)));
        }
        if parts.is_empty() { "no change of nodes, pods or cost".to_owned() } else { parts.join("; ") }
    }
}

/// Nodes with the reason of each.
fn write_nodes(out: &mut String, title: &str, all: &[Staying]) -> std::fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}: {}", count(all.len(), "node"))?;
    for (code, nodes) in by_reason(all) {
        writeln!(out, "    {} ({code}): {}", code.summary(), named(&nodes))?;
        if code == ReasonCode::PodDisruptionBudget {
            let protecting = protecting(all);
            protecting.iter().take(NAMED).try_for_each(|one| writeln!(out, "        {one}"))?;
            match protecting.len().saturating_sub(NAMED) {
                0 => {}
                more => writeln!(out, "        and {more} more")?,
            }
        }
    }
    Ok(())
}

/// The names of nodes by the reason of each.
pub(crate) fn by_reason(nodes: &[Staying]) -> BTreeMap<ReasonCode, Vec<String>> {
    let mut by_reason: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for staying in nodes {
        by_reason.entry(staying.reason.code).or_default().push(staying.node.clone());
    }
    by_reason
}

/// The pod disruption budgets that keep some of `nodes`, and their pods: no code names them, and a person has to look at them.
pub(crate) fn protecting(nodes: &[Staying]) -> Vec<String> {
    let code = ReasonCode::PodDisruptionBudget;
    let lead = format!("{}: ", code.summary());
    let kept = nodes.iter().filter(|staying| staying.reason.code == code);
    let all: BTreeSet<&str> = kept.filter_map(|staying| staying.reason.text.strip_prefix(&lead)).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// The forecast in one sentence.
pub(crate) fn headline(forecast: &Forecast) -> String {
    match forecast.verdict {
        Verdict::Unchanged => "Nothing would change, no pod waits.".to_owned(),
        Verdict::Unknown => {
            format!(
                "{} may drift, which cannot be known from here; no pod waits.",
                count(forecast.uncertain(), "node")
            )
        }
        Verdict::Changes => "Nodes would change, no pod would stay pending.".to_owned(),
        Verdict::PodsWait => format!("{} would stay pending.", count(forecast.pending.len(), "pod")),
    }
}

impl Why {
    /// The conflict, or everything that was compared where that is not known or asked for.
    pub(crate) fn said(&self, verbose: bool) -> &str {
        self.conflict.as_ref().filter(|_| !verbose).unwrap_or(&self.text)
    }
}

/// The numbers of a plan in one sentence.
pub(crate) fn summary(forecast: &Forecast) -> String {
    let number = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let (replaced, removed): (Vec<&Removal>, Vec<&Removal>) =
        forecast.removals.iter().partition(|removal| !removal.replacements.is_empty());
    let nodes = |removals: &[&Removal]| removals.iter().map(|one| one.nodes.len()).sum::<usize>();
    let gone = forecast.expired.len() + forecast.surplus.len() + forecast.deleted.len();
    let removed = nodes(&removed) + gone;
    let parts = [
        number(forecast.launches.len(), "to launch"),
        number(nodes(&replaced), "to replace"),
        number(removed, "to remove"),
        number(forecast.later.len(), "to replace later"),
        number(forecast.uncertain(), "that may drift"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let nodes = if parts.is_empty() { "no node changes".to_owned() } else { parts.join(", ") };
    format!(
        "{nodes}; {}",
        match forecast.pending.len() {
            0 => "no pod stays pending".to_owned(),
            1 => "1 pod stays pending".to_owned(),
            more => format!("{more} pods stay pending"),
        }
    )
}

impl Prices {
    /// The price now; `None` for a sum of nothing but unknown prices, which is not known either.
    pub(crate) fn known_now(&self) -> Option<Price> {
        Some(self.now).filter(|price| self.unknown_nodes == 0 || *price != Price::ZERO)
    }

    /// The price after; `None` for a sum of nothing but unknown prices.
    pub(crate) fn known_after(&self) -> Option<Price> {
        Some(self.after).filter(|price| self.unknown_after == 0 || *price != Price::ZERO)
    }

    /// The price now, after, and the change, each in words; `-` where it is not known.
    pub(crate) fn line(&self, write: impl Fn(Price) -> String) -> String {
        let [now, after] = [self.known_now(), self.known_after()].map(|price| money::known_as(price, &write));
        let is_known = self.known_now().is_some() && self.known_after().is_some();
        let change = self.after.saturating_sub(self.now);
        let change = if is_known { money::change(change, &write) } else { "-".to_owned() };
        format!("{now} now, {after} after ({change})")
    }
}

/// An instant to the second.
pub(crate) fn second(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// Time from `now` to `then` in words, in whole seconds rounded up: `15 s`, `5 min 30 s`, `2 h 5 min`.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> String {
    let nanos = then.as_nanosecond().saturating_sub(now.as_nanosecond()).max(0);
    let seconds = (nanos + 999_999_999) / 1_000_000_000;
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (length, unit) in units {
        let (number, rest) = (left / length, left % length);
        left = rest;
        if number > 0 {
            parts.push(format!("{number} {unit}"));
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Launches, those that are alike as one, with the pods of all and their number.
pub(crate) fn alike(launches: &[Launched]) -> Vec<(&Launched, Vec<String>, usize)> {
    let mut alike: Vec<(&Launched, Vec<String>, usize)> = Vec::new();
    for launch in launches {
        let same = |known: &Launched| {
            (&known.pool, &known.cheapest, &known.instance_types)
                == (&launch.pool, &launch.cheapest, &launch.instance_types)
        };
        match alike.iter_mut().find(|(known, _, _)| same(known)) {
            Some((_, pods, number)) => {
                pods.extend(launch.pods.iter().cloned());
                *number += 1;
            }
            None => alike.push((launch, launch.pods.clone(), 1)),
        }
    }
    alike
}

fn write_launched(out: &mut String, lead: &str, launches: &[Launched]) -> std::fmt::Result {
    for (launch, pods, number) in alike(launches) {
        let what = match &launch.cheapest {
            Some(one) => {
                format!(
                    "{} {} {} at {}",
                    one.instance_type,
                    one.zone,
                    one.capacity_type.as_str(),
                    hourly(one.price)
                )
            }
            None => "what the provider chooses".to_owned(),
        };
        let others = match launch.instance_types.len() {
            0 | 1 => String::new(),
            more => format!(", or one of {}", count(more - 1, "other type")),
        };
        let each = if number > 1 { " each" } else { "" };
        writeln!(out, "{lead}{number} x pool `{}`: {what}{each}{others}", launch.pool)?;
        if !pods.is_empty() {
            writeln!(out, "      for {}", named(&pods))?;
        }
    }
    Ok(())
}

/// The first few machines, and how many more there are and what those cost.
fn write_machines(out: &mut String, machines: &[Machine]) -> std::fmt::Result {
    let (shown, more) = machines.split_at(machines.len().min(NAMED));
    for machine in shown {
        writeln!(out, "  - {}", described(machine))?;
        if !machine.pods.is_empty() {
            writeln!(out, "      pods that move: {}", named(&machine.pods))?;
        }
    }
    if more.is_empty() {
        return Ok(());
    }
    let pods: usize = more.iter().map(|machine| machine.pods.len()).sum();
    writeln!(out, "  - and {} more with {}", count(more.len(), "node"), count(pods, "pod"))
}

fn described(machine: &Machine) -> String {
    let known = [
        machine.pool.as_ref().map(|pool| format!("pool `{pool}`")),
        machine.instance_type.clone(),
        machine.zone.clone(),
        machine.capacity_type.clone(),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    format!("{}: {} at {}", machine.name, known.join(" "), money::known(machine.price))
}

/// The first few of `names` and how many more there are.
pub fn named(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn list(out: &mut String, title: &str, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    lines.iter().try_for_each(|line| writeln!(out, "    {line}"))
}
