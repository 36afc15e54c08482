//! The AWS account of a run.
