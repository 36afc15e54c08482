//! The picture in README: a screen of these tests as SVG, so that it shows what is drawn. `UPDATE_GOLDEN=1` rewrites it.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::*;

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/view.svg");
/// A character in pixels.
const WIDTH: usize = 8;
const HEIGHT: usize = 18;
const MARGIN: usize = 12;
const PAPER: &str = "#1b1f24";
const INK: &str = "#d0d7de";

/// How a run of characters looks.
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

fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    let (width, height) = (columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <title>karpenter view</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for (row, cells) in buffer.content.chunks(columns).enumerate() {
        let mut start = 0;
        for run in cells.chunk_by(|left, right| look(left) == look(right)) {
            line(&mut svg, run, start, row);
            start += run.len();
        }
    }
    svg + "</svg>\n"
}

/// A run of characters that look the same. Its length is fixed, so columns line up in every font.
fn line(svg: &mut String, run: &[Cell], start: usize, row: usize) {
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

#[test]
fn the_picture_in_readme_is_what_is_drawn() {
    let mut screen = Screen::new(124, 16);
    screen.style.colours = true;
    screen.press(&[KeyCode::Down]);
    let drawn = svg(screen.terminal.backend().buffer());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PICTURE, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    assert!(kept == drawn, "docs/view.svg is stale; UPDATE_GOLDEN=1 rewrites it");
}
