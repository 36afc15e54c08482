//! Frames of a terminal as one SVG that plays by itself: style rules and no script, so it also moves where a page shows it
//! as a picture. A run of rows that stays the same over several frames is written once.
//!
//! If the reader has asked for less motion, the last frame stands still.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// A character in pixels.
const WIDTH: usize = 8;
const HEIGHT: usize = 18;
const MARGIN: usize = 12;
const PAPER: &str = "#1b1f24";
const INK: &str = "#d0d7de";

/// Screen of the terminal, and the time for which it is shown.
pub(super) struct Frame {
    pub(super) buffer: Buffer,
    pub(super) lasts: Duration,
}

/// The frames one after the other, again and again. All have the size of the first.
pub(super) fn film(title: &str, frames: &[Frame]) -> String {
    let area = frames[0].buffer.area;
    let (columns, rows) = (usize::from(area.width), usize::from(area.height));
    let (width, height) = (columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN);
    let mut spans = BTreeSet::new();
    let mut body = String::new();
    for row in 0..rows {
        let cells = |frame: usize| &frames[frame].buffer.content[row * columns..(row + 1) * columns];
        let mut from = 0;
        for until in 1..=frames.len() {
            if until < frames.len() && cells(until) == cells(from) {
                continue;
            }
            let drawn = line(cells(from), row);
            if !drawn.is_empty() {
                spans.insert((from, until));
                writeln!(body, "<g class=\"f{from}-{until}\">\n{drawn}</g>").unwrap();
            }
            from = until;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n{body}</svg>\n",
        rules(&spans, frames)
    )
}

/// Returns the rules that show each span of frames in its time.
fn rules(spans: &BTreeSet<(usize, usize)>, frames: &[Frame]) -> String {
    let total: Duration = frames.iter().map(|frame| frame.lasts).sum();
    let percent = |frame: usize| {
        let before: Duration = frames[..frame].iter().map(|frame| frame.lasts).sum();
        format!("{:.3}%", 100.0 * before.as_secs_f64() / total.as_secs_f64())
    };
    let mut rules = String::new();
    let moving = "@media (prefers-reduced-motion: no-preference)";
    for &(from, until) in spans {
        // Without motion, the last frame alone.
        if until < frames.len() {
            writeln!(rules, ".f{from}-{until}{{visibility:hidden}}").unwrap();
        }
        if (from, until) == (0, frames.len()) {
            continue;
        }
        let hidden = if from == 0 { "" } else { "0%{visibility:hidden}" };
        let gone = if until == frames.len() {
            String::new()
        } else {
            format!("{}{{visibility:hidden}}", percent(until))
        };
        writeln!(rules, "@keyframes k{from}-{until}{{{hidden}{}{{visibility:visible}}{gone}", percent(from))
            .unwrap();
        // A rule stays what it was last until the end.
        let end = if until == frames.len() { "visible" } else { "hidden" };
        writeln!(rules, "100%{{visibility:{end}}}}}").unwrap();
        let seconds = total.as_secs_f64();
        writeln!(
            rules,
            "{moving}{{.f{from}-{until}{{animation:k{from}-{until} {seconds:.1}s step-end infinite}}}}"
        )
        .unwrap();
    }
    rules
}

/// Style of a run of characters.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    colour: &'static str,
    paper: Option<&'static str>,
    is_bold: bool,
}

fn look(cell: &Cell) -> Look {
    let colour = match cell.fg {
        Color::Green => "#57ab5a",
        Color::Red => "#f47067",
        Color::Yellow => "#c69026",
        Color::Cyan => "#39c5cf",
        Color::DarkGray | Color::Gray => "#768390",
        _ => INK,
    };
    let is_bold = cell.modifier.contains(Modifier::BOLD);
    if cell.modifier.contains(Modifier::REVERSED) {
        return Look { colour: PAPER, paper: Some(colour), is_bold };
    }
    Look { colour, paper: None, is_bold }
}

/// One row of a frame.
fn line(cells: &[Cell], row: usize) -> String {
    let mut svg = String::new();
    let mut start = 0;
    for run in cells.chunk_by(|left, right| look(left) == look(right)) {
        characters(&mut svg, run, start, row);
        start += run.len();
    }
    svg
}

/// A run of characters that look the same. Its length is fixed, so columns line up in every font.
fn characters(svg: &mut String, run: &[Cell], start: usize, row: usize) {
    let Look { colour, paper, is_bold } = look(&run[0]);
    let (x, top) = (MARGIN + start * WIDTH, MARGIN + row * HEIGHT);
    if let Some(paper) = paper {
        let width = run.len() * WIDTH;
        writeln!(svg, "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{paper}\"/>")
            .unwrap();
    }
    let text: String = run.iter().map(Cell::symbol).collect();
    let blanks = text.chars().take_while(|c| *c == ' ').count();
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let (x, y) = (x + blanks * WIDTH, top + HEIGHT - 5);
    let length = text.chars().count() * WIDTH;
    let bold = if is_bold { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\"{bold} textLength=\"{length}\" \
         lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{text}</text>"
    )
    .unwrap();
}
