//! Text with markup: what the program writes is markup, what comes from a cluster is text, and the compiler knows which
//! is which. Markup has to live as long as the program, so nothing that was read can become it.

use std::fmt::{Display, Write as _};

/// A page as far as it is written.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Markup of the program's own.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text, in an element or between the quotes of an attribute.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// A sentence in which names stand between backticks.
    pub(super) fn prose(&mut self, text: impl Display) -> &mut Self {
        for (index, part) in text.to_string().split('`').enumerate() {
            match index % 2 {
                0 => self.text(part),
                _ => self.element("<code>", part, "</code>"),
            };
        }
        self
    }

    /// An element without attributes, with nothing but text in it.
    pub(super) fn element(
        &mut self,
        open: &'static str,
        text: impl Display,
        close: &'static str,
    ) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Replaces what has a meaning in HTML. Control characters but line feeds have none there and are left out, so that no
/// name can change how a line reads on a terminal either.
struct Escaped<'a>(&'a mut String);

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for one in text.chars() {
            match one {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' => self.0.push('\n'),
                // Nor may a name turn the order of what follows it.
                one if one.is_control()
                    || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {}
                one => self.0.push(one),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_cannot_become_markup() {
        let mut page = Markup::default();
        page.raw("<p title=\"").text("\"><script>alert('1')</script>\u{7}").raw("\">");
        page.text("a & b").raw("</p>");
        let expected = "<p title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\">a &amp; b</p>";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn names_between_backticks_are_set_as_names() {
        let mut page = Markup::default();
        page.prose("pool `<a>` is at its limits, `cpu");
        assert_eq!(page.finish(), "pool <code>&lt;a&gt;</code> is at its limits, <code>cpu</code>");
    }
}
