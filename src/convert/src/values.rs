//! Values of charts 0.x as values of today's chart (spec aws-operations 4.7).
//!
//! Values that today's schema has under the same name are kept. The rest is in one table: where it is today, or why it is gone.
//! Values that are in neither are reported, because today's chart refuses them.

use serde_json::{Map, Value, json};

use crate::input::Input;
use crate::log::{Kind, Log};
use crate::report::{ObjectReport, Report};
use crate::stream::{Conversion, unreadable, yaml};
use crate::{names, validate};
use karpenter_api::yaml::{Data, Node};

/// Schema of the values of today's chart.
const SCHEMA: &str = include_str!("../../../charts/karpenter/values.schema.json");

/// Registry where the reference published its images: they are not of this project.
const OLD_IMAGES: &str = "public.ecr.aws/karpenter";

/// Fate of an old value.
#[derive(Clone, Copy)]
enum Rule {
    To(&'static str),
    /// Nothing has to be set any more.
    Needless(&'static str),
    /// A person has to set something elsewhere.
    Elsewhere(&'static str),
    /// There is nothing like it.
    Gone(&'static str),
}

use Rule::{Elsewhere, Gone, Needless, To};

const NO_WEBHOOK: Rule = Needless("there is no webhook");
const PROFILE: Rule =
    Elsewhere("each EC2NodeClass names its own: give the value to `karpenter convert --instance-profile`");
const IMAGE: Rule = Elsewhere(
    "this is the old controller; set `controller.image.repository` to the registry you pushed the new one to",
);
const TAGS: Rule = Elsewhere("each EC2NodeClass has its own: write them into `spec.tags`");
const ROLE: Rule = Gone("the controller takes its role from its service account or pod identity");

/// Old paths in the order of their age.
const RULES: &[(&str, Rule)] = &[
    ("controller.clusterName", To("settings.clusterName")),
    ("controller.clusterEndpoint", To("settings.clusterEndpoint")),
    ("controller.logLevel", To("logLevel")),
    ("controller.batchMaxDuration", To("settings.batchMaxDuration")),
    ("controller.batchIdleDuration", To("settings.batchIdleDuration")),
    ("controller.replicas", To("replicas")),
    ("controller.nodeSelector", To("nodeSelector")),
    ("controller.tolerations", To("tolerations")),
    ("controller.affinity", To("affinity")),
    ("controller.annotations", To("podAnnotations")),
    ("controller.outputPaths", To("logOutputPaths")),
    ("controller.errorOutputPaths", To("logErrorOutputPaths")),
    ("controller.logEncoding", To("settings.logFormat")),
    ("clusterName", To("settings.clusterName")),
    ("clusterEndpoint", To("settings.clusterEndpoint")),
    ("loglevel", To("logLevel")),
    ("logEncoding", To("settings.logFormat")),
    ("logConfig.enabled", Needless("logging is always set up by values")),
    ("logConfig.outputPaths", To("logOutputPaths")),
    ("logConfig.errorOutputPaths", To("logErrorOutputPaths")),
    ("logConfig.logEncoding", To("settings.logFormat")),
    ("logConfig.logLevel.global", To("logLevel")),
    ("logConfig.logLevel.controller", Needless("one level holds for all: `logLevel`")),
    ("logConfig.logLevel.webhook", NO_WEBHOOK),
    ("webhook", NO_WEBHOOK),
    ("aws.defaultInstanceProfile", PROFILE),
    ("settings.aws.clusterName", To("settings.clusterName")),
    ("settings.aws.clusterEndpoint", To("settings.clusterEndpoint")),
    ("settings.aws.clusterCABundle", To("settings.clusterCABundle")),
    ("settings.aws.interruptionQueueName", To("settings.interruptionQueue")),
    ("settings.interruptionQueueName", To("settings.interruptionQueue")),
    ("settings.aws.isolatedVPC", To("settings.isolatedVPC")),
    ("settings.aws.vmMemoryOverheadPercent", To("settings.vmMemoryOverheadPercent")),
    ("settings.aws.reservedENIs", To("settings.reservedENIs")),
    ("settings.aws.defaultInstanceProfile", PROFILE),
    ("settings.defaultInstanceProfile", PROFILE),
    ("settings.aws.tags", TAGS),
    ("settings.tags", TAGS),
    ("settings.aws.assumeRoleARN", ROLE),
    ("settings.aws.assumeRoleDuration", ROLE),
    ("settings.assumeRoleARN", ROLE),
    ("settings.assumeRoleDuration", ROLE),
    ("settings.aws.enablePodENI", Needless("interfaces of pods are always counted")),
    (
        "settings.aws.enableENILimitedPodDensity",
        Elsewhere("set `spec.kubelet.maxPods` of the EC2NodeClass if pods are not limited by interfaces"),
    ),
    (
        "settings.aws.nodeNameConvention",
        Gone("nodes are named by their images: IP address, or instance id with the subnet's setting"),
    ),
    (
        "settings.featureGates.driftEnabled",
        Elsewhere("drifted nodes are always replaced; a budget of 0 nodes for the reason Drifted stops it"),
    ),
    (
        "settings.featureGates.drift",
        Elsewhere("drifted nodes are always replaced; a budget of 0 nodes for the reason Drifted stops it"),
    ),
    ("controller.image.pullPolicy", To("imagePullPolicy")),
    ("postInstallHook", Needless("stored versions need no migration by a hook")),
    ("extraObjects", Elsewhere("apply these objects beside the chart")),
];

/// Converts a file of values.
pub fn convert_values(input: &Input) -> Conversion {
    let log = Log::default();
    let mut report = Report::default();
    let mut values = Map::new();
    let schema = schema();
    match Node::parse(&input.text, 0) {
        Ok(Some(node)) => Converter { schema: &schema, log: &log, values: &mut values }.below(&node, ""),
        Ok(None) => {}
        Err(error) => unreadable(&error, 0, &log),
    }
    let values = Value::Object(values);
    for problem in validate::against(&schema, &values) {
        log.say(Kind::Decide, "", format!("today's chart would refuse it: {problem}"));
    }
    let entries = log.into_entries();
    let to = vec!["values".to_owned()];
    let source = format!("{}:1", input.name);
    report.objects.push(ObjectReport { source, from: "values".to_owned(), to, entries });
    let is_empty = values.as_object().is_none_or(Map::is_empty);
    let manifests = if is_empty || report.is_faulty() { String::new() } else { yaml(&values) };
    Conversion { manifests, report }
}

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("invariant: the schema is part of the repository and tested as JSON")
}

struct Converter<'a> {
    schema: &'a Value,
    log: &'a Log,
    values: &'a mut Map<String, Value>,
}

impl Converter<'_> {
    /// Converts the fields of a map.
    fn below(&mut self, node: &Node, path: &str) {
        let Data::Map(fields) = &node.data else {
            let text = "is not a map of values; compare it with the values of today's chart";
            return self.log.at(Kind::Dropped, path, node.line, text);
        };
        for (key, node) in fields {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.value(node, &path);
        }
    }

    fn value(&mut self, node: &Node, path: &str) {
        if let Some((_, rule)) = RULES.iter().find(|(old, _)| *old == path) {
            return self.apply(*rule, node, path);
        }
        let is_prefix =
            RULES.iter().any(|(old, _)| old.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')));
        let known = at_path(self.schema, path);
        let has_children = known.is_some_and(|schema| schema.get("properties").is_some());
        if path == "controller.image" && is_old_image(node) {
            self.apply(IMAGE, node, path);
        } else if matches!(node.data, Data::Map(_)) && (is_prefix || has_children) {
            self.below(node, path);
        } else if known.is_none() {
            let text = "is no value of today's chart, which would refuse it; look for its name in the chart's README";
            self.log.at(Kind::Dropped, path, node.line, text);
        } else {
            let old = node.to_value();
            let value = with_names_of_today(&old);
            if value != old {
                self.log.at(Kind::Mapped, path, node.line, "labels have their names of today");
            }
            self.set(path, value, node, path);
        }
    }

    fn apply(&mut self, rule: Rule, node: &Node, path: &str) {
        let (kind, text) = match rule {
            To(today) => {
                let value = match (today, node.text()) {
                    // zap called the format for people so.
                    ("settings.logFormat", Some("console")) => json!("text"),
                    _ => with_names_of_today(&node.to_value()),
                };
                self.set(today, value, node, path);
                (Kind::Mapped, format!("-> {today}"))
            }
            Needless(why) => (Kind::Noted, format!("left out: {why}")),
            Elsewhere(how) => (Kind::Decide, format!("is set elsewhere: {how}")),
            Gone(why) => (Kind::Dropped, format!("has no equal: {why}")),
        };
        self.log.at(kind, path, node.line, text);
    }

    /// Sets a value of today, unless it is set already by another name.
    fn set(&mut self, today: &str, value: Value, node: &Node, from: &str) {
        let mut names = today.split('.').peekable();
        let mut map = &mut *self.values;
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                if map.get(name).is_some_and(|there| *there != value) {
                    let text = format!("`{today}` is set twice with different values; the first is kept");
                    return self.log.at(Kind::Decide, from, node.line, text);
                }
                map.insert(name.to_owned(), value);
                return;
            }
            let below = map.entry(name).or_insert_with(|| json!({}));
            let Value::Object(below) = below else { return };
            map = below;
        }
    }
}

/// Returns whether an image is one of the reference; early versions wrote it as one text.
fn is_old_image(image: &Node) -> bool {
    let repository = image.get("repository").unwrap_or(image);
    image.text().is_some() || repository.text().is_some_and(|text| text.contains(OLD_IMAGES))
}

/// The schema of a value.
fn at_path<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    path.split('.').try_fold(schema, |schema, name| schema["properties"].get(name))
}

/// A value whose keys and texts have today's names for labels of older versions.
fn with_names_of_today(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(names::renamed(text)),
        Value::Array(items) => items.iter().map(with_names_of_today).collect(),
        Value::Object(fields) => {
            let renamed = fields.iter().map(|(key, value)| (names::renamed(key), with_names_of_today(value)));
            Value::Object(renamed.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_old_value_goes_where_the_chart_has_a_value() {
        let schema = schema();
        for (old, rule) in RULES {
            if let To(today) = rule {
                assert!(at_path(&schema, today).is_some(), "{old} -> {today}");
            }
            assert!(at_path(&schema, old).is_none(), "{old} is a value of today's chart");
        }
    }
}
