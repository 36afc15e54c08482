//! Calls to AWS: many questions in one call, answers kept for a while, errors in the terms of the provider port.

pub(super) mod batch;
pub mod cache;
pub mod fault;
pub mod observer;
pub mod refusal;
pub mod selector;
