//! Draws a scene and a choice as characters: on a terminal, or as plain text.

mod columns;
mod header;
mod pages;
mod style;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::list::{self, Row};
use crate::scene::Scene;
use crate::ui::{Page, Ui};

use columns::Columns;
pub use style::Style;

/// Pods that wait which the list of machines has room for, and more where machines leave it free.
const WAITING_LINES: usize = 3;

/// Draws the page that is open.
pub fn draw(scene: &Scene<'_>, ui: &mut Ui, style: Style, area: Rect, buffer: &mut Buffer) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut below: Vec<Line<'static>> = header::troubles(scene, style);
    below.push(header::keys(ui));
    let room = height.saturating_sub(below.len());
    let mut lines = match ui.page().clone() {
        Page::Machines => machines(scene, ui, style, width, room),
        Page::Waiting => waiting(scene, ui, width, room),
        page => text_page(pages::page(scene, &page, width), ui, width, room),
    };
    lines.resize(room, Line::default());
    lines.append(&mut below);
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        buffer.set_line(area.x, y, line, area.width);
        if line.style.add_modifier.contains(ratatui::style::Modifier::REVERSED) {
            buffer.set_style(Rect::new(area.x, y, area.width, 1), line.style);
        }
    }
    style.finish(buffer);
}

/// All of it as plain text, `width` characters wide: everything about machines and pods, however long.
pub fn plain(scene: &Scene<'_>, ui: &Ui, width: usize) -> String {
    let style = Style::plain();
    let (rows, sums) = list::rows(scene.machines(), ui.choice());
    let columns = Columns::new(width, scene.world.shown(), &rows);
    let mut lines = header::header(scene, ui, &sums, style, width);
    lines.push(table::titles(&columns, ui.choice().sort));
    lines.extend(rows.iter().map(|row| table::line(row, &columns, scene.now, style)));
    if rows.is_empty() {
        lines.push(Line::from(nothing(scene, ui)));
    }
    let waiting = pages::waiting_in_order(scene.world);
    lines.extend(waiting.iter().map(|pod| pages::waiting_line(pod, scene.now, usize::MAX)));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.to_string().trim_end());
        text.push('\n');
    }
    text
}

fn machines(scene: &Scene<'_>, ui: &mut Ui, style: Style, width: usize, room: usize) -> Vec<Line<'static>> {
    let (rows, sums) = list::rows(scene.machines(), ui.choice());
    let mut lines = header::header(scene, ui, &sums, style, width);
    let columns = Columns::new(width, scene.world.shown(), &rows);
    // Machines are what the screen is for: on a small one they have at least a third of it, and the header gives way.
    let least = rows.len().min(room / 3).max(1);
    lines.truncate(room.saturating_sub(least + 2).max(1));
    lines.push(table::titles(&columns, ui.choice().sort));

    let waiting = pages::waiting_in_order(scene.world);
    let mut below = Vec::new();
    // The line of the selected machine is below, too.
    let left = room.saturating_sub(lines.len() + 1);
    let pane = left.saturating_sub(rows.len()).max(1 + WAITING_LINES).min(left.saturating_sub(least));
    if !waiting.is_empty() && pane > 0 {
        below.push(style::heading(format!("pods that wait for a node: {}", waiting.len())));
        let shown = waiting.iter().take(pane - 1);
        below.extend(shown.map(|pod| pages::waiting_line(pod, scene.now, width)));
    }
    let free = room.saturating_sub(lines.len() + below.len() + 1);
    ui.machines.settle(rows.iter().map(Row::id).collect(), free);
    let (selected, first) = ui.machines.lines();
    if let Some(row) = rows.get(selected) {
        below.push(header::selection(row, scene, width));
    }
    if rows.is_empty() {
        lines.push(Line::from(nothing(scene, ui)));
    }
    for (place, row) in rows.iter().enumerate().skip(first).take(free) {
        let line = table::line(row, &columns, scene.now, style);
        lines.push(if place == selected { style::selected(&line) } else { line });
    }
    lines.resize(room.saturating_sub(below.len()), Line::default());
    lines.append(&mut below);
    lines
}

fn nothing(scene: &Scene<'_>, ui: &Ui) -> String {
    let filter = &ui.choice().filter;
    match (scene.complete, filter.is_empty()) {
        (false, _) => "reading the cluster ...".to_owned(),
        (true, false) => match filter.unknown_key(&scene.machines()) {
            Some(key) => format!(
                "no node matches the filter: none has a label `{key}`; pool, type, zone, capacity and state are short words"
            ),
            None => "no node matches the filter; Esc removes it".to_owned(),
        },
        (true, true) => "no nodes".to_owned(),
    }
}

fn waiting(scene: &Scene<'_>, ui: &mut Ui, width: usize, room: usize) -> Vec<Line<'static>> {
    let waiting = pages::waiting_in_order(scene.world);
    let mut lines =
        vec![style::heading(format!("pods that wait for a node, the oldest first: {}", waiting.len()))];
    let free = room.saturating_sub(lines.len());
    ui.pods.settle(waiting.iter().map(|(key, _)| (*key).clone()).collect(), free);
    let (selected, first) = ui.pods.lines();
    for (place, pod) in waiting.iter().enumerate().skip(first).take(free) {
        let line = pages::waiting_line(pod, scene.now, width);
        lines.push(if place == selected { style::selected(&line) } else { line });
    }
    lines
}

fn text_page(text: Vec<Line<'static>>, ui: &mut Ui, width: usize, room: usize) -> Vec<Line<'static>> {
    let count = text.len();
    let first = ui.scroll_within(count, room);
    let mut lines: Vec<Line<'static>> = text.into_iter().skip(first).take(room).collect();
    if first + room < count
        && let Some(last) = lines.last_mut()
    {
        *last = style::dim(format!("{:>width$}", format!("{} more lines below", count - first - room + 1)));
    }
    lines
}

#[cfg(test)]
mod tests;
