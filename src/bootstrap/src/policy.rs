//! IAM and queue policy documents, built from settings as values.

pub mod controller;
pub mod document;
pub mod found;
pub mod node;
pub mod queue;
pub mod split;
pub mod trust;

pub use document::{Document, Effect, Principal, Statement};
pub use found::Found;
