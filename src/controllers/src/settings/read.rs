//! Turns the texts of flags into types and collects everything that is wrong.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use karpenter_model::settings::FeatureGates;
use karpenter_telemetry::logging;

use super::error::{SettingError, Source};
use super::flag::{FLAGS, Flag};

pub(super) struct Reader<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>> {
    given: G,
    errors: Vec<SettingError>,
}

impl<'a, G: Fn(&Flag) -> Option<(&'a str, Source)>> Reader<'a, G> {
    pub(super) fn new(given: G) -> Self {
        Self { given, errors: Vec::new() }
    }

    /// Every error found while reading.
    pub(super) fn finish(self) -> Result<(), Vec<SettingError>> {
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    pub(super) fn text(&mut self, name: &str) -> String {
        self.read(name, "a text", |text, _| Some(text.to_owned()))
    }

    pub(super) fn number<T: FromStr + Bounds>(&mut self, name: &str) -> T {
        self.read(name, T::BOUNDS, |text, _| text.parse().ok())
    }

    pub(super) fn duration(&mut self, name: &str) -> Duration {
        self.read(name, "a duration above zero such as 10s, 1m30s or 500ms", |text, _| {
            karpenter_api::parse_go_duration(text)
                .ok()
                .and_then(|span| Duration::try_from(span).ok())
                .filter(|span| !span.is_zero())
        })
    }

    /// Flags take `true` and `false`; the environment also takes what Go's parser takes.
    pub(super) fn boolean(&mut self, name: &str) -> bool {
        self.read(name, "true or false", |text, source| match (text, source) {
            ("true", _) | ("1" | "t" | "T" | "TRUE" | "True", Source::Environment) => Some(true),
            ("false", _) | ("0" | "f" | "F" | "FALSE" | "False", Source::Environment) => Some(false),
            _ => None,
        })
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
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

    /// Unknown gates are ignored, as users share settings between versions; those not named keep their defaults.
    pub(super) fn gates(&mut self, name: &str) -> FeatureGates {
        self.read(name, GATES, |text, _| {
            let mut gates = FeatureGates::default();
            for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
                let (gate, value) = entry.split_once('=')?;
                let value = value.trim().parse().ok()?;
                match gate.trim() {
                    "ReservedCapacity" => gates.reserved_capacity = value,
                    "SpotToSpotConsolidation" => gates.spot_to_spot_consolidation = value,
                    "NodeRepair" => gates.node_repair = value,
                    "NodeOverlay" => gates.node_overlay = value,
                    "StaticCapacity" => gates.static_capacity = value,
                    "CapacityBuffer" => gates.capacity_buffer = value,
                    _ => return None,
                }
            }
            Some(gates)
        })
    }

    /// Reads what was given; a wrong value is noted and the default used, so that all errors are found at once.
    fn read<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str, Source) -> Option<T>) -> T {
        let flag =
            FLAGS.iter().find(|flag| flag.name == name).expect("invariant: only names of the table are read");
        if let Some((value, source)) = (self.given)(flag) {
            match parse(value, source) {
                Some(parsed) => return parsed,
                None => self.errors.push(SettingError {
                    flag: flag.name,
                    env: flag.env,
                    source,
                    value: value.to_owned(),
                    allowed: allowed.to_owned(),
                }),
            }
        }
        parse(flag.default, Source::Flag).expect("invariant: every default is valid, checked by a test")
    }
}

/// What gates there are and how they are written. An unknown name is an error: a gate that is misspelt stays off
/// unnoticed otherwise.
const GATES: &str = "Name=true or Name=false, separated by commas; names are ReservedCapacity, \
                     SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity and CapacityBuffer";

/// What a number may be, in words.
pub(super) trait Bounds {
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
