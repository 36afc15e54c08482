//! The lines of the table.

use jiff::Timestamp;
use karpenter_model::{Price, Quantity};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::columns::{Column, Columns, Kind};
use super::style::{BARS, Style};
use crate::facts::Shown;
use crate::list::Row;
use crate::machine::Machine;
use crate::order::Sort;
use crate::text::{age, cut, part_of, per_hour, per_month, percent};
use crate::totals::Totals;

/// Capacity types where there is no room for them.
const SHORT_CAPACITY: [(&str, &str); 2] = [("on-demand", "od"), ("reserved", "resv")];

/// The titles of `columns`. That of the column that decides about the order is marked.
pub(super) fn titles(columns: &Columns, sort: Sort) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::with_capacity(2 * columns.all.len());
    for column in &columns.all {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        let decides = column.kind.order() == Some(sort.by);
        let text = padded(&title(column, decides.then_some(sort)), column);
        spans.push(Span::styled(text, if decides { Modifier::BOLD } else { Modifier::empty() }));
    }
    Line::from(spans).style(Modifier::UNDERLINED)
}

/// The title, with the direction of the order where there is room.
fn title(column: &Column, sort: Option<Sort>) -> String {
    let fits = column.title.len() <= column.width;
    let title = if !fits && column.kind == Kind::Capacity { "CAP" } else { &column.title };
    match sort {
        Some(sort) if title.len() < column.width => {
            format!("{title}{}", if sort.reversed { "↑" } else { "↓" })
        }
        _ => title.to_owned(),
    }
}

/// One row.
pub(super) fn line(row: &Row<'_>, columns: &Columns, now: Timestamp, style: Style) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::with_capacity(2 * columns.all.len());
    for column in &columns.all {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans.push(match row {
            Row::Machine(machine) => of_machine(machine, column, &columns.shown, now, style),
            Row::Pool { name, totals, unfolded } => {
                of_pool(name, totals, *unfolded, column, columns.shown.names(), style)
            }
        });
    }
    Line::from(spans)
}

fn of_machine(
    machine: &Machine<'_>,
    column: &Column,
    shown: &Shown,
    now: Timestamp,
    style: Style,
) -> Span<'static> {
    let text = match column.kind {
        Kind::Name => name(&machine.name, column.width),
        Kind::Pool => machine.pool.to_owned(),
        Kind::Type => machine.instance_type.to_owned(),
        Kind::Zone => tail(machine.zone, column.width),
        Kind::Capacity => capacity(machine.capacity, column.width).to_owned(),
        Kind::Hour => price(machine.price, per_hour),
        Kind::Month => price(machine.price, per_month),
        Kind::Share(_) | Kind::Bar(_) | Kind::Amount(_) => {
            return of_resource((machine.requested, machine.allocatable), column, shown.names(), style);
        }
        Kind::Label(index) => machine.label(&shown.labels()[index]).unwrap_or_default().to_owned(),
        Kind::Pods => machine.pods.to_string(),
        Kind::Age => age(machine.created, now),
        Kind::State => {
            return style.phase(machine.state.phase, padded(&state(machine, column.width), column));
        }
    };
    Span::raw(padded(&text, column))
}

/// The state with its reason, if that can be read in `width` characters.
fn state(machine: &Machine<'_>, width: usize) -> String {
    let (phase, why) = (machine.state.phase.as_str(), machine.state.why);
    // A shorter part of a reason is of no use.
    let least = why.len().min(6);
    if why.is_empty() || width < phase.len() + 2 + least {
        return phase.to_owned();
    }
    format!("{phase}: {why}")
}

fn of_pool(
    name: &str,
    totals: &Totals,
    unfolded: bool,
    column: &Column,
    resources: &[String],
    style: Style,
) -> Span<'static> {
    let text = match column.kind {
        Kind::Name => {
            let mark = if unfolded { "▾" } else { "▸" };
            let name = if name.is_empty() { "no pool" } else { name };
            let count = format!(" ({})", totals.machines);
            format!("{mark} {}{count}", cut(name, column.width.saturating_sub(2 + count.len())))
        }
        Kind::Hour => price(totals.known_price(), per_hour),
        Kind::Month => price(totals.known_price(), per_month),
        Kind::Share(_) | Kind::Bar(_) | Kind::Amount(_) => {
            return of_resource((&totals.requested, &totals.allocatable), column, resources, style);
        }
        Kind::Pods => totals.pods.to_string(),
        Kind::State => phases(totals),
        Kind::Pool | Kind::Type | Kind::Zone | Kind::Capacity | Kind::Label(_) | Kind::Age => String::new(),
    };
    Span::styled(padded(&text, column), Modifier::BOLD)
}

/// Returns the number of machines in each phase.
pub(super) fn phases(totals: &Totals) -> String {
    let parts = totals.by_phase().map(|(phase, count)| format!("{count} {}", phase.as_str()));
    parts.collect::<Vec<_>>().join(", ")
}

fn of_resource(
    (requested, allocatable): (&[Quantity], &[Quantity]),
    column: &Column,
    resources: &[String],
    style: Style,
) -> Span<'static> {
    let amounts = |index: usize| {
        let of = |amounts: &[Quantity]| amounts.get(index).copied().unwrap_or_default();
        (of(requested), of(allocatable))
    };
    match column.kind {
        Kind::Share(index) | Kind::Bar(index) => {
            let (requested, allocatable) = amounts(index);
            let is_bar = matches!(column.kind, Kind::Bar(_));
            let Some(share) = percent(requested, allocatable) else {
                return Span::raw(padded(if is_bar { "" } else { "-" }, column));
            };
            let text = if is_bar { bar(share, column.width) } else { share.to_string() };
            style.share(share, padded(&text, column))
        }
        Kind::Amount(index) => {
            let (requested, allocatable) = amounts(index);
            let resource = &resources[index];
            Span::raw(padded(&part_of(resource, requested, allocatable), column))
        }
        _ => Span::raw(padded("", column)),
    }
}

/// A bar of `width` characters, filled as far as `share` percent.
fn bar(share: i64, width: usize) -> String {
    let share = usize::try_from(share.clamp(0, 100)).unwrap_or_default();
    let full = (share * width + 50) / 100;
    [BARS[7].repeat(full), BARS[0].repeat(width - full)].concat()
}

fn price(price: Option<Price>, text: fn(Price) -> String) -> String {
    price.map_or_else(|| "-".to_owned(), text)
}

/// The part of a node's name before the first dot, if all of it does not fit.
fn name(name: &str, width: usize) -> String {
    let fits = name.len() <= width;
    cut(if fits { name } else { name.split('.').next().unwrap_or(name) }, width)
}

/// The end of `text`: zones differ there.
fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(count + 1 - width.max(1)).collect();
    format!("…{kept}")
}

fn capacity(capacity: &str, width: usize) -> &str {
    let short = SHORT_CAPACITY.iter().find(|(long, _)| *long == capacity && long.len() > width);
    short.map_or(capacity, |(_, short)| short)
}

fn padded(text: &str, column: &Column) -> String {
    let (text, width) = (cut(text, column.width), column.width);
    if column.is_number() { format!("{text:>width$}") } else { format!("{text:<width$}") }
}
