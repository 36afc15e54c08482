//! The SDK backend on the wire: what is sent, and what becomes of the answers.

mod ec2;
mod environment;
mod errors;
mod paging;
mod shift;
mod support;
