//! How AWS is asked: many questions in one call, answers kept for a while, errors as the provider port knows them.

pub(super) mod batch;
pub mod cache;
pub mod fault;
pub mod observer;
pub mod refusal;
pub mod selector;
