//! Lines for the terminal they are read on: broken between words at its width, and coloured.
//!
//! What a colour says, a word or a sign says too. Text for a file or a pipe is left as it is.

/// Look of printed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether to colour.
    pub colour: bool,
    /// Columns of the terminal; `None` breaks no line.
    pub width: Option<usize>,
}

/// Fewest columns that are broken for; on narrower terminals every word would have a line of its own.
const NARROWEST: usize = 40;
/// Columns by which the rest of a broken line is indented further.
const HANGING: usize = 4;

const RESET: &str = "\u{1b}[0m";

impl Look {
    /// Returns `text` with this look.
    pub fn dress(self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let code = if self.colour { code(line) } else { None };
            for part in self.broken(line) {
                match code {
                    Some(code) => out.push_str(&format!("\u{1b}[{code}m{part}{RESET}\n")),
                    None => out.push_str(&format!("{part}\n")),
                }
            }
        }
        out
    }

    /// The line as lines of at most the width of the terminal. A word that is longer has a line of its own.
    fn broken(self, line: &str) -> Vec<String> {
        let Some(width) = self.width.map(|width| width.max(NARROWEST)) else { return vec![line.to_owned()] };
        let indent = line.len() - line.trim_start().len();
        let hanging = " ".repeat(indent + HANGING);
        let mut lines = Vec::new();
        let mut current = line[..indent].to_owned();
        let (mut used, mut is_empty) = (indent, true);
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if !is_empty && used + 1 + length > width {
                lines.push(std::mem::replace(&mut current, hanging.clone()));
                (used, is_empty) = (hanging.len(), true);
            }
            if !is_empty {
                current.push(' ');
                used += 1;
            }
            current.push_str(word);
            (used, is_empty) = (used + length, false);
        }
        lines.push(current);
        lines
    }
}

/// The colour of a line by the sign or the words it begins with.
fn code(line: &str) -> Option<&'static str> {
    let said = line.trim_start();
    let begins = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
    if begins(&["+ ", "replaced by "]) {
        Some("32")
    } else if begins(&["- ", "error: "]) {
        Some("31")
    } else if begins(&["? ", "warning: "]) {
        Some("33")
    } else if begins(&["would help: ", "do: "]) {
        Some("36")
    } else if !said.is_empty() && said.len() == line.len() {
        // Titles and the summary.
        Some("1")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_keep_their_indent() {
        let text = "Stay pending: 1 pod\n      pool `general`: the pod asks for 500 cpu, and it has less\n\n";
        let look = Look { colour: false, width: Some(40) };
        assert_eq!(
            look.dress(text),
            "Stay pending: 1 pod\n      pool `general`: the pod asks for\n          500 cpu, and it has less\n\n"
        );
        assert_eq!(Look::default().dress(text), text);
        let long = "x".repeat(60);
        assert_eq!(look.dress(&long), format!("{long}\n"));
    }

    #[test]
    fn a_colour_follows_the_sign_and_says_nothing_alone() {
        let look = Look { colour: true, width: None };
        let text = "Remove 1 node\n  - one: $1\n      because Empty\n";
        let coloured = look.dress(text);
        assert!(coloured.contains("\u{1b}[31m  - one: $1\u{1b}[0m\n"), "{coloured:?}");
        let plain = coloured.replace(RESET, "").replace("\u{1b}[31m", "").replace("\u{1b}[1m", "");
        assert_eq!(plain, text);
    }
}
