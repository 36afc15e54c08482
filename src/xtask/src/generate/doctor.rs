//! The page of `karpenter doctor`, from its registry of checks.

use std::path::PathBuf;

use super::Generated;

/// The page.
pub(super) fn file() -> Generated {
    Generated { path: PathBuf::from("docs/doctor.md"), content: karpenter_doctor::page::page() }
}
