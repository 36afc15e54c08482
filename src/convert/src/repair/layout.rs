//! Indentation restored from the names of fields.
//!
//! Lines are read in order with the fields that are open above them. A field goes to the open map at its indentation if
//! that may have it, else to the only open map that may. Where that is none or several, a person has to decide.

use std::collections::BTreeSet;

use super::Fault;
use super::places::{Field, Holds};

/// Lines with restored indentation, and what was moved.
type Arranged = (Vec<String>, Vec<Fault>);

/// Arranges the lines of an object with these fields.
pub(super) fn arrange(lines: &[String], fields: &'static [Field]) -> Result<Arranged, Fault> {
    let mut arranger = Arranger {
        levels: vec![Level::new("the object", Holds::Fields(fields), 0, 0, true)],
        rest: Rest::None,
        lines: Vec::new(),
        faults: Vec::new(),
    };
    for (at, line) in lines.iter().enumerate() {
        arranger.line(at + 1, line)?;
    }
    Ok((arranger.lines, arranger.faults))
}

/// A field that is open: further lines may be below it.
struct Level {
    /// The field, for what is said about it.
    name: String,
    holds: Holds,
    /// Indentation of its key, in the text and in the result.
    key_source: usize,
    key_target: usize,
    /// Indentation of what is below it; known from its first line on.
    source: Option<usize>,
    target: usize,
    seen: BTreeSet<String>,
}

impl Level {
    fn new(name: &str, holds: Holds, key_source: usize, key_target: usize, is_known: bool) -> Self {
        Self {
            name: name.to_owned(),
            holds,
            key_source,
            key_target,
            source: is_known.then_some(key_source),
            target: key_target,
            seen: BTreeSet::new(),
        }
    }

    fn field(&self, key: &str) -> Option<Holds> {
        let Holds::Fields(fields) = self.holds else { return None };
        if self.seen.contains(key) {
            return None;
        }
        fields.iter().find(|(name, _)| *name == key).map(|(_, holds)| *holds)
    }

    fn has_item_with(&self, key: Option<&str>) -> bool {
        match (self.holds, key) {
            (Holds::Items(fields), Some(key)) => fields.iter().any(|(name, _)| *name == key),
            (Holds::Values, None) => true,
            _ => false,
        }
    }

    /// Takes a first line at this indentation; a list may stand at the indentation of its key.
    fn open_at(&mut self, depth: usize) {
        if self.source.is_some() {
            return;
        }
        let is_list = matches!(self.holds, Holds::Items(_) | Holds::Values);
        let least = usize::from(!is_list);
        let deeper = depth.checked_sub(self.key_source).filter(|deeper| *deeper >= least);
        self.target = self.key_target + deeper.unwrap_or(if is_list { 0 } else { 2 });
        self.source = Some(depth);
    }
}

/// Construct that a line continues.
enum Rest {
    None,
    /// A text of several lines below a key at this indentation; how far its lines move, once known.
    Block {
        key_source: usize,
        target: usize,
        source: Option<usize>,
    },
    /// Brackets that are open, and the indentation of what is in them.
    Flow {
        depth: usize,
        target: usize,
    },
}

struct Arranger {
    levels: Vec<Level>,
    rest: Rest,
    lines: Vec<String>,
    faults: Vec<Fault>,
}

impl Arranger {
    fn line(&mut self, at: usize, line: &str) -> Result<(), Fault> {
        let content = line.trim();
        let depth = line.len() - line.trim_start().len();
        if self.continues(line, content, depth) {
            return Ok(());
        }
        if content.is_empty() || content.starts_with('#') {
            self.lines.push(line.to_owned());
            return Ok(());
        }
        if let Some(item) = content.strip_prefix('-').filter(|item| item.is_empty() || item.starts_with(' '))
        {
            return self.item(at, depth, item.trim_start(), content.len() - item.trim_start().len());
        }
        let Some((key, value)) = key_of(content) else {
            return Err(unclear(at, "is neither a field nor an item of a list"));
        };
        let index = self.place(at, key, depth)?;
        self.levels.truncate(index + 1);
        self.levels[index].open_at(depth);
        self.emit(index, at, depth, content, &format!("`{key}` belongs below"));
        let target = self.levels[index].target;
        self.open(index, key, value, depth, target);
        Ok(())
    }

    /// Lines of texts and brackets that were begun above.
    fn continues(&mut self, line: &str, content: &str, depth: usize) -> bool {
        match &mut self.rest {
            Rest::None => false,
            Rest::Block { key_source, target, source } => {
                if !content.is_empty() && depth <= *key_source {
                    self.rest = Rest::None;
                    return false;
                }
                let first = *source.get_or_insert(depth);
                let target = *target + depth.saturating_sub(first);
                let line =
                    if content.is_empty() { String::new() } else { format!("{:target$}{content}", "") };
                self.lines.push(line);
                true
            }
            Rest::Flow { depth: open, target } => {
                *open = (*open + count(content, "[{")).saturating_sub(count(content, "]}"));
                let (target, is_over) = (*target, *open == 0);
                self.lines.push(if content.is_empty() {
                    line.to_owned()
                } else {
                    format!("{:target$}{content}", "")
                });
                if is_over {
                    self.rest = Rest::None;
                }
                true
            }
        }
    }

    /// An item of a list, with its first field if it is a map.
    fn item(&mut self, at: usize, depth: usize, item: &str, offset: usize) -> Result<(), Fault> {
        let pair = key_of(item);
        let key = pair.map(|(key, _)| key);
        let open = self.levels.iter().rposition(|level| level.has_item_with(key));
        let Some(index) = open else {
            return Err(unclear(at, "is an item of no list that is open above it"));
        };
        self.levels.truncate(index + 1);
        self.levels[index].open_at(depth);
        let content = format!("-{:blanks$}{item}", "", blanks = offset - 1);
        self.emit(index, at, depth, &content, "the item belongs to");
        let (target, name) = (self.levels[index].target, self.levels[index].name.clone());
        let (Holds::Items(fields), Some((key, value))) = (self.levels[index].holds, pair) else {
            return Ok(());
        };
        let mut level = Level::new(&name, Holds::Fields(fields), depth, target, false);
        level.source = Some(depth + offset);
        level.target = target + offset;
        self.levels.push(level);
        self.open(index + 1, key, value, depth + offset, target + offset);
        Ok(())
    }

    /// Marks a field as seen, and opens it if its value is below it.
    fn open(&mut self, index: usize, key: &str, value: &str, source: usize, target: usize) {
        let holds = self.levels[index].field(key).unwrap_or(Holds::Value);
        self.levels[index].seen.insert(key.to_owned());
        let value = value.split(" #").next().unwrap_or_default().trim();
        let open = count(value, "[{").saturating_sub(count(value, "]}"));
        if value.starts_with(['|', '>']) {
            self.rest = Rest::Block { key_source: source, target: target + 2, source: None };
        } else if value.starts_with(['[', '{']) && open > 0 {
            self.rest = Rest::Flow { depth: open, target: target + 2 };
        } else if (value.is_empty() || value.starts_with('#')) && !matches!(holds, Holds::Value) {
            self.levels.push(Level::new(key, holds, source, target, false));
        }
    }

    /// The open level that a key belongs to.
    fn place(&self, at: usize, key: &str, depth: usize) -> Result<usize, Fault> {
        let may_have = |level: &Level| level.field(key).is_some();
        let at_depth = |level: &Level| level.source == Some(depth);
        let last = self.levels.len() - 1;
        if matches!(self.levels[last].holds, Holds::Texts)
            && (at_depth(&self.levels[last]) || depth > self.levels[last].key_source)
        {
            return Ok(last);
        }
        if let Some(index) = self.levels.iter().rposition(|level| may_have(level) && at_depth(level)) {
            return Ok(index);
        }
        let open: Vec<usize> = (0..=last).filter(|index| may_have(&self.levels[*index])).collect();
        match open.as_slice() {
            [index] => Ok(*index),
            [] if matches!(self.levels[last].holds, Holds::Texts) => Ok(last),
            [] => Err(unclear(
                at,
                &format!("field `{key}` belongs below none of the fields that are open above it"),
            )),
            several => {
                let names: Vec<String> =
                    several.iter().map(|index| format!("`{}`", self.levels[*index].name)).collect();
                Err(unclear(at, &format!("field `{key}` may belong below {}", names.join(" or "))))
            }
        }
    }

    /// Writes a line, and says so if it moves otherwise than what is above it.
    fn emit(&mut self, index: usize, at: usize, source: usize, content: &str, what: &str) {
        let level = &self.levels[index];
        let (target, follows) = (level.target, level.key_target + source == level.key_source + level.target);
        if source != target && !follows {
            let text = format!("{what} `{}`; indent it by {target} spaces instead of {source}", level.name);
            self.faults.push(Fault { line: at, text });
        }
        self.lines.push(format!("{:target$}{content}", ""));
    }
}

fn unclear(line: usize, text: &str) -> Fault {
    Fault { line, text: format!("{text}; indent it below the field it belongs to") }
}

/// Key and value of a line that is a field.
fn key_of(content: &str) -> Option<(&str, &str)> {
    let (key, value) = content.split_once(':')?;
    let is_key = value.is_empty() || value.starts_with(' ');
    let key = key.trim().trim_matches(['"', '\'']);
    (is_key && !key.is_empty()).then_some((key, value.trim_start()))
}

fn count(text: &str, letters: &str) -> usize {
    text.chars().filter(|c| letters.contains(*c)).count()
}
