//! Truth tables of compatibility between sets.
