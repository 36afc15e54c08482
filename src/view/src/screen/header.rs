//! Lines above and below the table: the cluster in four lines, the selection in one, the troubles, the keys.

use karpenter_model::{Price, Quantity};
use ratatui::text::{Line, Span};

use super::style::{self, BARS, Style};
use super::table::phases;
use crate::list::{Row, Sums};
use crate::prices::Prices;
use crate::scene::Scene;
use crate::text::{cut, part_of, per_hour, per_month, percent, sum};
use crate::totals::Totals;
use crate::ui::{Page, Ui};

/// Largest number of lines for troubles; the rest is on a page of its own.
const TROUBLE_LINES: usize = 2;

/// The cluster in four lines.
pub(super) fn header(
    scene: &Scene<'_>,
    ui: &Ui,
    Sums { shown, all }: &Sums,
    style: Style,
    width: usize,
) -> Vec<Line<'static>> {
    let choice = ui.choice();
    let mut title = format!("{} · {}", scene.cluster, scene.now.strftime("%Y-%m-%d %H:%M:%S UTC"));
    title.push_str(&format!(" · by {}", choice.sort));
    if choice.by_pool {
        title.push_str(", in pools");
    }
    match ui.typed() {
        Some(typed) => title.push_str(&format!(" · filter: {typed}_")),
        None if choice.filter.is_empty() => {}
        None => title.push_str(&format!(" · filter: {}", choice.filter)),
    }
    let mut counts = match all {
        None => nodes(shown.machines),
        Some(all) => format!("{} of {}", shown.machines, nodes(all.machines)),
    };
    if shown.machines > 0 {
        counts.push_str(&format!(": {}", phases(shown)));
    }
    counts.push_str(&format!(" · {} pods, {} waiting", scene.world.pods(), scene.world.waiting().len()));
    if all.is_some() {
        let price =
            shown.known_price().map_or_else(|| "-".to_owned(), |price| format!("${}", per_hour(price)));
        counts.push_str(&format!(" · these {price} an hour"));
    }
    let all = all.as_ref().unwrap_or(shown);
    vec![
        style::heading(cut(&title, width)),
        Line::from(cut(&counts, width)),
        costs(scene, all, width),
        requested(scene, shown, style),
    ]
}

fn nodes(count: usize) -> String {
    format!("{count} node{}", if count == 1 { "" } else { "s" })
}

fn costs(scene: &Scene<'_>, totals: &Totals, width: usize) -> Line<'static> {
    match scene.prices {
        Prices::Off => return Line::from("no prices asked for"),
        Prices::Loading => return Line::from("prices are being read ..."),
        Prices::Unavailable(_) => return Line::from("no prices"),
        Prices::Known(_) | Prices::Partial(..) => {}
    }
    let mut now = match totals.known_price() {
        Some(price) => format!("${} an hour, ${} a month", per_hour(price), per_month(price)),
        None => "- an hour".to_owned(),
    };
    if totals.unpriced > 0 {
        now.push_str(&format!(" (+{} without price)", totals.unpriced));
    }
    let minutes = scene.history.per_minute();
    if minutes.is_empty() {
        return Line::from(now);
    }
    let spent = format!("${} spent in {}m", sum(scene.history.spent()), minutes.len());
    let room = width.saturating_sub(now.chars().count() + spent.chars().count() + 2);
    Line::from(vec![Span::raw(now), Span::raw(format!(" {} ", bars(&minutes, room))), Span::raw(spent)])
}

/// One bar for each minute, or for as many as one bar has to stand for; the highest is the maximum, none is nothing.
fn bars(minutes: &[Price], room: usize) -> String {
    if room == 0 {
        return String::new();
    }
    let each = minutes.len().div_ceil(room);
    let means: Vec<i64> = minutes
        .chunks(each)
        .map(|part| {
            let sum: i64 = part.iter().map(|price| price.nanos()).fold(0, i64::saturating_add);
            sum / i64::try_from(part.len()).unwrap_or(1).max(1)
        })
        .collect();
    let most = means.iter().copied().max().unwrap_or_default().max(1);
    let steps = i128::try_from(BARS.len()).unwrap_or(8);
    let bar = |mean: i64| {
        let step = (i128::from(mean) * steps / i128::from(most)).clamp(0, steps - 1);
        BARS[usize::try_from(step).unwrap_or_default()]
    };
    means.into_iter().map(bar).collect()
}

fn requested(scene: &Scene<'_>, totals: &Totals, style: Style) -> Line<'static> {
    let mut spans = vec![Span::raw("requested")];
    for (index, resource) in scene.world.shown().names().iter().enumerate() {
        let of = |amounts: &[Quantity]| amounts.get(index).copied().unwrap_or_default();
        let (part, whole) = (of(&totals.requested), of(&totals.allocatable));
        spans.push(Span::raw(format!(" · {resource} {}", part_of(resource, part, whole))));
        if let Some(share) = percent(part, whole) {
            spans.push(Span::raw(" "));
            spans.push(style.share(share, format!("{share}%")));
        }
    }
    Line::from(spans)
}

/// The selected row with what its line has no room for.
pub(super) fn selection(row: &Row<'_>, scene: &Scene<'_>, width: usize) -> Line<'static> {
    let Row::Machine(machine) = row else {
        return style::dim("enter unfolds the pool, enter again folds it");
    };
    let mut parts = vec![machine.name.to_string()];
    if let Some((claim, _)) = machine.claim
        && claim != &*machine.name
    {
        parts.push(format!("claim {claim}"));
    }
    if !machine.pool.is_empty() {
        parts.push(format!("pool {}", machine.pool));
    }
    if !machine.state.why.is_empty() {
        parts.push(format!("{}: {}", machine.state.phase.as_str(), machine.state.why));
    }
    parts.extend(machine.price.map(|price| format!("${} a month", per_month(price))));
    for (index, resource) in scene.world.shown().names().iter().enumerate() {
        let of = |amounts: &[Quantity]| amounts.get(index).copied().unwrap_or_default();
        let (part, whole) = (of(machine.requested), of(machine.allocatable));
        parts.push(format!("{resource} {}", part_of(resource, part, whole)));
    }
    style::dim(cut(&parts.join(" · "), width))
}

/// Returns the troubles, in a few lines.
pub(super) fn troubles(scene: &Scene<'_>, style: Style) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> =
        scene.troubles.iter().take(TROUBLE_LINES).map(|trouble| style.wrong(trouble.short())).collect();
    if scene.troubles.len() > TROUBLE_LINES
        && let Some(last) = lines.last_mut()
    {
        let more = scene.troubles.len() + 1 - TROUBLE_LINES;
        *last = style.wrong(format!("{more} more things are wrong; press ! to read them"));
    }
    lines
}

/// The keys of the page.
pub(super) fn keys(ui: &Ui) -> Line<'static> {
    let text = match (ui.typed(), ui.page()) {
        (Some(_), _) => "words, pool=NAME, LABEL=VALUE, LABEL!=VALUE · enter keeps · esc removes",
        (None, Page::Machines) => {
            "enter open · / filter · s r sort · f fold · w waiting · p plan · ? help · q quit"
        }
        (None, Page::Waiting) => "↑↓ move · enter open · esc back · ? help · q quit",
        (None, Page::Machine(_) | Page::Pod(_)) => "↑↓ scroll · y yaml · esc back · q quit",
        (None, _) => "↑↓ scroll · esc back · q quit",
    };
    style::dim(text)
}
