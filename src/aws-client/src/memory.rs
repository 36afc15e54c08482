//! An AWS account in memory.
