//! Bootstrap against the in-memory account: repeated, damaged, interrupted, refused, undone.

mod account;
mod destroy;
mod interrupted;
mod refused;
mod repeated;
