//! The crate as its callers see it.

mod large;
mod memory;
