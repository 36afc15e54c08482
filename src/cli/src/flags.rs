//! Command-line flags and environment variables of `karpenter controller`, and their way into settings.
//!
//! Where the reference has them, names, defaults and meaning are its own (spec aws-operations 3.1). Two differences,
//! both towards safety: a value that cannot be read stops the start with the flag, the value and what is allowed
//! (the reference silently takes the default), and an unknown feature gate is an error (it is ignored there).

pub(crate) mod bootstrap;
pub(crate) mod controller;
