//! Bootstrap against the in-memory account: repeated, damaged, interrupted, refused, undone.

mod account;
mod destroy;
mod half_created;
mod interrupted;
mod permissions;
mod ready;
mod refused;
mod repeated;
mod stack;
mod tags;
mod variants;
