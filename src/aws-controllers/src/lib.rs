//! Reconcilers that exist only for AWS.
