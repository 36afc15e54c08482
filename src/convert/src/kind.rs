//! The kinds of older versions, read field by field into those of v1.
//!
//! Each module takes the fields of a `spec` and gives a `spec` of v1; metadata and what concerns several objects are
//! elsewhere.

pub(crate) mod claim;
pub(crate) mod class;
pub(crate) mod pool;
pub(crate) mod requirements;

mod kubelet;
mod selector;
