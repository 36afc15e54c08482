//! Converts files to one stream of documents and a report.

use serde_json::Value;

use crate::input::Input;
use crate::kubelets::{self, Converted};
use crate::log::{Kind, Log};
use crate::object::{self, Made, Outcome};
use crate::repair::{Repaired, repair};
use crate::report::{DOCUMENT, ObjectReport, Report};
use crate::{Options, validate, workload};
use karpenter_api::yaml::Node;
use karpenter_api::yaml::{Document, split};

/// The outcome for the whole input.
#[derive(Clone, Debug, Default)]
pub struct Conversion {
    /// YAML documents; empty if a text could not be read, so that no half of an input is applied.
    pub manifests: String,
    pub report: Report,
}

/// A document of the input, with its objects.
struct Part<'i> {
    document: Document<'i>,
    /// True if the objects are items of a list.
    is_list: bool,
    objects: Vec<Object>,
}

struct Object {
    source: String,
    from: String,
    node: Node,
    log: Log,
    outcome: Outcome,
}

/// Converts all documents of all inputs.
pub fn convert(inputs: &[Input], options: &Options) -> Conversion {
    let mut report = Report::default();
    let mut files: Vec<Vec<Part>> = Vec::new();
    for input in inputs {
        files.push(
            split(&input.text)
                .into_iter()
                .map(|document| parse(document, input, options, &mut report))
                .collect(),
        );
    }
    let objects = || files.iter().flatten().flat_map(|part| part.objects.iter());
    let classes: Vec<String> =
        objects().filter_map(|object| object::class_name(&object.node)).map(str::to_owned).collect();
    let taken = |name: &str| classes.iter().any(|class| class == name);
    for object in files.iter_mut().flatten().flat_map(|part| part.objects.iter_mut()) {
        object.outcome = object::convert(&object.node, &taken, options, &object.log);
    }
    let mut converted: Vec<Converted> = files
        .iter_mut()
        .flatten()
        .flat_map(|part| part.objects.iter_mut())
        .filter_map(|object| match &mut object.outcome {
            Outcome::Made(made) => Some(Converted { made, log: &object.log }),
            _ => None,
        })
        .collect();
    kubelets::settle(&mut converted);
    let mut manifests = String::new();
    for part in files.into_iter().flatten() {
        part.write(&mut manifests, &mut report);
    }
    if report.is_faulty() {
        manifests.clear();
    }
    Conversion { manifests, report }
}

fn parse<'i>(mut document: Document<'i>, input: &Input, options: &Options, report: &mut Report) -> Part<'i> {
    let log = Log::default();
    let node = readable(&mut document, options, &log);
    let entries = log.into_entries();
    if !entries.is_empty() {
        report.objects.push(ObjectReport {
            source: format!("{}:{}", input.name, document.lines_before + 1),
            from: DOCUMENT.to_owned(),
            to: Vec::new(),
            entries,
        });
    }
    let mut part = Part { document, is_list: false, objects: Vec::new() };
    let Some(node) = node else { return part };
    let is_list = node.get("kind").and_then(Node::text).is_some_and(|kind| kind.ends_with("List"));
    let items = node.get("items").map(|items| items.items().to_vec()).filter(|_| is_list);
    part.is_list = items.is_some();
    for node in items.unwrap_or_else(|| vec![node]) {
        part.objects.push(Object {
            source: format!("{}:{}", input.name, node.line),
            from: object::title(&node),
            node,
            log: Log::default(),
            outcome: Outcome::AsIs,
        });
    }
    part
}

/// The content of a document, after its faults have been corrected or reported.
fn readable(document: &mut Document, options: &Options, log: &Log) -> Option<Node> {
    let lines_before = document.lines_before;
    let Repaired { text, faults, unclear } = repair(&document.text);
    let is_faulty = !options.fix && !faults.is_empty();
    for fault in faults {
        let (kind, hint) = if options.fix { (Kind::Fixed, "") } else { (Kind::Faulty, "; `--fix` does it") };
        log.at(kind, "", fault.line + lines_before, fault.text + hint);
    }
    if let Some(unclear) = unclear {
        log.at(Kind::Faulty, "", unclear.line + lines_before, unclear.text);
        return None;
    }
    if is_faulty {
        return None;
    }
    match Node::parse(&text, lines_before) {
        Ok(node) => {
            if text != document.text {
                document.text = text.into();
            }
            node
        }
        Err(error) => {
            unreadable(&error, lines_before, log);
            None
        }
    }
}

/// Reports a text that no parser reads.
pub(crate) fn unreadable(error: &serde_saphyr::Error, lines_before: usize, log: &Log) {
    let line = error.location().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
    let text = format!("is not YAML: {}; correct this line or the one above", reason(&error.to_string()));
    log.at(Kind::Faulty, "", line + lines_before, text);
}

/// Returns a parser's message, in one line and without the place, which it counts from the beginning of the document.
fn reason(text: &str) -> String {
    let text = text.split(" at line ").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Part<'_> {
    /// Writes the document with what was made of its objects.
    fn write(self, manifests: &mut String, report: &mut Report) {
        let Self { document, is_list, objects } = self;
        if objects.iter().all(|object| matches!(object.outcome, Outcome::AsIs)) {
            // Comments between documents are kept with their markers.
            begin(manifests, document.marker);
            manifests.push_str(&document.text);
            report
                .objects
                .extend(objects.into_iter().map(|object| object.report(Vec::new(), &document.text)));
            return;
        }
        let mut marker = document.marker;
        for object in objects {
            let values = match &object.outcome {
                Outcome::AsIs => vec![object.node.to_value()],
                Outcome::Rewritten(value) => vec![value.clone()],
                Outcome::Made(made) => object.valid(made),
            };
            let is_made = matches!(object.outcome, Outcome::Made(_));
            let to = if is_made { values.iter().map(title).collect() } else { Vec::new() };
            let mut written = String::new();
            for value in &values {
                begin(manifests, marker);
                marker = "---\n";
                let in_place =
                    if is_made || is_list { None } else { renamed_in_place(&document.text, value) };
                written = in_place.unwrap_or_else(|| yaml(value));
                manifests.push_str(&written);
            }
            report.objects.push(object.report(to, &written));
        }
    }
}

impl Object {
    /// The objects an API server takes; the others are reported.
    fn valid(&self, made: &[Made]) -> Vec<Value> {
        let is_valid = |value: &Value| {
            let problems = validate::problems(value);
            for problem in &problems {
                let text = format!(
                    "{} would not be valid: {problem}; correct the field it comes from",
                    title(value)
                );
                self.log.say(Kind::Refused, "", text);
            }
            problems.is_empty()
        };
        made.iter().map(Made::object).filter(is_valid).collect()
    }

    fn report(self, to: Vec<String>, text: &str) -> ObjectReport {
        if matches!(self.outcome, Outcome::AsIs) {
            let lines = workload::mentions(text);
            if !lines.is_empty() {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                let text = format!(
                    "names the label of Provisioners in line {} of the document, where it is not rewritten; \
                     `karpenter.sh/nodepool` is its name today",
                    lines.join(", ")
                );
                self.log.say(Kind::Decide, "", text);
            }
        }
        let is_refused = self.log.is_refused();
        let mut entries = self.log.into_entries();
        if is_refused {
            // Mapped fields of an object that is not made help no reader.
            entries.retain(|entry| entry.kind >= Kind::Decide);
        }
        ObjectReport { source: self.source, from: self.from, to, entries }
    }
}

/// Begins a document; the first of the stream needs no marker.
fn begin(manifests: &mut String, marker: &str) {
    if !manifests.is_empty() && !manifests.ends_with('\n') {
        manifests.push('\n');
    }
    manifests.push_str(if manifests.is_empty() || !marker.is_empty() { marker } else { "---\n" });
}

fn title(value: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{}/{}", text(&value["kind"]), text(&value["metadata"]["name"]))
}

/// The text with old names replaced, if it then says what `value` says: comments stay.
fn renamed_in_place(text: &str, value: &Value) -> Option<String> {
    let replaced = crate::names::renamed(text);
    let node = Node::parse(&replaced, 0).ok()??;
    (node.to_value() == *value).then_some(replaced)
}

/// A value as YAML.
pub(crate) fn yaml(value: &Value) -> String {
    // A value of JSON has a form in YAML.
    serde_saphyr::to_string(value).unwrap_or_default()
}
