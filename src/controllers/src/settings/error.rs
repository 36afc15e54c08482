//! Errors of settings, worded so that they can be corrected.

use std::fmt;

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    Environment,
    /// Neither: it was left out.
    Nowhere,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Flag name without dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    pub source: Source,
    pub value: String,
    /// Accepted values.
    pub allowed: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flag, env, source, value, allowed } = self;
        match source {
            Source::Flag => write!(f, "flag `--{flag}` is `{value}`; use {allowed}"),
            Source::Environment => write!(f, "environment variable `{env}` is `{value}`; use {allowed}"),
            Source::Nowhere => {
                write!(f, "flag `--{flag}` or environment variable `{env}` is needed: {allowed}")
            }
        }
    }
}

impl std::error::Error for SettingError {}
