//! Reconcilers common to every cloud.
