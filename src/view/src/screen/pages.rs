//! Pages of text: one machine, one pod, what is wrong, the keys; and the lines of pods that wait.

use jiff::Timestamp;
use karpenter_model::{PodKey, Quantity};
use ratatui::text::Line;

use super::style;
use crate::details::{Details, EventFacts, Found};
use crate::facts::{ConditionFacts, WaitingPod};
use crate::machine::{self, Machine};
use crate::scene::Scene;
use crate::text::{age, amount, cut, per_hour, per_month, percent, wrapped};
use crate::ui::Page;
use crate::world::World;

const HELP: &str = "\
↑ ↓ k j, PgUp PgDn, Home End g G   move, scroll
enter →                            open a node or pod; unfold or fold a pool (←)
esc                                back; on the list: remove the filter
/                                  filter: words, pool= type= zone= capacity= state=, LABEL=VALUE, LABEL!=VALUE
s, r                               sort by the next column, turn the order round
f                                  fold nodes into their pools, or show them all
w                                  pods that wait for a node
p                                  the plan: what would be launched, replaced and removed now
y                                  the open node or pod as YAML
!                                  what is wrong, and what to do about it
q, Ctrl-C                          quit

A node is pending (no instance), launching, registered, ready, not ready, disrupted or removing.
Requests are those of all pods on a node that have not ended, against what it offers to pods.
Prices are list prices of on-demand and current prices of spot; a month has 730 hours.
The bars are the cost of the whole cluster minute by minute, up to an hour, since this program runs.";

/// The text of `page`, `width` characters wide.
pub(super) fn page(scene: &Scene<'_>, page: &Page, width: usize) -> Vec<Line<'static>> {
    let mut text = Text { lines: Vec::new(), width: width.max(20) };
    match page {
        Page::Machine(name) => {
            let machines = scene.machines();
            match machine::find(&machines, name) {
                Some(machine) => text.machine(machine, scene),
                None => text.heading(&format!("{name} is gone")),
            }
        }
        Page::Pod(key) => text.pod(key, scene),
        Page::Plan => {
            text.heading("the plan of this moment");
            text.answer(scene.details);
        }
        Page::Stored(_) => text.answer(scene.details),
        Page::Troubles => text.troubles(scene),
        Page::Help => {
            text.heading("keys");
            text.lines.extend(wrapped(HELP, text.width).into_iter().map(Line::from));
        }
        Page::Machines | Page::Waiting => {}
    }
    text.lines
}

/// Pods that wait, the oldest first.
pub(super) fn waiting_in_order(world: &World) -> Vec<(&PodKey, &WaitingPod)> {
    let mut pods: Vec<_> = world.waiting().iter().collect();
    pods.sort_by(|(a_key, a), (b_key, b)| a.created.cmp(&b.created).then_with(|| a_key.cmp(b_key)));
    pods
}

/// A pod that waits, and what for.
pub(super) fn waiting_line(
    (key, pod): &(&PodKey, &WaitingPod),
    now: Timestamp,
    width: usize,
) -> Line<'static> {
    let text = format!("{key} waits {} for {}", age(pod.created, now), pod.waits_for);
    Line::from(cut(&text.replace('\n', " "), width))
}

struct Text {
    lines: Vec<Line<'static>>,
    width: usize,
}

impl Text {
    fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.lines.push(style::heading(cut(text, self.width)));
    }

    /// `text`, indented, in as many lines as it takes.
    fn text(&mut self, text: &str) {
        let lines = wrapped(text, self.width - 2);
        self.lines.extend(lines.into_iter().map(|line| Line::from(format!("  {line}"))));
    }

    fn fact(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(&format!("{name:<14}{value}"));
        }
    }

    fn machine(&mut self, machine: &Machine<'_>, scene: &Scene<'_>) {
        let state = machine.state;
        let why = if state.why.is_empty() { String::new() } else { format!(": {}", state.why) };
        self.heading(&format!("{}  {}{why}", machine.name, state.phase.as_str()));
        self.fact("claim", machine.claim.map_or("", |(name, _)| name));
        self.fact("pool", machine.pool);
        let provider_id = machine.node.and_then(|node| node.provider_id.as_deref());
        let provider_id =
            provider_id.or_else(|| machine.claim.and_then(|(_, claim)| claim.provider_id.as_deref()));
        self.fact("instance", provider_id.unwrap_or_default());
        self.fact("type", machine.instance_type);
        self.fact("zone", machine.zone);
        self.fact("capacity type", machine.capacity);
        if let Some(price) = machine.price {
            self.fact("price", &format!("${} an hour, ${} a month", per_hour(price), per_month(price)));
        }
        for (index, resource) in scene.world.shown().names().iter().enumerate() {
            let of = |amounts: &[Quantity]| amounts.get(index).copied().unwrap_or_default();
            let (part, whole) = (of(machine.requested), of(machine.allocatable));
            let share = percent(part, whole).map_or_else(String::new, |share| format!(" ({share}%)"));
            let text = format!("{} of {}{share}", amount(resource, part), amount(resource, whole));
            self.fact(resource, &text);
        }
        self.fact("pods", &machine.pods.to_string());
        self.fact("age", &age(machine.created, scene.now));
        if machine.node.is_some() {
            self.pods_on(&machine.name, scene.world);
        }
        if let Some((_, claim)) = machine.claim {
            self.heading("conditions of the claim");
            for condition in &claim.conditions {
                self.condition(condition, scene.now);
            }
        }
        self.details(scene.details, scene.now);
        self.heading("labels");
        let labels = machine.node.map(|node| &node.labels);
        let labels = labels.or_else(|| machine.claim.map(|(_, claim)| &claim.labels));
        for (key, value) in labels.into_iter().flatten() {
            self.text(&format!("{key}={value}"));
        }
    }

    /// Pods of a node and what they ask for: the first thing to look at where a node stays.
    fn pods_on(&mut self, node: &str, world: &World) {
        let mut pods = world.pods_on(node).peekable();
        if pods.peek().is_none() {
            return;
        }
        self.heading("pods");
        for (key, requests) in pods {
            let asked = world.shown().names().iter().zip(requests).filter(|(_, amount)| !amount.is_zero());
            let asked: Vec<String> =
                asked.map(|(resource, asked)| format!("{} {resource}", amount(resource, *asked))).collect();
            self.text(&format!("{key}  {}", asked.join(", ")));
        }
    }

    fn condition(&mut self, condition: &ConditionFacts, now: Timestamp) {
        let ConditionFacts { kind, status, since, reason, message } = condition;
        // True with the type as its reason has nothing to add.
        let reason = if reason == kind { "" } else { reason };
        let age = age(*since, now);
        self.text(format!("{kind:<22}{:<8}{age:>4}  {reason}", status.as_str()).trim_end());
        if !message.is_empty() && **message != *reason {
            for line in wrapped(message, self.width - 6) {
                self.lines.push(Line::from(format!("      {line}")));
            }
        }
    }

    fn pod(&mut self, key: &PodKey, scene: &Scene<'_>) {
        let Some(pod) = scene.world.waiting().get(key) else {
            return self.heading(&format!("pod {key} waits no more"));
        };
        self.heading(&format!("pod {key} waits for"));
        self.text(&pod.waits_for);
        self.fact("age", &age(pod.created, scene.now));
        for (resource, requested) in scene.world.shown().names().iter().zip(&pod.requests) {
            self.fact(resource, &amount(resource, *requested));
        }
        self.details(scene.details, scene.now);
    }

    /// The plan or the objects that were asked for, with their indentation.
    fn answer(&mut self, details: Option<&Details>) {
        let text = match details.map(|details| &details.explained) {
            None | Some(Found::Asking) => "asking ...",
            Some(Found::Is(text) | Found::Not(text)) => text,
        };
        for line in text.lines() {
            let words = line.trim_start();
            let indent = (line.len() - words.len()).min(self.width / 2);
            let parts = wrapped(words, self.width - indent);
            self.lines.extend(parts.into_iter().map(|part| Line::from(format!("{:indent$}{part}", ""))));
        }
    }

    fn details(&mut self, details: Option<&Details>, now: Timestamp) {
        let Some(details) = details else { return };
        self.heading("what the controller says");
        match &details.explained {
            Found::Asking => self.text("asking ..."),
            Found::Is(answer) => self.text(answer.trim_end()),
            Found::Not(why) => self.text(why),
        }
        self.heading("events");
        match &details.events {
            Found::Asking => self.text("asking ..."),
            Found::Is(events) if events.is_empty() => self.text("none"),
            Found::Is(events) => events.iter().for_each(|event| self.event(event, now)),
            Found::Not(why) => self.text(why),
        }
    }

    fn event(&mut self, event: &EventFacts, now: Timestamp) {
        let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
        let when = age(event.at, now);
        self.text(&format!("{when:>4}  {}{times}: {}", event.reason, event.message));
    }

    fn troubles(&mut self, scene: &Scene<'_>) {
        if scene.troubles.is_empty() {
            return self.heading("nothing is wrong");
        }
        for trouble in scene.troubles {
            self.heading(&trouble.short());
            self.text(&trouble.full());
        }
    }
}
