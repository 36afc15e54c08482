//! The second opinion on plans.
