//! Colours, and how to do without them. The meaning of a colour is always in a word too.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};

use crate::machine::Phase;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colours may be used.
    pub colours: bool,
    /// Only the characters of ASCII may be used.
    pub ascii: bool,
}

/// Characters that are drawn, and their replacements on a terminal that has only ASCII. The last eight are the bars.
const ASCII: [(&str, &str); 14] = [
    ("…", "~"),
    ("▸", "+"),
    ("▾", "-"),
    ("·", "-"),
    ("↑", "^"),
    ("↓", "v"),
    (BARS[0], "_"),
    (BARS[1], "."),
    (BARS[2], ":"),
    (BARS[3], "-"),
    (BARS[4], "="),
    (BARS[5], "+"),
    (BARS[6], "*"),
    (BARS[7], "#"),
];

/// Bars of growing height.
pub(super) const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

impl Style {
    /// No colours; every character.
    pub(super) const fn plain() -> Self {
        Self { colours: false, ascii: false }
    }

    /// Something that is wrong.
    pub(super) fn wrong(self, text: impl Into<String>) -> Line<'static> {
        let style = ratatui::style::Style::new().add_modifier(Modifier::BOLD);
        Line::styled(text.into(), if self.colours { style.fg(Color::Red) } else { style })
    }

    /// A state.
    pub(super) fn phase(self, phase: Phase, text: String) -> Span<'static> {
        let colour = match phase {
            Phase::Ready => Color::Green,
            Phase::NotReady => Color::Red,
            Phase::Disrupted | Phase::Removing => Color::Yellow,
            Phase::Pending | Phase::Launching | Phase::Registered => Color::Cyan,
        };
        if self.colours { Span::styled(text, colour) } else { Span::raw(text) }
    }

    /// A share of what there is, in percent.
    pub(super) fn share(self, percent: i64, text: String) -> Span<'static> {
        let colour = match percent {
            ..50 => Color::Yellow,
            50..=100 => Color::Green,
            _ => Color::Red,
        };
        if self.colours { Span::styled(text, colour) } else { Span::raw(text) }
    }

    /// Replaces what the terminal cannot show.
    pub(super) fn finish(self, buffer: &mut Buffer) {
        if !self.ascii {
            return;
        }
        for cell in &mut buffer.content {
            if let Some((_, plain)) = ASCII.iter().find(|(drawn, _)| *drawn == cell.symbol()) {
                cell.set_symbol(plain);
            }
        }
    }
}

/// A title.
pub(super) fn heading(text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), Modifier::BOLD)
}

/// Something that matters less.
pub(super) fn dim(text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), Modifier::DIM)
}

/// The line that is selected.
pub(super) fn selected(line: &Line<'_>) -> Line<'static> {
    // Colours on a reversed line would become backgrounds.
    Line::styled(line.to_string(), Modifier::REVERSED)
}
