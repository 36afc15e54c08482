//! The vocabulary every crate speaks: pure data, no I/O.
