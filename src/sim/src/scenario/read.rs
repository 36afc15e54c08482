//! Reads scenario files. What is wrong with one is said with its line and its field, and with the field that was probably
//! meant.

mod names;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result as Outcome, bail};
use karpenter_aws_sim::Options;
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{FLAGS, Flag, Home, OWN, Source};
use karpenter_kube_sim::apiserver::object;
use karpenter_model::names::tag;
use karpenter_plan::{Misread, TooMany, manifests_of, misread, near, region_of, too_many};
use serde_json::Value;
use serde_saphyr::{Error, Spanned};

use super::format::{
    CapacityLoss, Expectation, File, For, ImageRelease, Machines, Object, PriceChange, Scale, Step,
};
use super::value::Span;

/// The cluster of scenarios whose manifests name none.
const CLUSTER: &str = "demo";
/// Shortest time between two repetitions: in less than the time of a look at the world they cannot be distinguished.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// A scenario that can be played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file, as it was named.
    pub path: String,
    /// What it says about itself and its world.
    pub file: File,
    /// Objects the cluster begins with.
    pub manifests: Vec<Manifest>,
    /// What happens, in the order of time.
    pub events: Vec<Event>,
    /// What has to be true, in the order of the file.
    pub expectations: Vec<Line<Expectation>>,
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

    /// The line of a field of the file as a whole, as `duration`; 1 when it is not there.
    pub fn line_of(&self, field: &str) -> u64 {
        line_of(&self.text, &format!("{field}:"))
    }

    /// Whether it begins when those begin that do not say when.
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
    /// What is there.
    pub what: T,
}

/// An object, and the line of the file that brings it.
pub type Manifest = Line<Value>;

/// Something happens.
#[derive(Clone, Debug)]
pub struct Event {
    /// Since the beginning.
    pub at: Duration,
    /// Of the step that says so; a step that is repeated has several events.
    pub line: u64,
    /// What.
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Action {
    /// A Deployment gets another number of replicas.
    Scale(Scale),
    /// Manifests are applied.
    Apply(Vec<Manifest>),
    /// An object is deleted.
    Delete(Object),
    /// EC2 takes spot instances back, with two minutes of notice.
    Interrupt(Machines),
    /// Instances end without notice.
    Terminate(Machines),
    /// Kubelets fall silent.
    Silence(Machines),
    /// EC2 has none of these to sell.
    LoseCapacity(CapacityLoss),
    /// Prices change.
    ChangePrice(PriceChange),
    /// AWS publishes a newer release of images.
    ReleaseImages(ImageRelease),
    /// So many of the next instances end while they boot.
    DoomBoots(u32),
    /// Machines that boot do not join.
    NeverJoin(For),
    /// The controller dies and is started again.
    Restart,
    /// The controller is cut off.
    Disconnect(For),
}

/// Why there is no scenario in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The file cannot be read at all.
    #[error(
        "cannot read scenario `{path}`: {problem}; name a file of YAML, or a folder with .yaml files in it"
    )]
    File {
        /// As it was named.
        path: String,
        /// What the system says.
        problem: String,
    },
    /// It says something a scenario cannot say.
    #[error("cannot read scenario `{path}`, line {line}{}: {problem}", of_field(.field))]
    Malformed {
        /// As it was named.
        path: String,
        /// Counted from 1.
        line: u64,
        /// Empty where it is about no single one.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

fn of_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", field `{field}`") }
}

/// What is wrong at a place: line, field, problem.
type Wrong = (u64, String, String);

/// Reads a file, and the manifests it names.
pub fn read(path: &Path) -> Result<Scenario, Unread> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| Unread::File { path: name.clone(), problem: error.to_string() })?;
    parse(&name, &text, path.parent().unwrap_or(Path::new("")))
        .map_err(|(line, field, problem)| Unread::Malformed { path: name.clone(), line, field, problem })
}

/// The files of paths in their order. Of a folder its .yaml files by name, not those of its folders: those have manifests.
pub fn files(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found = entries(path, &["yaml", "yml"])
            .with_context(|| format!("cannot read folder `{}`; name one that exists", path.display()))?;
        found.retain(|path| path.is_file());
        if found.is_empty() {
            bail!("folder `{}` has no scenario; name one with .yaml files in it", path.display());
        }
        all.append(&mut found);
    }
    Ok(all)
}

/// Reads a scenario whose manifests are seen from `folder`.
fn parse(path: &str, text: &str, folder: &Path) -> Result<Scenario, Wrong> {
    let options = serde_saphyr::options! { with_snippet: false };
    let file: File =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| said(text, &error))?;
    if file.duration.0.is_zero() {
        return Err((line_of(text, "duration:"), "duration".to_owned(), "must be more than 0s".to_owned()));
    }
    settings(&file).map_err(|(name, problem)| (line_of(text, "settings:"), name, problem))?;
    let manifests = objects(&file.manifests, "manifests", folder)?;
    let mut events = Vec::new();
    for step in &file.timeline {
        happen(step, file.duration.0, folder, &mut events)?;
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
    let expectations =
        file.expect.iter().map(|one| expectation(one, file.duration)).collect::<Result<_, _>>()?;
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

/// What the reader of YAML says.
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

/// Objects of files and of the scenario itself.
fn objects(given: &[Spanned<Value>], field: &str, folder: &Path) -> Result<Vec<Manifest>, Wrong> {
    let mut all = Vec::new();
    for (index, one) in given.iter().enumerate() {
        let line = one.referenced.line();
        let wrong = |problem: String| (line, format!("{field}[{index}]"), problem);
        match &one.value {
            Value::String(path) => {
                for what in of_files(&folder.join(path)).map_err(wrong)? {
                    all.push(Line { line, what });
                }
            }
            Value::Object(_)
                if !object::text(&one.value, "/kind").is_empty() && !object::name(&one.value).is_empty() =>
            {
                all.push(Line { line, what: one.value.clone() });
            }
            Value::Object(_) => return Err(wrong("the object needs `kind` and `metadata.name`".to_owned())),
            _ => return Err(wrong("must be the path of a file or an object".to_owned())),
        }
    }
    all.iter().try_for_each(of_a_cluster)?;
    Ok(all)
}

/// The objects of a file, or of a folder as every command reads it.
fn of_files(path: &Path) -> Result<Vec<Value>, String> {
    if path == Path::new("-") {
        return Err("standard input is no part of a scenario; name a file or a folder".to_owned());
    }
    let paths = [path.to_owned()];
    let inputs =
        karpenter_convert::read(&paths).map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    let found = manifests_of(&paths, inputs.iter().map(|input| (&*input.name, &*input.text)));
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|manifest| manifest.object).collect())
}

/// Refuses objects that ask for more pods than a cluster can have.
fn of_a_cluster(manifest: &Manifest) -> Result<(), Wrong> {
    let what = &manifest.what;
    let Some((field, asked)) = too_many(what) else { return Ok(()) };
    let (kind, name) = (object::text(what, "/kind"), object::name(what));
    Err((manifest.line, field.to_owned(), format!("of {kind} `{name}` {asked}")))
}

/// Refuses such numbers of replicas in steps.
fn few_enough(line: u64, replicas: impl IntoIterator<Item = u32>) -> Result<(), Wrong> {
    let asked = replicas.into_iter().find_map(|number| TooMany::of(number.into()));
    asked.map_or(Ok(()), |asked| Err((line, "replicas".to_owned(), asked.to_string())))
}

/// What is in a folder and ends like this, by name.
fn entries(folder: &Path, endings: &[&str]) -> std::io::Result<Vec<PathBuf>> {
    let mut found =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    found.retain(|path| path.extension().is_some_and(|end| endings.iter().any(|one| end == *one)));
    found.sort();
    Ok(found)
}

/// Puts in what a step makes happen, each time.
fn happen(
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

/// What one step does, and how long after its time.
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
    one(step.interrupt.clone().map(Action::Interrupt));
    one(step.terminate.clone().map(Action::Terminate));
    one(step.silence.clone().map(Action::Silence));
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

/// Checks what serde cannot: that one thing is expected, with bounds, of times that exist.
fn expectation(given: &Spanned<Expectation>, duration: Span) -> Result<Line<Expectation>, Wrong> {
    let (line, what) = (given.referenced.line(), given.value.clone());
    let wrong = |field: &str, problem: &str| Err((line, field.to_owned(), problem.to_owned()));
    let Expectation { cost, nodes, pods, pending_time, disruptions, events, .. } = &what;
    let given = [
        cost.is_some(),
        nodes.is_some(),
        pods.is_some(),
        pending_time.is_some(),
        disruptions.is_some(),
        events.is_some(),
    ];
    let number = given.into_iter().filter(|given| *given).count();
    if number != 1 {
        let problem = "must expect one of `cost`, `nodes`, `pods`, `pendingTime`, `disruptions` and `events`";
        return wrong("expect", problem);
    }
    let counted = |exactly: &Option<u64>, most: &Option<u64>, least: &Option<u64>| {
        exactly.is_some() || most.is_some() || least.is_some()
    };
    let (field, bounded) = match (cost, nodes, pods, pending_time, disruptions, events) {
        (Some(cost), ..) => {
            if cost.per_hour.is_some() == cost.total.is_some() {
                return wrong("cost", "must have one of `perHour` and `total`");
            }
            let money = cost.per_hour.or(cost.total);
            ("cost", money.is_some_and(|money| money.at_most.is_some() || money.at_least.is_some()))
        }
        (_, Some(it), ..) => ("nodes", counted(&it.exactly, &it.at_most, &it.at_least)),
        (_, _, Some(it), ..) => ("pods", counted(&it.exactly, &it.at_most, &it.at_least)),
        (_, _, _, Some(it), ..) => {
            ("pendingTime", [it.p50, it.p90, it.p99, it.max].iter().any(Option::is_some))
        }
        (_, _, _, _, Some(it), _) => ("disruptions", counted(&it.exactly, &it.at_most, &it.at_least)),
        (.., Some(it)) => ("events", counted(&it.exactly, &it.at_most, &it.at_least)),
        _ => return wrong("expect", "expects nothing"),
    };
    if !bounded {
        let bounds = match field {
            "cost" => "`atMost` or `atLeast`",
            "pendingTime" => "`p50`, `p90`, `p99` or `max`",
            _ => "`exactly`, `atMost` or `atLeast`",
        };
        return wrong(field, &format!("has no bound; add {bounds}"));
    }
    times(&what, field, duration).map_err(|(field, problem)| (line, field.to_owned(), problem))?;
    Ok(Line { line, what })
}

/// Checks the times of an expectation.
fn times(what: &Expectation, field: &str, duration: Span) -> Result<(), (&'static str, String)> {
    let moment = match field {
        "nodes" | "pods" => true,
        "cost" => what.cost.as_ref().is_some_and(|cost| cost.per_hour.is_some()),
        _ => false,
    };
    let counted = matches!(field, "disruptions" | "events");
    if !moment && what.when.is_some() {
        return Err(("when", format!("means nothing for `{field}`, which is about a stretch of time")));
    }
    if !moment && field != "cost" && what.at.is_some() {
        return Err(("at", format!("means nothing for `{field}`, which is about a stretch of time")));
    }
    if what.at.is_some() && what.when.is_some() {
        return Err(("when", "is given together with `at`; leave one of them out".to_owned()));
    }
    if (what.from.is_some() || what.until.is_some()) && what.when.is_none() && !counted {
        return Err(("from", "needs `when: always` or `when: eventually`".to_owned()));
    }
    if let Some(late) = [what.at, what.from, what.until].into_iter().flatten().find(|time| *time > duration) {
        return Err(("at", format!("is {late}, when the scenario is over after {duration}")));
    }
    if what.until.is_some_and(|until| until <= what.from.unwrap_or_default()) {
        return Err(("until", "is not after `from`".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
name: a scenario
manifests: []
duration: 10m
timeline:
  - at: 1m
    scale: {deployment: web, replicas: 3}
faults:
  - {fault: awsErrors, until: 5m}
expect:
  - nodes: {atMost: 3}
";

    fn wrong(text: &str) -> Wrong {
        parse("a.yaml", text, Path::new("")).unwrap_err()
    }

    #[test]
    fn a_good_file_is_read() {
        let scenario = parse("a.yaml", GOOD, Path::new("")).unwrap();
        assert_eq!((scenario.file.name.as_str(), scenario.file.seed), ("a scenario", 1));
        assert_eq!(scenario.file.start.to_string(), "2026-01-01T12:00:00Z");
        assert_eq!(scenario.events.len(), 1);
        assert_eq!(scenario.expectations[0].line, 10);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn what_is_wrong_is_said_with_line_and_field() {
        let cases = [
            (
                "duration: 10m",
                "duraton: 10m",
                3,
                "duraton",
                "there is no field `duraton`; `duration` is probably meant",
            ),
            (
                "duration: 10m",
                "duration: ten",
                3,
                "duration",
                "`ten` is no duration; write it as 90s, 5m or 1h30m",
            ),
            (
                "replicas: 3}",
                "replicas: many}",
                6,
                "replicas",
                "`many` is not a whole number from 0 to 4294967295",
            ),
            (
                "replicas: 3}",
                "replicas: 1000000000}",
                5,
                "replicas",
                "is 1000000000, and a cluster has at most 150000 pods; write fewer",
            ),
            (
                "scale: {deployment: web, replicas: 3}",
                "wave: {deployment: web, replicas: [1, 150001], every: 1m}",
                5,
                "replicas",
                "is 150001, and a cluster has at most 150000 pods; write fewer",
            ),
            (
                "manifests: []",
                "manifests: [{kind: Deployment, metadata: {name: web}, spec: {replicas: 1000000000}}]",
                2,
                "replicas",
                "of Deployment `web` is 1000000000, and a cluster has at most 150000 pods; write fewer",
            ),
            (
                "replicas: 3}",
                "replicas: 3}\n    repeat: {every: 1ns, times: 4000000000}",
                5,
                "repeat",
                "needs `every` of at least 1s and `times` of more than 0",
            ),
            ("timeline:", "timeline: 3\nfaults:\n#", 4, "timeline", "must be a list"),
            ("    scale: {", "   scale: {", 6, "scale", ""),
            ("name: a scenario", "name: [a]", 1, "name", "must be one value, and is a list or has fields"),
            ("name: a scenario", "name: a\nname: b", 2, "name", "is there twice; leave one of them out"),
            ("name: a scenario", "name: {{ name }}", 1, "name", ""),
            (
                "replicas: 3}",
                "replica: 3}",
                6,
                "replica",
                "there is no field `replica`; `replicas` is probably meant",
            ),
            (
                "awsErrors",
                "awsError",
                8,
                "fault",
                "there is no value `awsError`; `awsErrors` is probably meant",
            ),
            ("until: 5m", "until: 0s", 8, "until", "ends at 0s, and begins at 0s only"),
            (
                "atMost: 3",
                "atmost: 3",
                10,
                "atmost",
                "there is no field `atmost`; `atMost` is probably meant",
            ),
            ("{atMost: 3}", "{pool: a}", 10, "nodes", "has no bound; add `exactly`, `atMost` or `atLeast`"),
            ("at: 1m", "at: 11m", 5, "at", "happens at 11m, when the scenario is over"),
            ("manifests: []", "manifests: [none.yaml]", 2, "manifests[0]", ""),
            (
                "manifests: []",
                "manifests: [{kind: Pod}]",
                2,
                "manifests[0]",
                "the object needs `kind` and `metadata.name`",
            ),
            ("    scale: {deployment: web, replicas: 3}\n", "", 5, "timeline", "says when and not what"),
            ("name: a scenario\n", "", 1, "name", "is missing, and a scenario needs it here"),
            (
                "  - nodes: {atMost: 3}",
                "  - pendingTime: {max: 1m}\n    at: 5m",
                10,
                "at",
                "means nothing for `pendingTime`, which is about a stretch of time",
            ),
            ("  - nodes: {atMost: 3}", "  []", 9, "expect", ""),
        ];
        for (good, bad, line, field, problem) in cases {
            let found = wrong(&GOOD.replacen(good, bad, 1));
            assert_eq!((found.0, found.1.as_str()), (line, field), "{bad}: {found:?}");
            assert!(problem.is_empty() || found.2 == problem, "{bad}: {found:?}");
        }
    }

    #[test]
    fn the_whole_message_names_file_line_and_field() {
        let (line, field, problem) = wrong(&GOOD.replace("expect:", "expectations:"));
        let found = Unread::Malformed { path: "a.yaml".to_owned(), line, field, problem }.to_string();
        assert_eq!(
            found.split("; there are").next().unwrap(),
            "cannot read scenario `a.yaml`, line 9, field `expectations`: there is no field `expectations`"
        );
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_said_with_its_own_file_line_and_field() {
        let folder = tempfile::tempdir().unwrap();
        let deeper = folder.path().join("deeper");
        std::fs::create_dir(&deeper).unwrap();
        std::fs::write(deeper.join("a.yaml"), "kind: Pod\nmetadata: {name: a}\n---\nkind: [\n").unwrap();
        let text = GOOD.replace("manifests: []", "manifests: [deeper]");
        let (line, field, problem) = parse("a.yaml", &text, folder.path()).unwrap_err();
        let file = deeper.join("a.yaml");
        let expected = format!(
            "cannot read `{}`, line 4, field `kind`: is no YAML here: unclosed bracket '['; correct it or leave the file out",
            file.display()
        );
        assert_eq!((line, field.as_str(), problem), (2, "manifests[0]", expected));
    }

    #[test]
    fn a_folder_is_read_with_its_folders_and_one_without_objects_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let deeper = folder.path().join("deploy/deeper");
        std::fs::create_dir_all(&deeper).unwrap();
        std::fs::write(deeper.join("a.json"), "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}")
            .unwrap();
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        let read = |manifests: &str| {
            parse(
                "a.yaml",
                &GOOD.replace("manifests: []", &format!("manifests: [{manifests}]")),
                folder.path(),
            )
        };
        assert_eq!(read("deploy").unwrap().manifests.len(), 1);
        let (_, field, problem) = read("empty").unwrap_err();
        assert_eq!(field, "manifests[0]");
        assert!(problem.ends_with("/empty`; name files or folders with manifests"), "{problem}");
        assert!(parse("a.yaml", &GOOD.replace("manifests: []", "manifests: ['-']"), Path::new("")).is_err());
    }

    #[test]
    fn waves_and_repetitions_are_spelled_out_in_the_order_of_time() {
        let text = GOOD.replace("duration: 10m", "duration: 50h").replace(
            "    scale: {deployment: web, replicas: 3}\n",
            "    wave: {deployment: web, replicas: [1, 2, 3], every: 1h}\n    repeat: {every: 24h, times: 2}\n",
        );
        let scenario = parse("a.yaml", &text, Path::new("")).unwrap();
        let times: Vec<u64> = scenario.events.iter().map(|event| event.at.as_secs() / 60).collect();
        assert_eq!(times, [1, 61, 121, 1441, 1501, 1561]);
    }

    #[test]
    fn a_file_that_is_not_there_has_no_line() {
        let error = read(Path::new("missing/a.yaml")).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read scenario `missing/a.yaml`: "), "{error}");
        assert!(error.ends_with("; name a file of YAML, or a folder with .yaml files in it"), "{error}");
    }
}
