//! Rules about where a pod may go, one per file.
//!
//! Requirements, offerings and resources are not here: they are bit sets and live in the catalogue.

pub(crate) mod bound_anti_affinity;
pub(crate) mod limits;
pub(crate) mod min_values;
