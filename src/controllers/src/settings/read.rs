//! Turns the texts of flags into types and collects everything that is wrong.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use karpenter_api::{repair_policies, scheduler_config};
use karpenter_model::Price;
use karpenter_model::pod::affinity::WhenUnsatisfiable;
use karpenter_model::repair::WrittenPolicy;
use karpenter_model::settings::{DefaultSpread, FeatureGates};
use karpenter_telemetry::logging;

use super::error::{SettingError, Source};
use super::flag::{Flag, GATES};

/// Reads the settings of some tables and collects what is wrong with them.
pub struct Reader<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>> {
    tables: &'static [&'static [Flag]],
    given: G,
    errors: Vec<SettingError>,
}

impl<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>> Reader<'a, G> {
    /// A reader of `tables`. `given` answers with the text and its origin when a flag or variable is set.
    pub fn new(tables: &'static [&'static [Flag]], given: G) -> Self {
        Self { tables, given, errors: Vec::new() }
    }

    /// Every error found while reading.
    pub fn finish(self) -> Result<(), Vec<SettingError>> {
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    /// Any text.
    pub fn text(&mut self, name: &str) -> String {
        self.read(name, "a text", |text, _| Some(text.to_owned()))
    }

    /// A text that must be given; `what` describes what `allows` accepts.
    pub fn required(&mut self, name: &str, what: &str, allows: impl Fn(&str) -> bool) -> String {
        let flag = self.flag(name);
        let (text, source) = (self.given)(flag).unwrap_or((flag.default, Source::Nowhere));
        if text.is_empty() || !allows(text) {
            self.refuse(flag, source, text, what);
        }
        text.to_owned()
    }

    /// A number.
    pub fn number<T: FromStr + Bounds>(&mut self, name: &str) -> T {
        self.read(name, T::BOUNDS, |text, _| text.parse().ok())
    }

    /// A duration above zero.
    pub fn duration(&mut self, name: &str) -> Duration {
        self.read(name, "a duration above zero such as 10s, 1m30s or 500ms", |text, _| {
            parse_duration(text).filter(|span| !span.is_zero())
        })
    }

    /// A duration that may be zero.
    pub fn span(&mut self, name: &str) -> Duration {
        self.read(name, "a duration such as 0s, 10s or 1m30s", |text, _| parse_duration(text))
    }

    /// A duration of at least a minute.
    pub fn duration_from_one_minute(&mut self, name: &str) -> Duration {
        self.read(name, "a duration of at least 1m such as 5m or 1h30m", |text, _| {
            parse_duration(text).filter(|span| *span >= Duration::from_mins(1))
        })
    }

    /// A price in dollars, not negative.
    pub(super) fn price(&mut self, name: &str) -> Price {
        self.read(name, "dollars that are not negative, such as 0.05", |text, _| {
            text.parse().ok().filter(|price: &Price| price.nanos() >= 0)
        })
    }

    /// A percentage, 0 to 100.
    pub(super) fn percent(&mut self, name: &str) -> u8 {
        self.read(name, "a whole number from 0 to 100", |text, _| {
            text.parse().ok().filter(|percent| *percent <= 100)
        })
    }

    /// A count of at least one.
    pub(super) fn count(&mut self, name: &str) -> u32 {
        self.read(name, "a whole number of at least 1", |text, _| {
            text.parse().ok().filter(|count| *count > 0)
        })
    }

    /// The default constraints of a scheduler's configuration.
    pub(super) fn scheduler_config(&mut self, name: &str) -> Vec<DefaultSpread> {
        let flag = self.flag(name);
        let Some((text, source)) = (self.given)(flag) else { return Vec::new() };
        scheduler_config::default_constraints(text).unwrap_or_else(|wanted| {
            self.refuse(flag, source, text, &wanted);
            Vec::new()
        })
    }

    /// Repair policies of the user.
    pub(super) fn repair_policies(&mut self, name: &str) -> Vec<WrittenPolicy> {
        let flag = self.flag(name);
        let Some((text, source)) = (self.given)(flag) else { return Vec::new() };
        repair_policies::written(text).unwrap_or_else(|wanted| {
            self.refuse(flag, source, text, &wanted);
            Vec::new()
        })
    }

    /// Topology spread constraints.
    pub(super) fn spread(&mut self, name: &str) -> Vec<DefaultSpread> {
        self.read(name, SPREAD, |text, _| {
            let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            entries.map(parse_spread).collect()
        })
    }

    /// Flags take `true` and `false`; the environment also takes what Go's parser takes.
    pub fn boolean(&mut self, name: &str) -> bool {
        self.read(name, "true or false", |text, source| match source {
            Source::Environment => boolean_of_go(text),
            _ => text.parse().ok(),
        })
    }

    /// Reads a value that is one of several words.
    pub fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.read(name, &names.join(" or "), |text, _| {
            choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
        })
    }

    /// An IP address; `None` when it is left empty.
    pub(super) fn address(&mut self, name: &str) -> Option<IpAddr> {
        self.read(name, "an IP address, such as 127.0.0.1, 0.0.0.0 or ::", |text, _| {
            if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
        })
    }

    pub(super) fn log_level(&mut self, name: &str) -> logging::Level {
        self.read(name, "debug, info, warn or error", |text, _| text.parse().ok())
    }

    pub(super) fn outputs(&mut self, name: &str) -> Vec<logging::Output> {
        self.read(name, "stdout, stderr or file paths, separated by commas", |text, _| {
            let paths: Vec<&str> = text.split(',').map(str::trim).collect();
            paths
                .iter()
                .all(|path| !path.is_empty())
                .then(|| paths.into_iter().map(logging::Output::from).collect())
        })
    }

    /// Gates that are not named keep their defaults; unknown ones are wrong.
    pub(super) fn gates(&mut self, name: &str) -> FeatureGates {
        self.read(name, GATES_ALLOWED, |text, _| {
            let mut gates = FeatureGates::default();
            for (gate, value) in gate_list(text)? {
                let gate = GATES.iter().find(|known| known.name == gate)?;
                *(gate.place)(&mut gates) = value;
            }
            Some(gates)
        })
    }

    /// Any value; `allowed` describes in words what `parse` accepts.
    pub fn value<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        self.read(name, allowed, |text, _| parse(text))
    }

    /// Reads what was given; a wrong value is noted and the default used, so that all errors are found at once.
    fn read<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str, Source) -> Option<T>) -> T {
        let flag = self.flag(name);
        if let Some((value, source)) = (self.given)(flag) {
            match parse(value, source) {
                Some(parsed) => return parsed,
                None => self.refuse(flag, source, value, allowed),
            }
        }
        parse(flag.default, Source::Flag).expect("invariant: every default is valid, checked by a test")
    }

    fn flag(&self, name: &str) -> &'static Flag {
        let mut flags = self.tables.iter().flat_map(|table| table.iter());
        flags.find(|flag| flag.name == name).expect("invariant: only names of the tables are read")
    }

    fn refuse(&mut self, flag: &'static Flag, source: Source, value: &str, allowed: &str) {
        self.errors.push(SettingError {
            flag: flag.name,
            env: flag.env,
            source,
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        });
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    karpenter_api::parse_go_duration(text).ok()
}

/// Notation of a spread. The key may hold no colons, as no label key may.
const SPREAD: &str = "topologyKey:maxSkew:whenUnsatisfiable, separated by commas, such as \
                      topology.kubernetes.io/zone:5:ScheduleAnyway; maxSkew is at least 1, whenUnsatisfiable is \
                      DoNotSchedule or ScheduleAnyway";

fn parse_spread(entry: &str) -> Option<DefaultSpread> {
    let mut parts = entry.split(':');
    let (key, skew, unsatisfiable) = (parts.next()?, parts.next()?, parts.next()?);
    let when_unsatisfiable = match unsatisfiable {
        "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
        _ => return None,
    };
    let max_skew = skew.parse().ok().filter(|skew| *skew > 0)?;
    let valid = parts.next().is_none() && !key.is_empty();
    valid.then(|| DefaultSpread::new(key.into(), max_skew, when_unsatisfiable))
}

/// Names and values of a list such as `A=true,B=false`; `None` when an entry has another form.
pub fn gate_list(text: &str) -> Option<Vec<(&str, bool)>> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (gate, value) = entry.split_once('=')?;
            Some((gate.trim(), boolean_of_go(value.trim())?))
        })
        .collect()
}

/// Parses a text as `strconv.ParseBool` of Go does.
fn boolean_of_go(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Some(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Known gates and their notation. An unknown name is an error: a gate that is misspelt stays off
/// unnoticed otherwise.
const GATES_ALLOWED: &str = "Name=true or Name=false, separated by commas; names are ReservedCapacity, \
                     SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer, \
                     TerminateFirstDrift, TerminateFirstRepair and PodDeletionCostManagement";

/// Range of a number, with its description in words.
pub trait Bounds {
    /// The words.
    const BOUNDS: &'static str;
}

impl Bounds for u16 {
    const BOUNDS: &'static str = "a port, 0 to 65535";
}

impl Bounds for u32 {
    const BOUNDS: &'static str = "a whole number that is not negative";
}

impl Bounds for i64 {
    const BOUNDS: &'static str = "a whole number";
}
