//! Names that others read and write too: labels, annotations, taints, finalizers, tags, condition types and reasons.
//!
//! Each is spelt here and nowhere else, so that what one controller writes another finds; `cargo xtask tidy` refuses a
//! second spelling. They are an API: a name never changes. What exists only on AWS is in a child called `aws`.

pub mod annotation;
pub mod condition;
pub mod finalizer;
pub mod label;
pub mod reason;
pub mod tag;
pub mod taint;

/// The present name of `key` in a table of old and present names.
pub fn today(key: &str, table: &[(&str, &'static str)]) -> Option<&'static str> {
    table.iter().find(|(old, _)| *old == key).map(|(_, name)| *name)
}
