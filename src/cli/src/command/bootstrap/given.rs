//! Flags, and which of them were given: a default gives way to what is recorded elsewhere, a flag that was given does not.

use std::collections::BTreeSet;

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

use crate::flags::bootstrap::BootstrapFlags;

/// The flags with which of them the caller gave, as a flag or by its environment variable.
pub(super) struct Given {
    pub(super) flags: BootstrapFlags,
    given: BTreeSet<String>,
}

impl Given {
    /// Returns whether the caller gave the flag with this id: its name with underscores.
    pub(super) fn has(&self, id: &str) -> bool {
        self.given.contains(id)
    }
}

impl Args for Given {
    fn group_id() -> Option<Id> {
        BootstrapFlags::group_id()
    }

    fn augment_args(command: Command) -> Command {
        BootstrapFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        BootstrapFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: given(matches), flags: BootstrapFlags::from_arg_matches(matches)? })
    }

    /// Reading flags takes them out of `matches`, so where they come from is read before.
    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: given(matches), flags: BootstrapFlags::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.given.extend(given(matches));
        self.flags.update_from_arg_matches(matches)
    }
}

fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let is_given = |id: &&Id| matches.value_source(id.as_str()) != Some(ValueSource::DefaultValue);
    matches.ids().filter(is_given).map(ToString::to_string).collect()
}
