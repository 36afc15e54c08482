//! The text exposition format of families that are read off what is known, written in pieces.
//!
//! In a large cluster the text is more than the cluster: hundreds of megabytes. It is nowhere as a whole, and no series is
//! kept for it.

use std::fmt::Write;

/// How much text is passed on at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Takes a piece of text, and says whether more is wanted.
pub(super) type PassOn<'a> = &'a mut dyn FnMut(String) -> bool;

/// Text that is passed on in pieces.
pub(super) struct Page<'a> {
    text: String,
    pass_on: PassOn<'a>,
    wanted: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(pass_on: PassOn<'a>) -> Self {
        Self { text: String::new(), pass_on, wanted: true }
    }

    /// Adds a family of the metrics library.
    pub(super) fn family(&mut self, family: prometheus::proto::MetricFamily) {
        if self.wanted {
            prometheus::TextEncoder::new()
                .encode_utf8(&[family], &mut self.text)
                .expect("invariant: registered families are well-formed and a String cannot fail to grow");
            self.turn();
        }
    }

    /// The lines of the family that `head` describes.
    pub(super) fn lines<'p>(&'p mut self, head: &'p Head) -> Lines<'p, 'a> {
        Lines { page: self, head, begun: false }
    }

    /// Passes on what is left.
    pub(super) fn finish(self) {
        if self.wanted && !self.text.is_empty() {
            (self.pass_on)(self.text);
        }
    }

    fn turn(&mut self) {
        if self.text.len() >= PIECE {
            let piece = std::mem::replace(&mut self.text, String::with_capacity(PIECE + PIECE / 4));
            self.wanted = (self.pass_on)(piece);
        }
    }
}

/// Name, help and labels of a family of gauges.
#[derive(Clone, Debug)]
pub(super) struct Head {
    name: &'static str,
    help: &'static str,
    /// The labels in name order, which is that of the format, each with its place among those of the family.
    labels: Vec<(String, usize)>,
}

impl Head {
    /// `labels` are their names in the order in which series give their values.
    pub(super) fn new<'a>(
        name: &'static str,
        help: &'static str,
        labels: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut labels: Vec<(String, usize)> = labels.into_iter().map(ToOwned::to_owned).zip(0..).collect();
        labels.sort_unstable();
        Self { name, help, labels }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

/// Where the series of one family are written.
pub struct Lines<'p, 'a> {
    page: &'p mut Page<'a>,
    head: &'p Head,
    begun: bool,
}

impl Lines<'_, '_> {
    /// Writes a series. `labels` are the values of the further labels, if the family has any, then of its own, in the
    /// order in which they were declared; no two series of a family may have the same.
    ///
    /// # Panics
    ///
    /// When there are fewer values than labels.
    pub fn gauge(&mut self, labels: &[&str], value: f64) {
        if !self.page.wanted {
            return;
        }
        let (text, name) = (&mut self.page.text, self.head.name);
        if !self.begun {
            self.begun = true;
            write(text, format_args!("# HELP {name} {}\n# TYPE {name} gauge\n", self.head.help));
        }
        text.push_str(name);
        let mut before = '{';
        for (label, place) in &self.head.labels {
            text.push(before);
            text.push_str(label);
            text.push_str("=\"");
            escape(text, labels[*place]);
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        write(text, format_args!(" {value}\n"));
        self.page.turn();
    }
}

fn write(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("invariant: a String cannot fail to grow");
}

/// Adds a value of a label, in which three characters have a meaning.
fn escape(text: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        text.push_str(value);
        return;
    }
    for one in value.chars() {
        match one {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}
