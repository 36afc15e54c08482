//! The four patch formats of the Kubernetes API, as functions from object and patch to object.

pub(crate) mod apply;
mod fields;
pub(crate) mod json_patch;
pub(crate) mod lists;
pub(crate) mod merge;
pub(crate) mod strategic;
