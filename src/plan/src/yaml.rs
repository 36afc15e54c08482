//! Errors in a text of YAML, in the words of the text: the line, the field and what to write there.
//!
//! The library that reads YAML speaks of its own types (`invalid u32`) and options; neither says anything to the author of a
//! file. Every error has a line. The field is empty where the text breaks off before one is known.

use serde_saphyr::Error;

/// Error at one place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// Counted from 1.
    pub line: usize,
    /// The field whose value it is, as it is written; empty where it is about no single one.
    pub field: String,
    /// Description of what is wrong with it, and what to write instead.
    pub problem: String,
}

/// Translates `error`, which came from reading `text`.
pub fn misread(text: &str, error: &Error) -> Misread {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    let place = Place { text, line: whole(line), column: whole(column) };
    let field = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => key.clone(),
        Error::SerdeUnknownField { field, .. } => field.clone(),
        Error::SerdeMissingField { field, .. } => (*field).to_owned(),
        _ => place.field(),
    };
    Misread { line: place.line, field, problem: problem(error, &place) }
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(1)
}

fn problem(error: &Error, place: &Place<'_>) -> String {
    if place.is_template() {
        return "has a template, `{{ }}`, which is no YAML; render it first, as with `helm template`"
            .to_owned();
    }
    match error {
        Error::InvalidScalar { ty, .. } => format!("`{}` is not {}", place.value(), written(ty)),
        Error::Unexpected { expected, .. } => match *expected {
            "sequence start" => "must be a list".to_owned(),
            "mapping start" => "must have fields, `name: value`, and is something else".to_owned(),
            "string scalar" => "must be one value, and is a list or has fields".to_owned(),
            other => format!("must be {other}"),
        },
        Error::NullIntoString { .. } => "is empty, and needs a text".to_owned(),
        Error::Eof { .. } => "has nothing in it".to_owned(),
        Error::DuplicateMappingKey { .. } => "is there twice; leave one of them out".to_owned(),
        Error::UnknownAnchor { .. } => {
            format!("`{}` refers to an anchor that is not there", place.value())
        }
        Error::SerdeMissingField { .. } => "is missing".to_owned(),
        Error::SerdeUnknownField { .. } => "is not known".to_owned(),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("`{}` is not {}", place.value(), written(expected))
        }
        Error::ExternalMessage { msg, .. } => format!("is no YAML here: {}", syntax(msg)),
        other => bare(other),
    }
}

/// The text of an error without its place, which is given beside it.
fn bare(error: &Error) -> String {
    let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text).to_owned()
}

/// A type of the program in words.
fn written(kind: &str) -> String {
    let most = match kind {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => return "a whole number from 0 on".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => return "a whole number".to_owned(),
        "f32" | "f64" | "floating point" => return "a number".to_owned(),
        "bool" | "boolean" => return "`true` or `false`".to_owned(),
        other => return other.to_owned(),
    };
    format!("a whole number from 0 to {most}")
}

/// Describes a violation of the rules of YAML, with what is mostly meant.
fn syntax(message: &str) -> String {
    let hints = [
        ("tabs disallowed", "a tab indents it; use spaces"),
        ("mapping values are not allowed", "a `:` too many; correct the indentation, or quote the value"),
        ("did not find expected '-'", "the indentation is not that of the list; correct it"),
    ];
    let known = hints.iter().find(|(part, _)| message.contains(part));
    known.map_or_else(|| message.to_owned(), |(_, hint)| (*hint).to_owned())
}

/// A place in a text.
struct Place<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl Place<'_> {
    fn line(&self) -> &str {
        self.text.lines().nth(self.line.saturating_sub(1)).unwrap_or_default()
    }

    fn before(&self) -> String {
        self.line().chars().take(self.column.saturating_sub(1)).collect()
    }

    fn is_template(&self) -> bool {
        self.line().contains("{{")
    }

    /// The value that begins here, as it is written.
    fn value(&self) -> String {
        let rest: String = self.line().chars().skip(self.column.saturating_sub(1)).collect();
        let rest = rest.split(" #").next().unwrap_or_default();
        rest.split([',', '}', ']']).next().unwrap_or_default().trim().to_owned()
    }

    /// The field whose value begins here: the word before the last colon before it, or of the line, or of the nearest line
    /// above that is indented less.
    fn field(&self) -> String {
        let before = self.before();
        if let Some((before, _)) = before.rsplit_once(':') {
            return last_word(before).to_owned();
        }
        let own = key(self.line());
        if !own.is_empty() {
            return own.to_owned();
        }
        let depth = indentation(self.line());
        let above = self.text.lines().take(self.line.saturating_sub(1)).collect::<Vec<_>>();
        let holds = |line: &&&str| {
            let is_item = line.trim_start().starts_with('-');
            !key(line).is_empty() && (indentation(line) < depth || !is_item && indentation(line) == depth)
        };
        above.iter().rev().find(holds).map(|line| key(line).to_owned()).unwrap_or_default()
    }
}

/// The key of a line, with or without a dash in front; empty when it has none.
fn key(line: &str) -> &str {
    let line = line.trim_start().trim_start_matches("- ").trim_start_matches('{');
    let Some((key, _)) = line.split_once(':') else { return "" };
    if last_word(key) == key { key } else { "" }
}

fn last_word(text: &str) -> &str {
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
    text.trim_end().rsplit(|letter| !is_word(letter)).next().unwrap_or_default()
}

fn indentation(line: &str) -> usize {
    line.chars().take_while(|letter| *letter == ' ').count()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are looked at")]
    struct Typed {
        replicas: u32,
        #[serde(default)]
        name: String,
        #[serde(default)]
        on: bool,
        #[serde(default)]
        list: Vec<u32>,
        #[serde(default)]
        inner: Option<Box<Typed>>,
    }

    fn wrong<T: for<'de> Deserialize<'de>>(text: &str) -> (usize, String, String) {
        let options = serde_saphyr::options! { with_snippet: false };
        let error = serde_saphyr::from_str_with_options::<T>(text, options).err().unwrap();
        let Misread { line, field, problem } = misread(text, &error);
        (line, field, problem)
    }

    #[test]
    fn a_value_of_another_type_is_said_in_words_with_line_and_field() {
        for (text, line, field, problem) in [
            ("replicas: many", 1, "replicas", "`many` is not a whole number from 0 to 4294967295"),
            ("{replicas: -1, name: a}", 1, "replicas", "`-1` is not a whole number from 0 to 4294967295"),
            ("replicas: 1\nname: [a]", 2, "name", "must be one value, and is a list or has fields"),
            ("replicas: 1\nname: ~", 2, "name", "is empty, and needs a text"),
            ("replicas: 1\non: maybe # not sure", 2, "on", "`maybe` is not `true` or `false`"),
            ("replicas: 1\nlist: 3", 2, "list", "must be a list"),
            ("replicas: 1\nlist:\n- 1\n- x", 4, "list", "`x` is not a whole number from 0 to 4294967295"),
            ("replicas: 1\ninner: [3]", 2, "inner", "must have fields, `name: value`, and is something else"),
            ("replicas: 1\nname: a\nname: b", 3, "name", "is there twice; leave one of them out"),
            ("name: a", 1, "replicas", "is missing"),
        ] {
            assert_eq!(wrong::<Typed>(text), (line, field.to_owned(), problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_said_with_line_field_and_what_to_do() {
        for (text, line, field, problem) in [
            ("kind: [", 1, "kind", "is no YAML here: unclosed bracket '['"),
            ("spec:\n\tx: 1", 2, "x", "is no YAML here: a tab indents it; use spaces"),
            (
                "kind: Pod\n  name: a",
                2,
                "name",
                "is no YAML here: a `:` too many; correct the indentation, or quote the value",
            ),
            (
                "spec:\n  - a\n  b: 1",
                3,
                "b",
                "is no YAML here: the indentation is not that of the list; correct it",
            ),
            ("kind: @x", 1, "kind", "is no YAML here: unexpected character: `@'"),
            ("kind: *x", 1, "kind", "`*x` refers to an anchor that is not there"),
            (
                "name: {{ .Values.name }}",
                1,
                "name",
                "has a template, `{{ }}`, which is no YAML; render it first, as with `helm template`",
            ),
        ] {
            assert_eq!(wrong::<Value>(text), (line, field.to_owned(), problem.to_owned()), "{text}");
        }
    }
}
