//! Flags that every Karpenter has: the table of `karpenter_controllers::settings`, put on the command line.
//!
//! The table is the one source of names, variables, defaults and help; this file only hands clap's findings to
//! [`Settings::resolve`], which knows what each value may be.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{FLAGS, Home, Source};

const HEADING: &str = "Core settings";

/// The texts that were given, by flag name, with where they came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreFlags(BTreeMap<&'static str, (String, Source)>);

impl CoreFlags {
    /// The settings, or every value that cannot be used, one per line.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let given = |name: &str| self.0.get(name).map(|(text, source)| (text.as_str(), *source));
        // Every pod has this variable, and nothing else does.
        let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let home = if in_pod { Home::Pod } else { Home::Machine };
        Settings::resolve(home, |flag| given(flag.name)).map_err(|errors| {
            let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("{}", lines.join("\n       "))
        })
    }
}

impl Args for CoreFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| {
            let default = if flag.default.is_empty() { "none" } else { flag.default };
            let mut arg = Arg::new(flag.name)
                .long(flag.name)
                .env(flag.env)
                .hide_env_values(true)
                .help(format!("{} [default: {default}]", flag.help))
                .help_heading(HEADING);
            if flag.boolean {
                arg =
                    arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL");
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CoreFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = BTreeMap::new();
        for flag in FLAGS {
            let Some(text) = matches.get_one::<String>(flag.name) else { continue };
            let source = match matches.value_source(flag.name) {
                Some(ValueSource::EnvVariable) => Source::Environment,
                _ => Source::Flag,
            };
            // The reference chart leaves some variables empty to mean "the default".
            if source == Source::Flag || !text.is_empty() {
                given.insert(flag.name, (text.clone(), source));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        core: CoreFlags,
    }

    fn parse(arguments: &[&str]) -> anyhow::Result<Settings> {
        Parsed::try_parse_from(std::iter::once("karpenter").chain(arguments.iter().copied()))?.core.settings()
    }

    #[test]
    fn flags_reach_the_settings() {
        let settings = parse(&["--batch-idle-duration", "2s", "--disable-leader-election"]).unwrap();
        assert_eq!(settings.decisions.batch_idle, std::time::Duration::from_secs(2));
        assert!(!settings.leader_election.enabled);
    }

    #[test]
    fn every_wrong_value_is_named_with_flag_and_what_is_allowed() {
        let error = parse(&["--metrics-port", "http", "--feature-gates", "NodeRepairs=true"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("flag `--metrics-port` is `http`"), "{error}");
        assert!(error.contains("flag `--feature-gates` is `NodeRepairs=true`"), "{error}");
    }
}
