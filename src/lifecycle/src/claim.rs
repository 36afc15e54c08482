//! The life of a claim: from its finalizer to its removal, and what ends it before its time.

pub mod consistency;
pub mod consolidatable;
pub mod drift;
pub mod entry;
pub mod expiration;
pub mod finalize;
pub mod garbage;
pub mod hydration;
pub mod initialization;
pub mod launch;
pub mod liveness;
pub mod registration;
