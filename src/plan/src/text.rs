//! A forecast for people.

mod fail_on;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use karpenter_model::Price;
use karpenter_model::report::ReasonCode;

use crate::forecast::{Difference, Forecast, Launched, Machine, Removal, Staying, Verdict, Waiting, Why};
use crate::money::{self, hourly, saved};
use crate::settle::MayDrift;

pub use fail_on::{FailOn, NotACondition};

/// Most pods named in one line.
const NAMED: usize = 5;

impl Forecast {
    /// The forecast line by line.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", headline(self))?;
        if let Some(because) = &self.because {
            list(out, "Assumed", &because.assumed)?;
            writeln!(out, "    makes {}", because.effects())?;
        }
        self.write_launches(out)?;
        self.write_removals(out)?;
        self.write_may_drift(out)?;
        write_nodes(out, "Replace later, because they have drifted", &self.later)?;
        self.write_pending(out)?;
        if !self.nominated.is_empty() {
            let pods = count(self.nominated.len(), "pod");
            writeln!(out, "\nRoom on nodes that are there or coming: {pods}")?;
            for nominated in &self.nominated {
                writeln!(out, "    {} on {}", nominated.pod, nominated.node)?;
            }
        }
        write_nodes(out, "Stay as they are", &self.staying)?;
        self.write_pools(out)?;
        let change = self.price.after.saturating_sub(self.price.now);
        let unknown = self.price.unknown_nodes > 0;
        // A sum of nothing but unknown prices is not known either.
        let total =
            |price: Price| if unknown && price == Price::ZERO { "-".to_owned() } else { hourly(price) };
        let (now, after) = (total(self.price.now), total(self.price.after));
        writeln!(out, "\nPer hour: {now} now, {after} after ({})", money::change(change, total))?;
        if self.price.unknown_nodes > 0 {
            writeln!(out, "    without {} of unknown price", count(self.price.unknown_nodes, "node"))?;
        }
        list(out, "Broken rules, which the controller would not carry out", &self.findings)?;
        list(out, "Notes", &self.notes)
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
        if nodes + self.expired.len() + self.surplus.len() == 0 {
            return Ok(());
        }
        writeln!(out, "\nRemove {}", count(nodes + self.expired.len() + self.surplus.len(), "node"))?;
        for removal in &self.removals {
            self.write_removal(out, removal)?;
        }
        for machine in &self.expired {
            writeln!(out, "  - {}\n      because it is older than its expireAfter", described(machine))?;
        }
        for machine in &self.surplus {
            writeln!(out, "  - {}\n      because its pool has more nodes than replicas", described(machine))?;
        }
        Ok(())
    }

    fn write_removal(&self, out: &mut String, removal: &Removal) -> std::fmt::Result {
        for machine in &removal.nodes {
            writeln!(out, "  - {}", described(machine))?;
            if !machine.pods.is_empty() {
                writeln!(out, "      pods that move: {}", named(&machine.pods))?;
            }
        }
        let start = if removal.not_before > self.at {
            format!(", at {} after a second look", removal.not_before)
        } else {
            String::new()
        };
        writeln!(out, "      because {} ({}){start}", removal.reason, removal.method)?;
        write_launched(out, "      replaced by ", &removal.replacements)?;
        if removal.nodes.iter().any(|machine| machine.price.is_none()) {
            return writeln!(out, "      saves -, because the price of a node is not known");
        }
        writeln!(out, "      {}", saved(removal.savings))
    }

    fn write_pending(&self, out: &mut String) -> std::fmt::Result {
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
            for why in reasons {
                let pool = why.pool.as_ref().map(|pool| format!("pool `{pool}`: ")).unwrap_or_default();
                writeln!(out, "      {pool}{} ({})", why.text, why.code)?;
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

    fn write_pools(&self, out: &mut String) -> std::fmt::Result {
        if self.pools.is_empty() {
            return writeln!(out, "\nNo pools.");
        }
        writeln!(out, "\nPools")?;
        for pool in &self.pools {
            let part = match &pool.skipped {
                Some(why) => format!("takes no part: {} ({})", why.text, why.code),
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
pub(crate) fn named(names: &[String]) -> String {
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
