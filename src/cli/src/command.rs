//! One file per subcommand.

pub(crate) mod bootstrap;
pub(crate) mod crds;
