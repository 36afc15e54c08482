//! Command-line flags and environment variables of `karpenter controller`, and their way into settings.
//!
//! Names, defaults and meaning are those of the reference where it has them (spec aws-operations 3.1). Two differences,
//! both towards safety: a value that cannot be read stops the start with the flag, the value and what is allowed
//! (the reference silently takes the default), and an unknown feature gate is an error (it is ignored there).

pub(crate) mod bootstrap;
pub(crate) mod controller;
