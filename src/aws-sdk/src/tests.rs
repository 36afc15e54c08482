//! The SDK backend on the wire: what is sent, and what the answers are turned into.

mod ec2;
mod environment;
mod errors;
mod paging;
mod shift;
mod support;
