//! Reads scenario files. What is wrong with one is said with its line and its field, and with the field that was probably
//! meant.

mod expected;
mod files;
mod names;

use std::fs;
use std::path::Path;
use std::time::Duration;

use karpenter_api::yaml;
use karpenter_aws_sim::{Options, Range};
use karpenter_compose::offered::every_type;
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{FLAGS, Flag, Home, OWN, Source};
use karpenter_kube_sim::apiserver::object;
use karpenter_model::names::tag;
use karpenter_plan::{Misread, TooMany, misread, near, region_of};
use serde_json::Value;
use serde_saphyr::{Error, Spanned};

use self::files::objects;
use super::format::{
    self, CapacityLoss, Differ, Expectation, File, For, ImageRelease, Machines, Object, PriceChange, Scale,
    Step, Unhealthy,
};
use super::value::Span;

pub use self::expected::Expected;
pub(crate) use self::expected::{Subject, Window};
pub use self::files::files;

/// The cluster of scenarios whose manifests name none.
const CLUSTER: &str = "demo";
/// Shortest time between two repetitions: in less than the time of a look at the world they cannot be distinguished.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// A scenario that can be played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file, as it was named.
    pub path: String,
    /// Statements of the file about itself and its world.
    pub file: File,
    /// Objects the cluster begins with.
    pub manifests: Vec<Manifest>,
    /// Events, in the order of time.
    pub events: Vec<Event>,
    /// Expectations, in the order of the file.
    pub expectations: Vec<Line<Expected>>,
    /// The file, for the lines of its fields.
    text: String,
}

impl Scenario {
    /// The cluster: what the file says, or what its node classes look for, or `demo`.
    pub fn cluster(&self) -> String {
        let said = self.file.cluster.clone().or_else(|| cluster_of(&self.objects()));
        said.unwrap_or_else(|| CLUSTER.to_owned())
    }

    /// The region: what the file says, or that of the zones its manifests name, or the one of the account in memory.
    pub fn region(&self) -> String {
        let said = self.file.region.clone().or_else(|| region_of(&self.objects()));
        said.unwrap_or_else(|| Options::default().region)
    }

    /// Instance types that the account sells.
    pub fn instance_types(&self) -> Range {
        match self.file.instance_types {
            format::Range::Usual => Range::Usual,
            format::Range::All => every_type(&self.region()).0,
        }
    }

    /// The line of a field of the file as a whole, as `duration`; 1 when it is not there.
    pub fn line_of(&self, field: &str) -> u64 {
        line_of(&self.text, &format!("{field}:"))
    }

    /// Returns whether the scenario begins at the default time, that of scenarios without `start`.
    pub fn begins_by_default(&self) -> bool {
        self.file.start == super::format::start()
    }

    /// Every object it ever applies.
    fn objects(&self) -> Vec<Value> {
        let mut objects: Vec<Value> = self.manifests.iter().map(|manifest| manifest.what.clone()).collect();
        for event in &self.events {
            if let Action::Apply(manifests) = &event.action {
                objects.extend(manifests.iter().map(|manifest| manifest.what.clone()));
            }
        }
        objects
    }
}

/// The cluster that node classes look for.
fn cluster_of(objects: &[Value]) -> Option<String> {
    objects.iter().filter(|one| one["kind"] == "EC2NodeClass").find_map(|class| {
        let mut terms = object::list(class, "/spec/subnetSelectorTerms").iter();
        terms.find_map(|term| term["tags"][tag::DISCOVERY].as_str()).map(str::to_owned)
    })
}

/// Something of a line of the file.
#[derive(Clone, Debug)]
pub struct Line<T> {
    /// Counted from 1.
    pub line: u64,
    /// Content of the line.
    pub what: T,
}

/// An object, and the line of the file that brings it.
pub type Manifest = Line<Value>;

/// Something happens.
#[derive(Clone, Debug)]
pub struct Event {
    /// Since the beginning.
    pub at: Duration,
    /// Line of the step; a step that is repeated has several events.
    pub line: u64,
    /// Action of the step.
    pub action: Action,
}

/// Action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// A Deployment gets another number of replicas.
    Scale(Scale),
    /// Manifests are applied.
    Apply(Vec<Manifest>),
    /// An object is deleted.
    Delete(Object),
    /// Every finalizer of an object is taken off.
    RemoveFinalizers(Object),
    /// EC2 takes spot instances back, with two minutes of notice.
    Interrupt(Machines),
    /// EC2 recommends to leave spot instances.
    Rebalance(Machines),
    /// Instances end without notice.
    Terminate(Machines),
    /// Instances are stopped.
    Stop(Machines),
    /// Kubelets fall silent.
    Silence(Machines),
    /// Conditions report machines as unhealthy, until they are rebooted.
    Sicken(Unhealthy),
    /// Machines launched from now on differ from what is foreseen.
    Differ(Box<Differ>),
    /// EC2 has no capacity for these.
    LoseCapacity(CapacityLoss),
    /// Prices change.
    ChangePrice(PriceChange),
    /// AWS publishes a newer release of images.
    ReleaseImages(ImageRelease),
    /// This number of the next instances end while they boot.
    DoomBoots(u32),
    /// Machines that boot do not join.
    NeverJoin(For),
    /// The controller dies and is started again.
    Restart,
    /// The controller is cut off.
    Disconnect(For),
}

/// Reason why a file gives no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The file cannot be read at all.
    #[error(
        "cannot read scenario `{path}`: {problem}; name a file of YAML, or a folder with .yaml files in it"
    )]
    File {
        path: String,
        /// Error of the operating system.
        problem: String,
    },
    /// The file contains something that a scenario cannot state.
    #[error("cannot read scenario `{path}`, line {line}{}: {problem}", of_field(.field))]
    Malformed {
        path: String,
        /// Counted from 1.
        line: u64,
        /// Empty where it is about no single one.
        field: String,
        /// Description of the error.
        problem: String,
    },
}

fn of_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", field `{field}`") }
}

/// Error at a place: line, field, problem.
type Wrong = (u64, String, String);

/// Reads a file, and the manifests it names.
pub fn read(path: &Path) -> Result<Scenario, Unread> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| Unread::File { path: name.clone(), problem: error.to_string() })?;
    parse(&name, &text, path.parent().unwrap_or(Path::new(""))).map_err(|(line, field, problem)| {
        let begins = |word: &str| text.lines().any(|line| line.starts_with(word));
        let (line, field, problem) = if begins("apiVersion:") && begins("kind:") {
            let meant = "it is a Kubernetes manifest; a scenario names it under `manifests`";
            (1, String::new(), meant.to_owned())
        } else {
            (line, field, problem)
        };
        Unread::Malformed { path: name.clone(), line, field, problem }
    })
}

/// Reads a scenario whose manifests are seen from `folder`.
fn parse(path: &str, text: &str, folder: &Path) -> Result<Scenario, Wrong> {
    let file: File =
        serde_saphyr::from_str_with_options(text, yaml::options()).map_err(|error| said(text, &error))?;
    if file.duration.0.is_zero() {
        return Err((line_of(text, "duration:"), "duration".to_owned(), "must be more than 0s".to_owned()));
    }
    settings(&file).map_err(|(name, problem)| (line_of(text, "settings:"), name, problem))?;
    let manifests = objects(&file.manifests, "manifests", folder)?;
    let mut events = Vec::new();
    for step in &file.timeline {
        add_events(step, file.duration.0, folder, &mut events)?;
    }
    events.sort_by_key(|event| event.at);
    for fault in &file.faults {
        let until = fault.value.until.unwrap_or(file.duration);
        if until <= fault.value.from {
            let problem = format!("ends at {until}, and begins at {} only", fault.value.from);
            return Err((fault.referenced.line(), "until".to_owned(), problem));
        }
    }
    if file.expect.is_empty() {
        let problem =
            "expects nothing; name what has to be true, for example `pods: {phase: pending, exactly: 0}`";
        return Err((line_of(text, "expect:"), "expect".to_owned(), problem.to_owned()));
    }
    let expected = |one: &Spanned<Expectation>| {
        let line = one.referenced.line();
        let what = Expected::of(one.value.clone(), file.duration);
        what.map(|what| Line { line, what }).map_err(|(field, problem)| (line, field.to_owned(), problem))
    };
    let expectations = file.expect.iter().map(expected).collect::<Result<_, _>>()?;
    let scenario =
        Scenario { path: path.to_owned(), file, manifests, events, expectations, text: text.to_owned() };
    names::check(&scenario, &scenario.objects())?;
    Ok(scenario)
}

/// Checks the names and values of settings.
fn settings(file: &File) -> Result<(), (String, String)> {
    let known: Vec<&'static str> = FLAGS.iter().chain(OWN).map(|flag| flag.name).collect();
    if let Some(name) = file.settings.keys().find(|name| !known.contains(&name.as_str())) {
        return Err((name.clone(), unknown("setting", name, &known)));
    }
    let given = |flag: &Flag| file.settings.get(flag.name).map(|text| (text.as_str(), Source::Flag));
    let refused = Settings::resolve(Home::Machine, given).err();
    refused.map_or(Ok(()), |errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(("settings".to_owned(), errors.join("; ")))
    })
}

/// The line that begins with a word; 1 when there is none.
fn line_of(text: &str, word: &str) -> u64 {
    text.lines().zip(1..).find(|(line, _)| line.starts_with(word)).map_or(1, |(_, number)| number)
}

/// Returns the error of the YAML reader, with its place.
fn said(text: &str, error: &Error) -> Wrong {
    let error = error.without_snippet();
    let place = error.location();
    let line = place.map_or(1, |place| place.line());
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (line, field.clone(), unknown("field", field, expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            (line, misread(text, error).field, unknown("value", variant, expected))
        }
        Error::SerdeMissingField { field, .. } => {
            // The reader names the last key it has seen, which for the file as a whole is any.
            let of_file = ["name", "manifests", "duration", "expect"].contains(field)
                && !text
                    .lines()
                    .any(|line| line.strip_prefix(field).is_some_and(|rest| rest.starts_with(':')));
            let line = if of_file { 1 } else { line };
            (line, (*field).to_owned(), "is missing, and a scenario needs it here".to_owned())
        }
        other => {
            let Misread { field, problem, .. } = misread(text, other);
            (line, field, problem)
        }
    }
}

fn unknown(what: &str, word: &str, known: &[&'static str]) -> String {
    let all = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let lower = word.to_lowercase();
    // Written in another case, it is near enough to no word by letters.
    let same = known.iter().copied().find(|one| one.to_lowercase() == lower);
    match same.or_else(|| near(word, known.iter().copied())) {
        Some(near) => format!("there is no {what} `{word}`; `{near}` is probably meant"),
        None => format!("there is no {what} `{word}`; there are {all}"),
    }
}

/// Refuses such numbers of replicas in steps.
fn few_enough(line: u64, replicas: impl IntoIterator<Item = u32>) -> Result<(), Wrong> {
    let asked = replicas.into_iter().find_map(|number| TooMany::of(number.into()));
    asked.map_or(Ok(()), |asked| Err((line, "replicas".to_owned(), asked.to_string())))
}

/// Adds what a step makes happen, each time.
fn add_events(
    given: &Spanned<Step>,
    duration: Duration,
    folder: &Path,
    events: &mut Vec<Event>,
) -> Result<(), Wrong> {
    let (line, step) = (given.referenced.line(), &given.value);
    let wrong = |field: &str, problem: &str| (line, field.to_owned(), problem.to_owned());
    let actions = actions(step, line, folder)?;
    let repeat = step.repeat.map_or((Duration::ZERO, 1), |repeat| (repeat.every.0, repeat.times));
    if step.repeat.is_some() && (repeat.0 < EVERY_MIN || repeat.1 == 0) {
        return Err(wrong("repeat", "needs `every` of at least 1s and `times` of more than 0"));
    }
    for time in 0..repeat.1 {
        for (after, action) in &actions {
            let at = step.at.0 + repeat.0 * time + *after;
            if at >= duration {
                let problem = format!("happens at {}, when the scenario is over", Span(at));
                return Err((line, "at".to_owned(), problem));
            }
            events.push(Event { at, line, action: action.clone() });
        }
    }
    Ok(())
}

/// Returns the actions of one step, and the delay of each after the step's time.
fn actions(step: &Step, line: u64, folder: &Path) -> Result<Vec<(Duration, Action)>, Wrong> {
    let mut all: Vec<(Duration, Action)> = Vec::new();
    let mut kinds = 0;
    if let Some(wave) = &step.wave {
        kinds += 1;
        if wave.replicas.is_empty() || wave.every.0 < EVERY_MIN {
            return Err((line, "wave".to_owned(), "needs `replicas` and `every` of at least 1s".to_owned()));
        }
        few_enough(line, wave.replicas.iter().copied())?;
        for (number, replicas) in (0..).zip(&wave.replicas) {
            let (deployment, namespace) = (wave.deployment.clone(), wave.namespace.clone());
            let scale = Scale { deployment, namespace, replicas: *replicas };
            all.push((wave.every.0 * number, Action::Scale(scale)));
        }
    }
    few_enough(line, step.scale.iter().map(|scale| scale.replicas))?;
    let mut one = |action: Option<Action>| {
        kinds += usize::from(action.is_some());
        all.extend(action.map(|action| (Duration::ZERO, action)));
    };
    let apply = step.apply.as_ref().map(|given| objects(given, "apply", folder)).transpose()?;
    one(apply.map(Action::Apply));
    one(step.scale.clone().map(Action::Scale));
    one(step.delete.clone().map(Action::Delete));
    one(step.remove_finalizers.clone().map(Action::RemoveFinalizers));
    one(step.interrupt.clone().map(Action::Interrupt));
    one(step.rebalance.clone().map(Action::Rebalance));
    one(step.terminate.clone().map(Action::Terminate));
    one(step.stop.clone().map(Action::Stop));
    one(step.silence.clone().map(Action::Silence));
    one(step.unhealthy.clone().map(Action::Sicken));
    one(step.differ.clone().map(Box::new).map(Action::Differ));
    one(step.capacity_loss.clone().map(Action::LoseCapacity));
    one(step.price.clone().map(Action::ChangePrice));
    one(step.image_release.clone().map(Action::ReleaseImages));
    one(step.doomed_boots.map(Action::DoomBoots));
    one(step.never_join.map(Action::NeverJoin));
    one(step.restart.map(|_| Action::Restart));
    one(step.disconnect.map(Action::Disconnect));
    if kinds == 1 {
        return Ok(all);
    }
    let problem = if kinds == 0 {
        "says when and not what"
    } else {
        "says more than one thing; make each a step of its own"
    };
    Err((line, "timeline".to_owned(), problem.to_owned()))
}

#[cfg(test)]
mod tests;
